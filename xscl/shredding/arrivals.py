"""The documents of a batch as the input of stage 1, and their witnesses.

Another process may have shredded a document already (`xscl.shredding.remote_bindings`).  Then it
is parsed here only when its nodes are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lxml import etree

from feeds.xml.xmlparse import parse
from templates.model.relations import TIMES, Witnesses
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch.known_markup import ReadDocument, SplitDocument
from xscl.shredding.batch.shred import WitnessColumns
from xscl.shredding.remote_bindings import Numbers, RemoteBindings, merge_bindings


@dataclass(frozen=True, eq=False)
class RemoteWitnesses:
    """The places of the witnesses of a batch's documents, if other processes found them.

    `which` are portions by number, -1 where there is none, `places` the documents' places in them.
    """

    portions: Sequence[RemoteBindings]
    which: Numbers
    places: Numbers

    @classmethod
    def nowhere(cls, count: int) -> RemoteWitnesses:
        """Return those of so many documents that no other process has shredded."""
        return cls((), np.full(count, -1), np.zeros(count, np.int64))

    @classmethod
    def of(cls, portions: Sequence[tuple[RemoteBindings, int]]) -> RemoteWitnesses:
        """Return those of a batch of whole portions, each with the number of its documents."""
        counts = np.array([count for _, count in portions], np.int64)
        which = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls([portion for portion, _ in portions], which, places)

    @cached_property
    def fine(self) -> npt.NDArray[np.bool_]:
        """A mask of the documents that another process read, and that are XML."""
        found = self.which >= 0
        for number, portion in enumerate(self.portions):
            if portion.refused:
                refused = np.isin(self.places, sorted(portion.refused))
                found &= (self.which != number) | ~refused
        return found

    def chosen(self, rows: Numbers | slice) -> RemoteWitnesses:
        """Return the entries of some of the documents."""
        return RemoteWitnesses(self.portions, self.which[rows], self.places[rows])

    def by_portion(self) -> Iterable[tuple[RemoteBindings, Numbers]]:
        """Yield the portions with their documents."""
        for number, portion in enumerate(self.portions):
            yield portion, np.flatnonzero(self.which == number)


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Documents with their numbers, as columns: see `templates.model.relations.Witnesses`.

    `read` are those that this process has read, by their places here.
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
    elsewhere: RemoteWitnesses
    read: dict[int, ReadDocument] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> Arrivals:
        """Return documents of the table of these with their texts (`xml`)."""

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
            RemoteWitnesses.nowhere(len(rows)),
        )

    def __len__(self) -> int:
        return len(self.docs)

    def __iter__(self) -> Iterator[Arrival]:
        """Yield the documents."""
        return (Arrival(self, place) for place in range(len(self)))

    def behind(self) -> list[int]:
        """Return the documents that are older than the clock at their arrival."""
        behind: list[int] = self.docs[self.clocks > self.ts].tolist()
        return behind

    def document(self, place: int) -> ReadDocument:
        """Return a document, parsed on first use."""
        read = self.read.get(place)
        if read is None:
            read = self.read[place] = parse(self.xml[place])
        return read

    def root(self, place: int) -> etree._Element:
        """Return the root of a document, parsed on first use."""
        read = self.document(place)
        return read.root if isinstance(read, SplitDocument) else read

    def times(self, places: Numbers) -> pa.Table:
        """Return R_docTSW of some of the documents."""
        columns = (self.docs, self.ts, self.ts, self.clocks, self.ranks, self.bases, self.firsts)
        return pa.table([pa.array(column[places]) for column in columns], schema=TIMES)


class Arrival(NamedTuple):
    """One of the documents of a batch."""

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
        return self.batch.root(self.place)


def shred(automaton: Automaton, arrivals: Iterable[Arrival]) -> Witnesses:
    """Return the witnesses of documents."""
    places: dict[int, tuple[Arrivals, list[int]]] = {}
    for batch, place in arrivals:
        places.setdefault(id(batch), (batch, []))[1].append(place)
    columns = WitnessColumns(automaton)
    times: list[pa.Table] = []
    elsewhere: list[tuple[RemoteBindings, Numbers, Numbers]] = []
    for batch, listed in places.values():
        some = np.array(listed)
        times.append(batch.times(some))
        here = np.ones(len(some), np.bool_)
        found = batch.elsewhere.chosen(some)
        for portion, rows in found.by_portion():
            elsewhere.append((portion, found.places[rows], batch.docs[some[rows]]))
            here[rows] = False
        for place in some[here].tolist():
            columns.add(int(batch.docs[place]), batch.streams[place], batch.document(place))
    bindings, values = (
        merge_bindings(columns.tables(), elsewhere) if elsewhere else columns.tables()
    )
    first, *others = times or [TIMES.empty_table()]
    return Witnesses(bindings, pa.concat_tables((first, *others)) if others else first, values)
