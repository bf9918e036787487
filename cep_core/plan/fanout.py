"""The fan-out: from the streams of a channel to the queries that want them.

A query sees what arrives after it was registered: rows whose first part is later.  That is tested
here, at the end, so that all work below stays shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from cep_core.dataflow.channels import Channel, Members, Port, slots_of
from cep_core.dataflow.clock import Clock
from cep_core.events import Row


class QueryReader(NamedTuple):
    """A query at the end of a stream: its number, and the arrival from which it sees rows."""

    number: int
    since: int


FoundRow: TypeAlias = tuple[int, int, Row]
"""The time of a row of a query's output, the number of the query, and the row."""


class Fanout:
    """The readers of one channel: collects the rows that each query which reads it may see."""

    label = "output"

    def __init__(self, clock: Clock, found: list[FoundRow]) -> None:
        self.port = Port(self, self.receive, receive_all=self.receive_all)
        self._clock = clock
        self._found = found
        self._readers: dict[int, list[QueryReader]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._readers.values()))

    def add(self, channel: Channel, slot: int, reader: QueryReader) -> None:
        """Add a query to the readers of a stream."""
        if slot not in self._readers:
            self._readers[slot] = []
            channel.connect(self.port, slot)
        self._readers[slot].append(reader)

    def remove(self, channel: Channel, slot: int, reader: QueryReader) -> None:
        """Remove a query from the readers of a stream."""
        self._readers[slot].remove(reader)
        if not self._readers[slot]:
            del self._readers[slot]
            channel.disconnect(self.port, slot)

    def receive(self, row: Row, members: Members) -> None:
        """Collect a row for the queries that see it."""
        if self._clock.replaying:
            return
        first = row[2]
        for slot in slots_of(members):
            for number, since in self._readers[slot]:
                if first >= since:
                    self._found.append((row[1], number, row))

    def receive_all(self, rows: Sequence[Row], members: Members) -> None:
        """Collect rows as `receive` does each."""
        for slot in () if self._clock.replaying else slots_of(members):
            for number, since in self._readers[slot]:
                self._found += [(row[1], number, row) for row in rows if row[2] >= since]
