"""The documents of a batch as the input of stage 1, and their witnesses.

Another process may have shredded them already (`xscl.shredding.remote_bindings`).  Then one is
parsed here only when its nodes are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from lxml import etree

from templates.model.relations import TIMES, Witnesses
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shred import WitnessColumns
from xscl.shredding.remote_bindings import Numbers, RemoteBindings


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Documents with their numbers, as columns: see `templates.model.relations.Witnesses`.

    `read` are those that this process has read, by their places here; `elsewhere` has what
    another one has found in all of them, if that is so.
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
        """Return a document, parsed on first use."""
        read = self.read.get(place)
        if read is None:
            read = self.read[place] = ReadDocument(self.xml[place])
        return read

    def times(self, places: Numbers) -> pa.Table:
        """Return R_docTSW of some of the documents."""
        columns = (self.docs, self.ts, self.ts, self.clocks, self.ranks, self.bases, self.firsts)
        return pa.table([pa.array(column[places]) for column in columns], schema=TIMES)


class Arrival(NamedTuple):
    """A document of a batch: its number, and where its columns are."""

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
    """Return the witnesses of the documents at some places."""
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
