"""The documents of a batch as the input of stage 1, and their witnesses.

Another process may have shredded them already (`RemoteBindings`).  Then one is parsed here only
when its nodes are needed.  A portion from there numbers its documents from 0.  Their numbers in the
order of arrival, and whether they are accepted, are known only when the engine has accepted the
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree

from feeds.documents import Document, DocumentColumns
from feeds.errors import MalformedDocument
from templates.model.relations import BINDINGS, TIMES, VALUES, Witnesses
from xscl.gc_control import paused
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch.known_markup import MarkupCache, ReadDocument
from xscl.shredding.batch.shred import WitnessColumns

Numbers = npt.NDArray[np.int64]
Text: TypeAlias = tuple[tuple[str, ...], bytes]
"""The streams and the text of a document, which stage 1 needs."""


def texts_of(documents: Iterable[Document]) -> list[Text]:
    """Return (streams, XML text) of each document: the input of stage 1."""
    columns = DocumentColumns.of(documents)
    return list(zip(columns.streams, columns.xml, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class RemoteBindings:
    """The witnesses of some documents.

    `bindings` and `values` are as in `Witnesses`, where `doc` is the place of a
    document among these; `refused` are the places of those that are no XML.
    """

    bindings: pa.Table
    values: pa.Table
    refused: frozenset[int]

    @classmethod
    def united(cls, portions: Iterable[tuple[RemoteBindings, int]]) -> RemoteBindings:
        """Return several portions as one; each comes as (portion, count of its documents)."""
        tables: list[tuple[pa.Table, pa.Table]] = []
        refused: set[int] = set()
        first = 0
        for portion, count in portions:
            moved = pc.add(portion.bindings["doc"], pa.scalar(first, pa.int64()))
            tables.append((portion.bindings.set_column(0, "doc", moved), portion.values))
            refused.update(first + place for place in portion.refused)
            first += count
        return cls(*united(tables), frozenset(refused))

    def of_documents(self, places: Numbers) -> RemoteBindings:
        """Return the witnesses of the documents at some places, numbered from 0 in this order."""
        numbers = np.arange(len(places))
        refused = np.isin(places, sorted(self.refused)).nonzero()[0]
        return RemoteBindings(*self.numbered(places, numbers), frozenset(refused.tolist()))

    def numbered(self, places: Numbers, numbers: Numbers) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values of the documents at `places`, which get these `numbers`."""
        there = self.bindings["doc"].to_numpy()
        known = np.full(max(there.max(initial=0), places.max(initial=0)) + 1, -1, np.int64)
        known[places] = numbers
        docs = pa.array(known[there])
        bindings = self.bindings.set_column(0, "doc", docs)
        return united([(bindings.filter(pc.greater_equal(docs, 0)), self.values)])

    def of_pairs(self, pairs: Numbers) -> RemoteBindings:
        """Return the witnesses of some pairs of variables, with the values that they have."""
        bindings = self.bindings.filter(pa.array(np.isin(self.bindings["pair"], pairs)))
        value = bindings["value"].combine_chunks()
        used = np.unique(value.drop_null().to_numpy())
        column = bindings.schema.get_field_index("value")
        moved = pc.index_in(value, value_set=pa.array(used, value.type))
        bindings = bindings.set_column(column, bindings.schema.field(column), moved)
        return RemoteBindings(bindings, self.values.take(pa.array(used)), self.refused)


def compute_bindings(automaton: Automaton, texts: Iterable[Text]) -> RemoteBindings:
    """Return the witnesses of documents; those that cannot be parsed have none."""
    columns = WitnessColumns(automaton)
    refused: set[int] = set()
    markups = MarkupCache()
    with paused():
        for place, (streams, xml) in enumerate(texts):
            try:
                columns.add(place, streams, markups.read(xml))
            except MalformedDocument:
                refused.add(place)
    bindings, values = columns.tables()
    return RemoteBindings(bindings, values, frozenset(refused))


# -- Several portions ------------------------------------------------------------------------


def united(several: Sequence[tuple[pa.Table, pa.Table]]) -> tuple[pa.Table, pa.Table]:
    """Return the bindings and values of several batches as those of one.

    Values have one row for each distinct text that occurs, with the number of its documents.
    """
    offsets = np.cumsum([0, *(values.num_rows for _, values in several)]).tolist()
    bindings = pa.concat_tables(
        [
            one.set_column(
                one.schema.get_field_index("value"),
                "value",
                pc.add(one["value"], pa.scalar(offset, pa.int32())),
            )
            for (one, _), offset in zip(several, offsets, strict=False)
        ]
    )
    texts = pa.concat_tables([values for _, values in several])["strVal"]
    distinct = texts.combine_chunks().dictionary_encode()
    rows = distinct.indices.to_numpy()
    valued = bindings.filter(pc.is_valid(bindings["value"]))
    used = rows[valued["value"].to_numpy()].astype(np.int64)
    pairs = np.unique((used << 32) | (valued["doc"].to_numpy() & 0xFFFFFFFF))
    occurring, counts = np.unique(pairs >> 32, return_counts=True)
    renumbered = np.zeros(len(distinct.dictionary), np.int32)
    renumbered[occurring] = np.arange(len(occurring), dtype=np.int32)
    by_row = pa.array(renumbered[rows], pa.int32())
    values = pa.table(
        [distinct.dictionary.take(pa.array(occurring)), pa.array(counts, pa.int32())], schema=VALUES
    )
    column = bindings.schema.get_field_index("value")
    numbered = by_row.take(bindings["value"].combine_chunks())
    return bindings.set_column(column, "value", numbered).cast(BINDINGS), values


# -- A batch -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Documents with their numbers, as columns: see `templates.model.relations.Witnesses`.

    `read` has the documents that this process has parsed, by their places here; `elsewhere` has the
    witnesses of all documents if another process has found them.
    """

    docs: Numbers
    streams: Sequence[tuple[str, ...]]
    xml: Sequence[bytes]
    ts: Numbers
    clocks: Numbers
    ranks: Numbers
    bases: Numbers
    firsts: Numbers
    versions: Numbers
    elsewhere: RemoteBindings | None = None
    read: dict[int, ReadDocument] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> Arrivals:
        """Return the documents of a table: columns of `state.document`, and texts as `xml`."""

        def numbers(name: str) -> Numbers:
            column: Numbers = rows[name].to_numpy().astype(np.int64)
            return column

        return cls(
            numbers("doc"),
            [tuple(streams) for streams in rows["streams"].to_pylist()],
            rows["xml"].to_pylist(),
            numbers("ts"),
            numbers("clock"),
            numbers("rank"),
            numbers("base"),
            numbers("first"),
            numbers("version"),
        )

    def __len__(self) -> int:
        return len(self.docs)

    def behind(self) -> list[int]:
        """Return the numbers of the late documents, whose time is before the clock on arrival."""
        behind: list[int] = self.docs[self.clocks > self.ts].tolist()
        return behind

    def document(self, place: int) -> ReadDocument:
        """Return the document at a place, parsed on first use."""
        read = self.read.get(place)
        if read is None:
            read = self.read[place] = ReadDocument(self.xml[place])
        return read

    def times(self, places: Numbers) -> pa.Table:
        """Return R_docTSW of the documents at `places`, a row each, in their order."""
        columns = (self.docs, self.ts, self.ts, self.clocks, self.ranks, self.bases, self.firsts)
        return pa.table([pa.array(column[places]) for column in columns], schema=TIMES)


class Arrival(NamedTuple):
    """A document of a batch: the row at the index `place` of the columns `batch`."""

    batch: Arrivals
    place: int

    @property
    def clock(self) -> int:
        return int(self.batch.clocks[self.place])

    @property
    def rank(self) -> int:
        return int(self.batch.ranks[self.place])

    @property
    def version(self) -> int:
        return int(self.batch.versions[self.place])

    @property
    def ts(self) -> int:
        return int(self.batch.ts[self.place])

    @property
    def root(self) -> etree._Element:
        return self.batch.document(self.place).root


def shred(automaton: Automaton, arrivals: Arrivals, places: Sequence[int]) -> Witnesses:
    """Return the witnesses of the documents at some places in `arrivals`."""
    rows = np.array(places, np.int64)
    docs = arrivals.docs[rows]
    if arrivals.elsewhere is not None:
        bindings, values = arrivals.elsewhere.numbered(rows, docs)
    else:
        columns = WitnessColumns(automaton)
        for place, doc in zip(places, docs.tolist(), strict=True):
            columns.add(doc, arrivals.streams[place], arrivals.document(place))
        bindings, values = columns.tables()
    return Witnesses(bindings, arrivals.times(rows), values)
