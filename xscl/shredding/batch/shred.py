"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

The witnesses are exact.  A place matches a node (`xscl.shredding.batch.shape_batch`) only if its
conditions hold at that node and the place before matches the node above.  A pair of bindings is a
witness only if the steps between the two hold between these very nodes.

Common rows of many documents are not written one by one: rows of a structure are
repeated as columns, rows of a matching place are bytes that are concatenated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from templates.columns.columns import distinct
from templates.model.relations import BINDINGS, VALUES
from xscl.shredding.automaton.automaton_states import PairEntry, PatternPlace
from xscl.shredding.automaton.lineage import WIDTH, Column, Lineage, bindings, columns_of
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.structure import skeleton
from xscl.shredding.batch.index_view import rows_of
from xscl.shredding.batch.known_markup import ParsedDocument, ReadDocument, SplitDocument
from xscl.shredding.batch.shape import DocumentShape, ShapeRows, shape_of
from xscl.shredding.batch.shape_batch import ShapeBatch
from xscl.shredding.batch.walk import DocumentWalk

_TYPES = tuple(BINDINGS.types)
FEW = 1_000  # documents that are looked at together, as far as they have one shape
NODES = 100_000  # of documents that come alone, whose rows are put together


class _Numbered(dict[str, int]):
    """Texts with numbers: a new text gets the next number."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


@dataclass(slots=True)
class UniqueDocuments:
    """The nodes of documents with a unique structure, one after the other.

    Each has the place of the document, its first node, the lineage, the parent, and the number of
    the value or -1.
    """

    docs: list[int] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    lines: list[Lineage] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class WitnessColumns:
    """The growing columns of a batch's witnesses; the automaton must not change meanwhile."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._docs: list[int] = []  # the numbers of documents, which are meant by their places here
        self._alike: dict[DocumentShape, ShapeBatch] = {}
        self._waiting = 0  # documents that are not looked at yet
        self._numbers = _Numbered()
        self._parts: list[list[Any]] = []
        self._valued: list[Any] = []  # places of documents, shifted, and numbers of their values
        self._apart = UniqueDocuments()
        self._rows: tuple[Column, Column, Column, Column, Column]
        self._rows = array("i"), array("i"), array("i"), array("i"), array("i")

    def add(self, doc: int, streams: tuple[str, ...], read: ReadDocument) -> None:
        """Add the witnesses of one document."""
        document: ParsedDocument | SplitDocument
        if isinstance(read, SplitDocument):
            document, found = read, read.markup.skeleton
        else:
            document = ParsedDocument(read)
            found = skeleton(document.nodes)
        shape = shape_of(self._automaton, streams, found)
        if shape is None:
            return
        together = self._alike.get(shape) or ShapeBatch(shape)
        together.add(len(self._docs), document)
        self._docs.append(doc)
        if shape.remembered is None:  # no other document will have it
            self._add_matches(together)
            return
        self._alike[shape] = together
        self._waiting += 1
        if self._waiting >= FEW:
            self._flush()

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.model.relations.Witnesses`)."""
        self._flush()
        if self._apart.lines:
            self._join()
        if len(self._rows[0]) or not self._parts:
            one_by_one = [np.array(column) for column in self._rows]
            self._record_values(one_by_one[0], one_by_one[-1])
            self._parts.insert(0, one_by_one)
        which, *united = map(np.concatenate, zip(*self._parts, strict=True))
        docs = np.array(self._docs, np.int64)[which]
        absent = united[-1] < 0  # rows without a value
        without = [None, None, None, None, absent if absent.any() else None]
        arrays = [
            pa.array(column, kind, mask=mask)
            for column, kind, mask in zip((docs, *united), _TYPES, without, strict=True)
        ]
        occurring = distinct(np.concatenate(self._valued)) & 0xFFFFFFFF
        documents = np.bincount(occurring, minlength=len(self._numbers))
        values = [pa.array(list(self._numbers), pa.string()), pa.array(documents, pa.int32())]
        return pa.table(arrays, schema=BINDINGS), pa.table(values, schema=VALUES)

    # -- Documents of one shape ------------------------------------------------------------

    def _flush(self) -> None:
        """Evaluate the documents so far, and release them."""
        for together in self._alike.values():
            self._add_matches(together)
        self._alike.clear()
        self._waiting = 0

    def _add_matches(self, together: ShapeBatch) -> None:
        """Add the rows of the matches."""
        together.find(self._automaton.changes)
        shape = together.shape
        if shape.remembered is None and len(together.docs) == 1:
            self._defer(together)
        elif len(shape.rows):
            self._repeat(shape.rows, together)
        for walk in map(together.walk, range(len(together.docs))) if shape.derived else ():
            for entry in shape.derived:
                self._derived(entry, walk)
        for walk in together.walks.values():
            if walk.unevaluated:
                self._automaton.unevaluated.note(self._docs[walk.doc], walk.unevaluated)
            if one_sided := walk.one_sided:
                self._automaton.one_sided.note(self._docs[walk.doc], one_sided)
            for place, nodes in walk.hits.items():
                packed = rows_of(shape, place, nodes[0]) if len(nodes) == 1 else None
                if packed is None:
                    self._add_below(place, nodes, walk)
                else:
                    together.owners.append((walk.place,))
                    together.rows.append(packed)
        if together.rows:
            self._unpack(together)
        together.walks.clear()  # they know it: without this they would be garbage in a circle

    def _numbered(self, together: ShapeBatch, node: int, which: Sequence[int]) -> list[int]:
        """Return the numbers of the values of a node in some documents."""
        return [*map(self._numbers.__getitem__, together.texts(node, which))]

    def _record_values(self, which: Any, numbers: Any) -> None:
        """Record the values of documents; -1 is none."""
        self._valued.append((which.astype(np.int64) << 32 | numbers)[numbers >= 0])

    def _repeat(self, rows: ShapeRows, together: ShapeBatch) -> None:
        """Add the common rows of documents, each with its own values."""
        docs = np.array(together.docs, np.int32)
        count = len(docs)
        numbered = np.full((count, len(rows.valued) + 1), -1, np.int32)  # the last is of no node
        for place, node in enumerate(rows.valued):
            numbered[:, place] = self._numbered(together, node, range(count))
        self._record_values(docs[:, None], numbered)
        which = np.repeat(docs, len(rows))
        columns = (np.tile(column, count) for column in (rows.pairs, rows.firsts, rows.seconds))
        self._parts.append([which, *columns, numbered[:, rows.wanted].ravel()])

    def _defer(self, together: ShapeBatch) -> None:
        """Record the nodes of a document, whose rows are assembled together with those of others.

        Their texts are read at once, while they are in the processor's cache.
        """
        shape, apart = together.shape, self._apart
        if not any(line.count for line in shape.lines):
            return
        numbers, base = self._numbers, len(apart.lines)
        apart.docs += together.docs * len(shape.lines)
        apart.bases += [base] * len(shape.lines)
        apart.lines += shape.lines
        apart.parents += [base + parent for parent in shape.structure.parents]
        apart.numbers += [
            numbers[together.text(node, 0)] if line.valued else -1
            for node, line in enumerate(shape.lines)
        ]
        if len(apart.lines) >= NODES:
            self._join()

    def _join(self) -> None:
        """Add the rows of documents with a unique structure."""
        apart, self._apart = self._apart, UniqueDocuments()
        pairs, firsts, seconds, valued = columns_of(apart.lines, apart.parents)
        columns = apart.docs, apart.bases, apart.numbers
        docs, bases, numbers = (np.array(column, np.int32) for column in columns)
        self._record_values(docs, numbers)
        first, values = bases[seconds], np.where(valued, numbers[seconds], np.int32(-1))
        self._parts.append([docs[seconds], pairs, firsts - first, seconds - first, values])

    def _unpack(self, together: ShapeBatch) -> None:
        """Add packed rows, those of a document one after the other, as stage 2 sorts them."""
        docs = np.array(together.docs, np.int32)
        counts = list(map(len, together.owners))
        shorts = np.min_scalar_type(len(docs))  # sorted by their bytes
        owners = np.fromiter(chain.from_iterable(together.owners), shorts, sum(counts))
        order = np.argsort(owners, kind="stable")
        pieces = np.repeat(np.arange(len(counts)), counts)[order]
        sizes = np.array([len(packed) // (4 * WIDTH) for packed in together.rows])
        ends, each = np.cumsum(sizes), sizes[pieces]
        which = np.repeat(owners[order], each)
        rows = np.repeat(ends[pieces] - np.cumsum(each), each) + np.arange(len(which))
        known = np.frombuffer(b"".join(together.rows), np.int32).reshape(-1, WIDTH)
        pairs, firsts, seconds, wanted = known.take(rows, axis=0).T
        nodes = together.shape.wanted  # whose values rows want, with their places
        numbered = np.full((len(docs), len(nodes) + 1), -1, np.int32)  # the last is of no node
        at = which * np.int64(numbered.shape[1]) + wanted  # -1: the last one of a row, too
        asked = np.zeros(numbered.shape, np.bool_)
        asked.put(at, True)
        for node, place in nodes.items():
            (some,) = np.nonzero(asked[:, place])
            if len(some):
                numbered[some, place] = self._numbered(together, node, some.tolist())
        self._record_values(docs[:, None], numbered)
        self._parts.append([docs.take(which), pairs, firsts, seconds, numbered.take(at)])

    # -- Documents one by one --------------------------------------------------------------

    def _add_below(self, place: PatternPlace, nodes: Sequence[int], walk: DocumentWalk) -> None:
        """Add the rows of the entries at a matching place, and below it."""
        if place.entries:
            self._add(place.entries, nodes, walk)
        shape = walk.shape
        children = place.children
        for child in children if isinstance(children, tuple) else place.children_at(shape.reached):
            if below := shape.under(child.state, nodes):
                if child.children:
                    self._add_below(child, below, walk)
                else:
                    self._add(child.entries, below, walk)

    def _add(self, entries: Iterable[PairEntry], nodes: Sequence[int], walk: DocumentWalk) -> None:
        """Add the rows of entries, given the nodes that match the second variable of each."""
        docs, pairs, firsts, seconds, values = self._rows
        parents = walk.shape.structure.parents
        for entry in entries:
            if entry.derived is not None:
                self._derived(entry, walk)
                continue
            for first, second in bindings(entry, nodes, parents, walk.matching):
                docs.append(walk.doc)
                pairs.append(entry.pair)
                firsts.append(first)
                seconds.append(second)
                values.append(self._value(walk, second) if entry.valued else -1)

    def _value(self, walk: DocumentWalk, node: int) -> int:
        """Return the number of the value of a node."""
        number = walk.values.get(node)
        if number is None:
            number = walk.values[node] = self._numbers[walk.text(node)]
        return number

    def _derived(self, entry: PairEntry, walk: DocumentWalk) -> None:
        """Add the rows of an entry for derived nodes."""
        assert entry.derived is not None
        docs, pairs, firsts, seconds, values = self._rows
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                docs.append(walk.doc)
                pairs.append(entry.pair)
                firsts.append(made if entry.alone else upper)
                seconds.append(made)
                values.append(self._numbers[text] if entry.valued else -1)
