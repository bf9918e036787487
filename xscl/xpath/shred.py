"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

The witnesses are exact: a place matches a node (`xscl.xpath.walk`) only if its
conditions hold at that node and the place before matches the node above, and a
pair of bindings is a witness only if the steps between the two hold between
these very nodes.

What is the same in many documents is not written once for each: rows of a
structure are repeated as columns, rows of a place that matches are bytes that
are put one after the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from lxml import etree

from templates.relations import BINDINGS, VALUES
from xscl.xpath.nfa import Automaton
from xscl.xpath.places import Entry, Place
from xscl.xpath.rows import WIDTH, Column, Packed, bindings
from xscl.xpath.shape import Rows, Shape
from xscl.xpath.walk import Walk, run

FEW = 1_000  # documents whose rows are put together at once


class _Numbered(dict[str, int]):
    """Texts with numbers: one that is asked for the first time gets the next."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class _Values(dict[int, int]):
    """The numbers of the values of one document's nodes, as far as they are wanted; -1 for -1."""

    __slots__ = ("_numbers", "_walk")

    def __init__(self, walk: Walk, numbers: _Numbered) -> None:
        self[-1] = -1
        self._walk = walk
        self._numbers = numbers

    def __missing__(self, node: int) -> int:
        number = self[node] = self._numbers[self._walk.text(node)]
        return number

    def numbers(self) -> set[int]:
        """Return the different numbers."""
        return set(self.values()) - {-1}


class _Together:
    """Packed rows of some documents of one structure."""

    def __init__(self, wanted: dict[int, int]) -> None:
        self._wanted = wanted  # the nodes whose values rows want, with their places
        self._rows: list[Packed] = []
        self._docs: list[int] = []
        self._values: list[_Values] = []  # of each document
        self._counts: list[int] = []  # how many of `_rows` each document has

    def add(self, doc: int, values: _Values, rows: Sequence[Packed]) -> None:
        """Add the rows of a document."""
        self._rows += rows
        self._docs.append(doc)
        self._values.append(values)
        self._counts.append(len(rows))

    def columns(self) -> list[Any]:
        """Return the columns of all rows."""
        sizes = np.fromiter(map(len, self._rows), np.int64, len(self._rows)) // (4 * WIDTH)
        rows = np.frombuffer(b"".join(self._rows), np.int32).reshape(-1, WIDTH)
        ends = np.append(0, np.cumsum(sizes))[np.cumsum(self._counts)]
        which = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        pairs, firsts, seconds, wanted = np.ascontiguousarray(rows.T)
        docs = np.array(self._docs, np.int64)[which]
        return [docs, pairs, firsts, seconds, self._numbers(which, wanted)]

    def _numbers(self, which: Any, wanted: Any) -> Any:
        """Return the numbers of values, given which document's rows are, and what they want."""
        numbers = np.full((len(self._docs), len(self._wanted) + 1), -1, np.int32)
        asked = np.zeros(numbers.shape, np.bool_)
        asked[which, wanted] = True
        values = self._values
        for node, place in self._wanted.items():
            (docs,) = np.nonzero(asked[:, place])
            if len(docs):
                numbers[docs, place] = [values[doc][node] for doc in docs.tolist()]
        return numbers[which, wanted]


class Columns:
    """The columns of a batch's witnesses while they grow."""

    def __init__(self) -> None:
        self._shaped: dict[Rows, tuple[list[int], list[int]]] = {}  # documents; values of each
        self._packed: dict[Shape, _Together] = {}
        self._parts: list[list[Any]] = []  # what packed rows have come to
        self._docs: Column = array("q")
        self._bindings: tuple[Column, Column, Column, Column]
        self._bindings = array("i"), array("i"), array("i"), array("i")
        self._numbers = _Numbered()
        self._values: list[_Values] = []
        self._occurring: list[int] = []  # numbers of values, once for each document that has them

    def add(
        self, automaton: Automaton, doc: int, streams: tuple[str, ...], root: etree._Element
    ) -> None:
        """Add the witnesses of one document."""
        walk = run(automaton, streams, root)
        if walk is None:
            return
        shape = walk.shape
        value = _Values(walk, self._numbers)
        self._values.append(value)
        if len(shape.rows):
            docs, known = self._shaped.setdefault(shape.rows, ([], []))
            docs.append(doc)
            known += map(value.__getitem__, shape.rows.valued)
        before = len(self._bindings[0])
        for entry in shape.derived:
            self._derived(entry, walk, value)
        if walk.hits:
            self._add_hits(doc, walk, value)
        self._docs += array("q", (doc,)) * (len(self._bindings[0]) - before)
        if len(self._values) >= FEW:
            self._put_together()

    def _add_hits(self, doc: int, walk: Walk, value: _Values) -> None:
        """Add the rows of the places with conditions on values that match."""
        known = walk.known()
        packed: list[Packed] = []
        for place, nodes in walk.hits.items():
            rows = known.get((place.bundle, nodes[0])) if len(nodes) == 1 else None
            if rows is None:
                rows = walk.packed(place, nodes)
            if rows is None:
                self._add_below(place, nodes, walk, value)
            else:
                packed.append(rows)
        if packed:
            shape = walk.shape
            together = self._packed.get(shape)
            if together is None:
                together = self._packed[shape] = _Together(shape.wanted)
            together.add(doc, value, packed)

    def _put_together(self) -> None:
        """Make columns of packed rows, and let the documents go."""
        self._parts += [together.columns() for together in self._packed.values()]
        self._packed.clear()
        for value in self._values:
            self._occurring += value.numbers()
        self._values.clear()

    def _add_below(self, place: Place, nodes: Sequence[int], walk: Walk, value: _Values) -> None:
        """Add the rows of what is asked for at a place that matches, and below it."""
        if place.entries:
            self._add(place.entries, nodes, walk, value)
        shape = walk.shape
        children = place.children
        for child in children if isinstance(children, tuple) else place.children_at(shape.found):
            if below := shape.under(child.state, nodes):
                if child.children:
                    self._add_below(child, below, walk, value)
                else:
                    self._add(child.entries, below, walk, value)

    def _add(
        self, entries: Iterable[Entry], nodes: Sequence[int], walk: Walk, value: _Values
    ) -> None:
        """Add the rows of entries, given the nodes that match the second variable of each."""
        pairs, firsts, seconds, values = self._bindings
        parents = walk.shape.structure.parents
        for entry in entries:
            if entry.derived is not None:
                self._derived(entry, walk, value)
            elif entry.distance == 1:
                for node in nodes:
                    pairs.append(entry.pair)
                    firsts.append(parents[node])
                    seconds.append(node)
                    values.append(value[node] if entry.valued else -1)
            else:
                for first, second in bindings(entry, nodes, parents, walk.matching):
                    pairs.append(entry.pair)
                    firsts.append(first)
                    seconds.append(second)
                    values.append(value[second] if entry.valued else -1)

    def _derived(self, entry: Entry, walk: Walk, value: _Values) -> None:
        """Add the rows of an entry for derived nodes, and note their values."""
        assert entry.derived is not None
        pairs, firsts, seconds, values = self._bindings
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                value[made] = self._numbers[text]
                pairs.append(entry.pair)
                firsts.append(made if entry.alone else upper)
                seconds.append(made)
                values.append(value[made] if entry.valued else -1)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.relations.Witnesses`)."""
        self._put_together()
        parts = [_repeated(rows, *shaped) for rows, shaped in self._shaped.items()]
        parts.append([np.array(column) for column in (self._docs, *self._bindings)])
        united = [np.concatenate(column) for column in zip(*parts, *self._parts, strict=True)]
        without = [None, None, None, None, united[4] < 0]  # rows without a value
        arrays = [
            pa.array(column, field.type, mask=mask)
            for column, field, mask in zip(united, BINDINGS, without, strict=True)
        ]
        documents = np.bincount(self._occurring, minlength=len(self._numbers))
        values = [pa.array(list(self._numbers), pa.string()), pa.array(documents, pa.int32())]
        return pa.table(arrays, schema=BINDINGS), pa.table(values, schema=VALUES)


def _repeated(rows: Rows, docs: list[int], values: list[int]) -> list[Any]:
    """Return the columns of all documents that have the same rows, each with its own values."""
    count = len(docs)
    numbered = np.full((count, len(rows.valued) + 1), -1, np.int32)  # the last for those without
    numbered[:, :-1] = np.array(values, np.int32).reshape(count, -1)
    return [
        np.repeat(np.array(docs, np.int64), len(rows)),
        np.tile(rows.pairs, count),
        np.tile(rows.firsts, count),
        np.tile(rows.seconds, count),
        numbered[:, rows.wanted].ravel(),
    ]
