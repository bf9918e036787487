"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

The witnesses are exact: a place matches a node (`xscl.xpath.together`) only if its
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
from xscl.xpath.shape import Rows, Shape, shape_of
from xscl.xpath.structure import outline
from xscl.xpath.together import Together
from xscl.xpath.view import rows_of
from xscl.xpath.walk import Walk

FEW = 1_000  # documents that are looked at together, as far as they have one shape

_NONE = [np.array([], kind) for kind in (np.int64, np.int32, np.int32, np.int32, np.int32)]


class _Numbered(dict[str, int]):
    """Texts with numbers: one that is asked for the first time gets the next."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class Columns:
    """The columns of a batch's witnesses while they grow; the automaton stays as it is."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._alike: dict[Shape, Together] = {}
        self._waiting = 0  # documents that are not looked at yet
        self._parts: list[list[Any]] = []
        self._numbers = _Numbered()
        self._occurring: list[Any] = []  # numbers of values, once for each document that has them

    def add(self, doc: int, streams: tuple[str, ...], root: etree._Element) -> None:
        """Add the witnesses of one document."""
        nodes = list(root.iter())
        shape = shape_of(self._automaton, streams, outline(nodes))
        if shape is None:
            return
        together = self._alike.get(shape)
        if together is None:
            together = self._alike[shape] = Together(shape)
        together.add(doc, nodes)
        self._waiting += 1
        if self._waiting >= FEW:
            self._look()

    def _look(self) -> None:
        """Find what matches in the documents so far, and let them go."""
        alike, self._alike = self._alike, {}
        self._waiting = 0
        for together in alike.values():
            together.find(self._automaton.changes)
            made = _Made(together, self._numbers)
            self._parts += made.parts
            self._occurring.append(made.occurring())
            together.walks.clear()  # they know it: without this they would be garbage in a circle

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.relations.Witnesses`)."""
        self._look()
        parts = zip(*(_NONE, *self._parts), strict=True)
        united = [np.concatenate(column) for column in parts]
        without = [None, None, None, None, united[4] < 0]  # rows without a value
        arrays = [
            pa.array(column, field.type, mask=mask)
            for column, field, mask in zip(united, BINDINGS, without, strict=True)
        ]
        occurring = np.concatenate([_NONE[4], *self._occurring])
        documents = np.bincount(occurring, minlength=len(self._numbers))
        values = [pa.array(list(self._numbers), pa.string()), pa.array(documents, pa.int32())]
        return pa.table(arrays, schema=BINDINGS), pa.table(values, schema=VALUES)


class _Made:
    """The columns of the witnesses of documents of one shape."""

    def __init__(self, together: Together, numbers: _Numbered) -> None:
        self.parts: list[list[Any]] = []
        self._together = together
        self._numbers = numbers
        self._docs = np.array(together.docs, np.int64)
        self._valued: list[Any] = []  # a document's place, shifted, and the number of a value
        self._rows: tuple[Column, Column, Column, Column, Column]
        self._rows = array("i"), array("i"), array("i"), array("i"), array("i")
        shape = together.shape
        if len(shape.rows):
            self._repeat(shape.rows)
        for walk in map(together.walk, range(len(self._docs))) if shape.derived else ():
            for entry in shape.derived:
                self._derived(entry, walk)
        for walk in together.walks.values():
            for place, nodes in walk.hits.items():
                packed = rows_of(shape, place, nodes[0]) if len(nodes) == 1 else None
                if packed is None:
                    self._add_below(place, nodes, walk)
                else:
                    together.owners.append(walk.place)
                    together.rows.append(packed)
        if together.rows:
            self._unpack(together.rows, together.owners)
        if self._rows[0]:
            which, *columns, values = (np.array(column) for column in self._rows)
            self._valued.append((which.astype(np.int64) << 32 | values)[values >= 0])
            self.parts.append([self._docs[which], *columns, values])

    def occurring(self) -> Any:
        """Return the numbers of values, each once for each document that has it."""
        return np.unique(np.concatenate([_NONE[0], *self._valued])) & 0xFFFFFFFF

    def _numbered(self, node: int, which: Sequence[int]) -> list[int]:
        """Return the numbers of the values of a node in some documents."""
        return [*map(self._numbers.__getitem__, self._together.texts(node, which))]

    def _repeat(self, rows: Rows) -> None:
        """Add rows that all documents have, each with its own values."""
        count = len(self._docs)
        every = range(count)
        numbered = np.full(
            (count, len(rows.valued) + 1), -1, np.int32
        )  # the last for those without
        for place, node in enumerate(rows.valued):
            numbered[:, place] = self._numbered(node, every)
        self._note(numbered[:, :-1])
        self.parts.append(
            [
                np.repeat(self._docs, len(rows)),
                np.tile(rows.pairs, count),
                np.tile(rows.firsts, count),
                np.tile(rows.seconds, count),
                numbered[:, rows.wanted].ravel(),
            ]
        )

    def _note(self, numbered: Any) -> None:
        """Note which values documents have: a row of numbers for each, -1 for none."""
        places = np.arange(len(numbered), dtype=np.int64)[:, None] << 32
        self._valued.append((places | numbered)[numbered >= 0])

    def _unpack(self, packed: Sequence[Packed], owners: Sequence[int]) -> None:
        """Add packed rows, given whose they are."""
        sizes = np.fromiter(map(len, packed), np.int64, len(packed)) // (4 * WIDTH)
        rows = np.frombuffer(b"".join(packed), np.int32).reshape(-1, WIDTH)
        which = np.repeat(np.array(owners), sizes)
        pairs, firsts, seconds, wanted = np.ascontiguousarray(rows.T)
        nodes = self._together.shape.wanted  # whose values rows want, with their places
        numbered = np.full((len(self._docs), len(nodes) + 1), -1, np.int32)
        asked = np.zeros(numbered.shape, np.bool_)
        asked[which, wanted] = True
        for node, place in nodes.items():
            (some,) = np.nonzero(asked[:, place])
            if len(some):
                numbered[some, place] = self._numbered(node, some.tolist())
        self._note(numbered)
        self.parts.append([self._docs[which], pairs, firsts, seconds, numbered[which, wanted]])

    def _add_below(self, place: Place, nodes: Sequence[int], walk: Walk) -> None:
        """Add the rows of what is asked for at a place that matches, and below it."""
        if place.entries:
            self._add(place.entries, nodes, walk)
        shape = walk.shape
        children = place.children
        for child in children if isinstance(children, tuple) else place.children_at(shape.found):
            if below := shape.under(child.state, nodes):
                if child.children:
                    self._add_below(child, below, walk)
                else:
                    self._add(child.entries, below, walk)

    def _add(self, entries: Iterable[Entry], nodes: Sequence[int], walk: Walk) -> None:
        """Add the rows of entries, given the nodes that match the second variable of each."""
        parents = walk.shape.structure.parents
        for entry in entries:
            if entry.derived is not None:
                self._derived(entry, walk)
                continue
            for first, second in bindings(entry, nodes, parents, walk.matching):
                number = self._numbers[walk.text(second)] if entry.valued else -1
                self._append(walk.place, entry.pair, first, second, number)

    def _derived(self, entry: Entry, walk: Walk) -> None:
        """Add the rows of an entry for derived nodes."""
        assert entry.derived is not None
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                number = self._numbers[text] if entry.valued else -1
                first = made if entry.alone else upper
                self._append(walk.place, entry.pair, first, made, number)

    def _append(self, *row: int) -> None:
        for column, number in zip(self._rows, row, strict=True):
            column.append(number)
