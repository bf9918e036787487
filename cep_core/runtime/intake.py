"""Events on their way in: checked, numbered, handed to the plan, the clock raised.

Most events are of one stream and fit it; nobody may listen to it, and no epoch may be due.  So many
events are looked at together, by columns: all names, all values of a type, all times.  If nothing
is unusual, only those that somebody listens to are taken one by one, and the clock stops at those
that end an epoch in which something waits.  Else each is looked at, and what is unusual more
closely.

Instants of calendars are events that occur between others: events that arrive together are cut
where the clock passes one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, compress, islice
from operator import le
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

from cep_core.dataflow.clock import END, Clock
from cep_core.events import Event, Rejected
from cep_core.plan.plan import Plan
from cep_core.runtime.streams import Streams, names_of

_TOGETHER = 1_000  # events between which nobody else is asked for anything
_FEW = 20  # events that are not worth columns
Types: TypeAlias = tuple[type, ...]
_NO_EVENT: Any = (None, (), 0, 0, None)


class EventColumns(NamedTuple):
    """Events that are all usual: a value for each of them in every column."""

    names: Sequence[str]
    values: Sequence[tuple[Any, ...]]
    begins: Sequence[int]
    ends: Sequence[int]

    def between(self, first: int, end: int | None) -> EventColumns:
        """Return the events from one place to before another."""
        names, values, begins, ends = self
        some = slice(first, end)
        return EventColumns(names[some], values[some], begins[some], ends[some])


class Intake:
    """Consumes events; one that does not fit its stream is rejected, not raised."""

    def __init__(
        self, streams: Streams, plan: Plan, counts: dict[str, int], rejected: deque[Rejected]
    ) -> None:
        self._streams = streams
        self._plan = plan
        self._clock: Clock = plan.clock
        self._counts = counts
        self._rejected = rejected
        self._instants = 0  # that have occurred in this push

    def consume(self, events: Iterable[Event]) -> None:
        """Consume events in order of arrival; each closes the epochs that it ends."""
        begun, farthest = self._clock.arrivals, self._streams.farthest
        self._instants = 0
        coming = iter(events)
        try:
            while some := tuple(islice(coming, _TOGETHER)):
                many = len(some) > _FEW
                columns = _columns(some, self._streams.plain, farthest) if many else None
                if columns is None:
                    self._consume_each(some)
                elif self._streams.instants is None:
                    self._consume_columns(columns)
                else:
                    self._consume_between_instants(columns)
        finally:
            self._counts["events"] += self._clock.arrivals - begun - self._instants

    def _pass_instants(self, time: int) -> None:
        """Emit the instants before a time."""
        self._instants += self._streams.pass_instants(time)

    def _consume_between_instants(self, columns: EventColumns) -> None:
        """Consume regular events by columns, and the instants before each."""
        while (instant := self._streams.next_instant()) < max(columns.ends):
            place = next(at for at, end in enumerate(columns.ends) if end > instant)
            if place:
                self._consume_columns(columns.between(0, place))
            self._pass_instants(columns.ends[place])
            columns = columns.between(place, None)
        self._consume_columns(columns)

    def _consume_columns(self, columns: EventColumns) -> None:
        """Consume regular events by columns, stopping at those with listeners or due epochs."""
        names, values, begins, ends = columns
        streams, clock, size = self._streams, self._clock, len(names)
        first, reached, soonest = clock.arrivals, clock.now, self._soonest()
        clocks: Sequence[int] = ends
        if ends[0] < reached or sorted(ends) != list(ends):
            clocks = tuple(accumulate(ends, max, initial=reached))[1:]
        heard: Iterable[int] = range(size)
        if not streams.widest:
            some = streams.heard()
            heard = compress(heard, map(some.__contains__, names)) if some else ()
        lanes = tuple(self._plan.lanes.values())
        at = 0  # events before it are taken, and have raised the clock
        try:
            for place in chain(heard, (size,)):
                while at < place and clocks[place - 1] > (limit := max(soonest, reached)):
                    at = bisect_right(clocks, limit, at, place)
                    clock.arrivals, clock.now = first + at + 1, (reached := clocks[at])
                    soonest = self._close_due(reached)
                    at += 1
                if place == size:
                    break
                base = streams.by_name[names[place]]
                reached = clocks[place - 1] if place else reached
                row = (begins[place], ends[place], first + place, *values[place])
                clock.arrivals, clock.now = first + place + 1, reached
                streams.remember(row, (base.name,))
                for port in base.routes.get(base.slot, ()):
                    port.receive(row, base.members)
                for lane in lanes:
                    if lane.due + lane.lateness < soonest:
                        soonest = lane.due + lane.lateness
                at = place
            clock.arrivals, clock.now = first + size, clocks[-1]
        finally:
            self._advance_lanes()

    def _consume_each(self, events: Sequence[Event]) -> None:
        """Consume events one by one; the clock is a local variable while nobody reads it."""
        streams, clock = self._streams, self._clock
        by_name, remembered = streams.by_name, streams.widest > 0
        arrival, now, soonest = clock.arrivals, clock.now, self._soonest()
        instant = streams.next_instant()
        lanes = tuple(self._plan.lanes.values())
        earliest, latest = -streams.farthest, streams.farthest
        try:
            for event in events:
                name, values, t0, t1, _ = event if type(event) is Event else _NO_EVENT
                base = by_name.get(name) if type(name) is str else None
                if t1 is None:
                    t1 = t0
                if not (
                    base is not None
                    and type(values) is tuple
                    and tuple(map(type, values)) == base.plain
                    and type(t0) is type(t1) is int
                    and earliest <= t0 <= t1 <= latest
                ):
                    clock.arrivals, clock.now = arrival, now
                    self._consume_irregular(event)
                    arrival, now, soonest = clock.arrivals, clock.now, self._soonest()
                    instant = streams.next_instant()
                    continue
                if t1 > instant:
                    clock.arrivals, clock.now = arrival, now
                    self._pass_instants(t1)
                    arrival, soonest = clock.arrivals, self._soonest()
                    instant = streams.next_instant()
                listening = base.routes.get(base.slot)
                if listening is not None or remembered:
                    row = (t0, t1, arrival, *values)
                    clock.arrivals, clock.now = arrival + 1, now
                    streams.remember(row, (base.name,))
                    for port in listening or ():
                        port.receive(row, base.members)
                    for lane in lanes:
                        if lane.due + lane.lateness < soonest:
                            soonest = lane.due + lane.lateness
                arrival += 1
                if t1 > now:
                    now = t1
                    if t1 > soonest:
                        clock.arrivals, clock.now = arrival, now
                        soonest = self._close_due(now)
        finally:
            clock.arrivals, clock.now = max(arrival, clock.arrivals), max(now, clock.now)
            self._advance_lanes()

    def _advance_lanes(self) -> None:
        """Advance the watermark of the lanes, and forget rows of closed epochs."""
        now = self._clock.now
        for lane in self._plan.lanes.values():
            lane.pass_to(now - lane.lateness)
        self._streams.forget(now)

    def _soonest(self) -> int:
        """Return the time of the clock beyond which some lane has something to do."""
        soonest = END
        for lane in self._plan.lanes.values():
            if lane.due + lane.lateness < soonest:
                soonest = lane.due + lane.lateness
        return soonest

    def _close_due(self, now: int) -> int:
        """Close the epochs that the clock has passed where something waits; return `_soonest`."""
        for lane in self._plan.lanes.values():
            if lane.due < now - lane.lateness:
                lane.close(now - lane.lateness)
        return self._soonest()

    def close_epochs(self) -> None:
        """Close the epochs that the clock has passed."""
        now = self._clock.now
        for lane in self._plan.lanes.values():
            lane.close(now - lane.lateness)
        self._streams.forget(now)

    def _consume_irregular(self, event: Event) -> None:
        """Consume an irregular event: one of several streams, or a faulty one."""
        names: tuple[str, ...] = ()
        if isinstance(event, Event):
            names = names_of(event)
            reason = self._streams.fault(event, names)
        else:
            reason = f"it is no event but a {type(event).__name__}"
        if reason is not None:
            self._counts["rejected"] += 1
            self._rejected.append(Rejected(event, reason))
            return
        clock = self._clock
        t0, t1 = event.t0, event.t0 if event.t1 is None else event.t1
        self._pass_instants(t1)
        row = (t0, t1, clock.arrivals, *event.values)
        clock.arrivals += 1
        self._streams.consume(row, names)
        if t1 > clock.now:
            clock.now = t1
            self.close_epochs()


def _columns(
    events: Sequence[Event], plain: Mapping[str, Types], farthest: int
) -> EventColumns | None:
    """Return events as columns, or None if one of them has to be looked at closely."""
    if set(map(type, events)) != {Event}:
        return None
    names, values, begins, ends, _ = zip(*events, strict=True)
    if set(map(type, names)) != {str} or set(map(type, begins)) != {int}:
        return None
    kinds = set(map(type, ends))
    if NoneType in kinds:
        ends = begins if len(kinds) == 1 else tuple(map(_end, begins, ends))
    if not kinds <= {int, NoneType} or not (ends is begins or all(map(le, begins, ends))):
        return None
    if min(begins) < -farthest or max(ends) > farthest or not _fit(names, values, plain):
        return None
    return EventColumns(names, values, begins, ends)


def _end(begin: int, end: int | None) -> int | None:
    return begin if end is None else end


def _fit(names: Sequence[str], values: Sequence[Any], plain: Mapping[str, Types]) -> bool:
    """Return True if values have the types of their streams, without nulls."""
    kinds = set(map(plain.get, names))
    if None in kinds or set(map(type, values)) != {tuple}:
        return False
    if len(kinds) == 1:
        return _have(values, plain[names[0]])
    groups: dict[Types, list[tuple[Any, ...]]] = {plain[name]: [] for name in set(names)}
    for name, one in zip(names, values, strict=True):
        groups[plain[name]].append(one)
    return all(_have(group, types) for types, group in groups.items())


def _have(values: Sequence[tuple[Any, ...]], types: Types) -> bool:
    """Return True if all tuples have the given types."""
    return set(map(len, values)) == {len(types)} and all(
        set(map(type, column)) == {kind}
        for kind, column in zip(types, zip(*values, strict=True), strict=True)
    )
