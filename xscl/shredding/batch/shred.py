"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

The witnesses are exact.  A place matches a node (`xscl.shredding.batch.shape_batch`) only if its
conditions hold at that node and the place before matches the node above.  A pair of bindings is a
witness only if the steps between the two hold between these very nodes.

Rows are not written one by one: those of a structure and those of a place that matches are bytes
with the documents that own them, and become columns together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, distinct
from templates.model.relations import BINDINGS, VALUES
from xscl.shredding.automaton.automaton_states import PairEntry
from xscl.shredding.automaton.lineage import WIDTH, Packed
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shape import DocumentShape, DocumentShapes
from xscl.shredding.batch.shape_batch import (
    DocumentWalk,
    ShapeBatch,
    cached_rows,
    packed_rows,
)
from xscl.shredding.conditions.unevaluated import NotEvaluated

_TYPES = tuple(BINDINGS.types)
NODES = 30_000  # of documents that are evaluated together, as far as they have one shape


class WitnessColumns:
    """The growing columns of a batch's witnesses; the automaton must not change meanwhile."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._shapes = automaton.shapes = automaton.shapes or DocumentShapes()
        self._docs: list[int] = []  # the numbers of documents, which are meant by their places here
        self._alike: dict[DocumentShape, ShapeBatch] = {}
        self._waiting = 0  # nodes of documents that are not evaluated yet
        self._numbers: dict[str, int] = {}  # of texts, by first occurrence
        self._parts: list[list[Column]] = []
        self._valued: list[Any] = []  # places of documents, shifted, and numbers of their values
        self._derived: list[tuple[int, ...]] = []  # rows of derived nodes

    def add(self, doc: int, streams: tuple[str, ...], document: ReadDocument) -> None:
        """Add the witnesses of one document."""
        shape = self._shapes.shape(self._automaton, streams, document.skeleton)
        if shape is None:
            return
        together = self._alike.get(shape)
        if together is None:
            together = self._alike[shape] = ShapeBatch(shape)
        together.documents.append(DocumentWalk(shape, len(self._docs), document))
        self._docs.append(doc)
        self._waiting += len(shape.lines)
        if self._waiting >= NODES:
            self._flush()

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.model.relations.Witnesses`)."""
        self._flush()
        if self._derived or not self._parts:
            derived = np.array(self._derived, np.int32).reshape(-1, len(BINDINGS)).T
            self._record_values(derived[0], derived[-1])
            self._parts.insert(0, list(derived))
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
        batches = list(self._alike.values())
        self._alike.clear()
        self._waiting = 0
        for together in batches:
            self._find(together)
        self._unpack(batches)

    def _find(self, together: ShapeBatch) -> None:
        """Find the rows of the matches of documents, those of derived nodes apart."""
        together.find(self._automaton.changes)
        shape, documents = together.shape, together.documents
        if shape.packed:
            together.take(shape.packed, range(len(documents)))
        for at, walk in enumerate(documents):
            for entry in shape.derived:
                self._derive(entry, walk)
            if walk.unevaluated:
                self._automaton.unevaluated.note(self._docs[walk.doc], walk.unevaluated)
            if walk.residuals is not None:
                one_sided = [NotEvaluated(one, "") for one in walk.residuals.one_sided]
                self._automaton.one_sided.note(self._docs[walk.doc], one_sided)
            for place, nodes in walk.hits.items():
                packed = cached_rows(shape, place, nodes[0]) if len(nodes) == 1 else None
                if packed is None:
                    packed, derived = packed_rows(shape, walk.matching, place, nodes)
                    for entry in derived:
                        self._derive(entry, walk)
                together.take(packed, (at,))

    def _unpack(self, batches: Sequence[ShapeBatch]) -> None:
        """Add packed rows, those of a document one after the other, as stage 2 sorts them."""
        docs: list[int] = []
        widths: list[int] = []  # of each document how many numbers it has
        pieces: list[Packed] = []
        owned: list[Sequence[int]] = []
        first: list[int] = []  # of each piece of rows the first document of its batch
        for together in batches:
            pieces += together.rows
            owned += together.owners
            first += [len(docs)] * len(together.rows)
            widths += [len(together.shape.wanted)] * len(together.documents)
            docs += [walk.doc for walk in together.documents]
        if not pieces:
            return
        bases = np.cumsum([1, *widths])  # the first number is that of rows without a value
        counts = list(map(len, owned))
        owners = np.fromiter(chain.from_iterable(owned), np.int64, sum(counts))
        owners += np.repeat(np.array(first, np.int64), counts)
        owners = owners.astype(np.min_scalar_type(len(docs)))  # short ones are sorted by bytes
        order = np.argsort(owners, kind="stable")
        which = np.repeat(np.arange(len(counts)), counts)[order]
        sizes = np.array(list(map(len, pieces))) // (4 * WIDTH)
        ends, each = np.cumsum(sizes), sizes[which]
        rows = np.repeat(ends[which] - np.cumsum(each), each) + np.arange(each.sum())
        known = np.frombuffer(b"".join(pieces), np.int32).reshape(-1, WIDTH)
        pairs, firsts, seconds, wanted = known.take(rows, axis=0).T
        which = np.repeat(owners[order], each)
        at = np.where(wanted < 0, 0, bases[which] + wanted)
        asked = np.zeros(bases[-1], np.bool_)
        asked[at] = True
        numbers = np.array(self._numbered(batches, asked), np.int32)
        places = np.array(docs, np.int32)
        self._record_values(np.repeat(places, widths), numbers[1:])
        self._parts.append([places.take(which), pairs, firsts, seconds, numbers.take(at)])

    def _numbered(self, batches: Sequence[ShapeBatch], asked: Column) -> list[int]:
        """Return the number of each node's value; -1 for a node that is not asked for."""
        numbers, begin, known = [-1] * len(asked), 1, self._numbers
        for together in batches:
            count, nodes = len(together.documents), together.shape.wanted
            end = begin + count * len(nodes)
            flags = asked[begin:end].reshape(count, len(nodes)).T.tolist()
            for node, place in nodes.items():
                some = [one for one, is_asked in enumerate(flags[place]) if is_asked]
                for one, text in zip(some, together.texts(node, some), strict=True):
                    numbers[begin + one * len(nodes) + place] = known.setdefault(text, len(known))
            begin = end
        return numbers

    def _record_values(self, which: Any, numbers: Any) -> None:
        """Record the values of documents; -1 is none."""
        self._valued.append((which.astype(np.int64) << 32 | numbers)[numbers >= 0])

    def _derive(self, entry: PairEntry, walk: DocumentWalk) -> None:
        """Add the rows of an entry for derived nodes."""
        assert entry.derived is not None
        known = self._numbers
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                first = made if entry.alone else upper
                value = known.setdefault(text, len(known)) if entry.valued else -1
                self._derived.append((walk.doc, entry.pair, first, made, value))
