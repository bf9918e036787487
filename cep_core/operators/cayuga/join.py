"""WindowJoin (⋈): pairs of rows at most a window apart, as soon as the later one arrives.

It is monotone: rows are not put in order first, so a late row still meets the kept rows.
A newcomer n and an earlier arrival o pair iff M(n) <= o.t1 + T + L (L: the larger lateness of both
streams).  Rows of an ordered operator arrive when their epoch is closed, at t1 + L.  Joins of the
same predicate share the kept rows and the probing: each pair is tested once and emitted for the
operators whose window holds it (rules s_⋈ and c_⋈: Hong 2009, Table 5.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of, without_slots
from cep_core.dataflow.clock import Clock
from cep_core.dataflow.journal import Unwritten
from cep_core.dataflow.mop import (
    OWN,
    KeptBound,
    KeptGroups,
    KeptSize,
    MatchBound,
    MOp,
    Operator,
    OperatorNumber,
    Wanted,
    Wire,
)
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import VALUES, Row

_LEFT, _RIGHT = 0, 1


class KeptRow(NamedTuple):
    """A kept row, the streams that it belongs to, and its side of the join (0: left, 1: right)."""

    row: Row
    members: Members
    side: int


class WindowJoinMOp(MOp):
    """Joins of one predicate over streams of two channels, each with its window."""

    joins = True
    journals = True

    def __init__(
        self, first: Wanted, number: int, clock: Clock, lateness: int, journal: Unwritten
    ) -> None:
        super().__init__(first, number)
        self._journal = journal
        definition = cast(BoundPredicate, first.definition)
        self._clock = clock
        self._lateness = lateness
        self._constants = definition.constants
        self._holds = definition.shape.holds
        self._keys = definition.shape.keys
        self._output = Channel(False)
        self._wires = [
            Wire(Port(self, lambda row, members: self._arrive(_LEFT, row, members)), None),
            Wire(Port(self, lambda row, members: self._arrive(_RIGHT, row, members)), None),
        ]
        self._readers: list[dict[int, dict[Operator, None]]] = [{}, {}]  # by slot
        self._kept: list[KeptGroups[KeptRow]]
        self._kept = [KeptGroups(self, journal), KeptGroups(self, journal)]
        self._window = -1  # the largest window of the joins, in ticks
        self._next_eviction: int | None = None
        self._bound = MatchBound(self)
        self._rooms = [self._bound.kept, KeptBound()]
        # by side: one event may make many rows
        self._multiplies = [not one.simple for one in first.inputs]

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        for side, source in enumerate(wanted.inputs):
            self._readers[side].setdefault(source.slot, {})[operator] = None
            self._rooms[side].count_again()  # a snapshot may add rows of the operator
        self._window = max(self._window, wanted.window or 0)
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        for side, source in enumerate(operator.wanted.inputs):
            readers = self._readers[side][source.slot]
            del readers[operator]
            if not readers:
                del self._readers[side][source.slot]
                self._forget(side, {source.slot})
            elif all(0 < operator.number < reader.number for reader in readers):
                self._write_again(side, source.slot)
        if operator.wanted.window == self._window:
            self._window = max((one.wanted.window or 0 for one in self.operators), default=-1)

    def instances(self) -> int:
        return sum(kept.count for kept in self._kept)

    def entries(self) -> int:
        return sum(len(kept.groups) for kept in self._kept)

    def indexes(self) -> str:
        """Describe how often a query had too many matches."""
        return str(self._bound)

    def kept(self) -> Iterator[KeptRow]:
        return chain.from_iterable(self._kept)

    def saved(self, kept: KeptRow, number: OperatorNumber) -> list[Any]:
        """Return a row as it is written: each of its streams is named by its first reader.

        So the rows are not written again when another join of the same streams comes.
        """
        row, members, side = kept
        readers = self._readers[side]
        named = [min(map(number, readers[slot])) for slot in slots_of(members) if slot in readers]
        return [row, sorted(named), side]

    def _write_again(self, side: int, slot: int) -> None:
        """Journal the rows of a stream again after its first reader has left."""
        for one in self._kept[side]:
            if slot in slots_of(one.members):
                self._journal.drop((one,))
                self._journal.keep(self, one)

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        slots = sorted({operator.wanted.inputs[side].slot for operator in operators})
        self._keep(side, row, members_of(slots))

    def _arrive(self, side: int, row: Row, members: Members) -> None:
        if self._clock.replaying:
            return
        closing = self._clock.closing
        now = self._clock.now if closing is None else closing
        self._evict(now)
        key = self._key(side, row)
        if self._keys and key is None:
            return
        # The bound is for one arrival: all rows that an event makes come before the next one.
        time = self._clock.arrivals, self._clock.turn, now
        group = self._kept[1 - side].groups.get(key, [])
        met = self._met(side, row, members, group, now) if group else iter(())
        pairs: list[tuple[Row, Members]] = []
        while some := list(islice(met, self._bound.room(time))):
            if len(self._bound.attempt(time, len(some), some)) == len(self.operators):
                break
            for other, slots in some:
                a, b = (row, other) if side == _LEFT else (other, row)
                if self._holds(a, b, self._constants):
                    times = (min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]))
                    pairs.append(((*times, *a[VALUES:], *b[VALUES:]), slots))
        for pair, takers in self._bound.within(time, pairs):
            self._output.emit(pair, takers)
        self._keep(side, row, members)
        if self._multiplies[side] and self._rooms[side].is_full(OWN):
            over = self._rooms[side].with_too_much(self._sizes(side, now))
            for slot in over:
                self._bound.give_up([reader.slot for reader in self._readers[side][slot]])
            self._forget(side, over)

    def _sizes(self, side: int, now: int) -> Iterator[KeptSize]:
        """Yield the size of each row of a side that a newcomer may still meet at time ``now``."""
        for row, members, _ in self._kept[side]:
            if now <= row[1] + self._window + self._lateness:
                yield members, row[2], OWN

    def _met(
        self, side: int, row: Row, members: Members, group: Iterable[KeptRow], now: int
    ) -> Iterator[tuple[Row, Members]]:
        """Yield (row of a group, slots of the operators) for each row that a row of ``side`` meets.

        ``group`` is of the other side.  The operators are those of ``members`` whose window has
        both rows.  An event does not meet itself.
        """
        takers = []
        for operator in chain.from_iterable(
            self._readers[side].get(s, ()) for s in slots_of(members)
        ):
            wanted, sources = operator.wanted, operator.wanted.inputs
            if operator.slot not in self._bound.over:
                simple = sources[_LEFT].simple and sources[_RIGHT].simple
                takers.append((operator.slot, sources[1 - side].slot, wanted.window or 0, simple))
        takers.sort()
        place = row[:VALUES]
        for other, theirs, _ in group:
            apart = max(abs(row[1] - other[1]), now - other[1] - self._lateness)
            if apart <= self._window:
                reading = set(slots_of(theirs))
                slots = [
                    slot
                    for slot, source, window, simple in takers
                    if apart <= window
                    and source in reading
                    and not (simple and place == other[:VALUES])
                ]
                if slots:
                    yield other, members_of(slots)

    def _key(self, side: int, row: Row) -> Any:
        return self._keys[side](row) if self._keys else None

    def _keep(self, side: int, row: Row, members: Members) -> None:
        self._kept[side].add(self._key(side, row), KeptRow(row, members, side))
        if self._next_eviction is None:
            self._next_eviction = row[1] + self._window + self._lateness

    def _evict(self, now: int) -> None:
        """Drop rows that no newcomer can meet, at most once in half the time that rows are kept."""
        if self._next_eviction is None or now <= self._next_eviction:
            return
        reach = self._window + self._lateness
        for kept in self._kept:
            kept.change(lambda one: one if now <= one.row[1] + reach else None)
        self._next_eviction = now + reach // 2 if self.instances() else None

    def _forget(self, side: int, slots: Collection[int]) -> None:
        def left(one: KeptRow) -> KeptRow | None:
            fewer = without_slots(one.members, slots)
            if fewer == one.members:
                return one
            return None if fewer is None else one._replace(members=fewer)

        if slots:
            self._kept[side].change(left)
