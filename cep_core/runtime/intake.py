"""Events on their way in: checked, numbered, handed to the plan, the clock raised.

Most events name one stream and fit its schema, and one condition says so; the others are checked
in full.  An event that no query reads costs little more than that.

Instants of calendars are events that occur between others: each event emits those before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from cep_core.dataflow.clock import Clock
from cep_core.events import Event, Rejected
from cep_core.plan.plan import Plan
from cep_core.runtime.streams import EngineStreams, names_of

_TOGETHER = 1_000  # events that are drawn from the iterable before any of them is consumed
_NO_EVENT: Any = (None, (), 0, 0, None)


class EventIntake:
    """Consumes events; one that does not fit its stream is rejected, not raised."""

    def __init__(
        self, streams: EngineStreams, plan: Plan, counts: dict[str, int], rejected: deque[Rejected]
    ) -> None:
        self._streams = streams
        self._plan = plan
        self._clock: Clock = plan.clock
        self._counts = counts
        self._rejected = rejected
        self._instants = 0  # number of instants emitted in this push

    def consume(self, events: Iterable[Event]) -> None:
        """Consume events in order of arrival; each closes the epochs that it ends."""
        begun = self._clock.arrivals
        self._instants = 0
        coming = iter(events)
        try:
            while some := tuple(islice(coming, _TOGETHER)):
                self._consume_each(some)
        finally:
            self._counts["events"] += self._clock.arrivals - begun - self._instants

    def _pass_instants(self, time: int) -> None:
        """Emit the instants before a time."""
        self._instants += self._streams.pass_instants(time)

    def _consume_each(self, events: Sequence[Event]) -> None:
        """Consume events one by one."""
        streams, clock = self._streams, self._clock
        by_name, remembered = streams.by_name, streams.widest > 0
        instant = streams.instants.next()
        earliest, latest = -streams.farthest, streams.farthest
        lanes = tuple(self._plan.lanes.values())
        try:
            for event in events:
                name, values, t0, t1, _ = event if type(event) is Event else _NO_EVENT
                base = by_name.get(name) if type(name) is str else None
                if t1 is None:
                    t1 = t0
                if not (
                    base is not None
                    and type(values) is tuple
                    and base.fits(values)
                    and type(t0) is int
                    and (t1 is t0 or type(t1) is int)
                    and earliest <= t0 <= t1 <= latest
                ):
                    self._consume_irregular(event)
                    instant = streams.instants.next()
                    continue
                if t1 > instant:
                    self._pass_instants(t1)
                    instant = streams.instants.next()
                for lane in lanes:
                    watermark = t1 - lane.lateness
                    if watermark > lane.due:
                        lane.close(watermark)
                    elif watermark > lane.closed:
                        lane.closed = watermark
                arrival = clock.arrivals
                clock.arrivals = arrival + 1
                listening = base.routes.get(base.slot)
                if listening is not None or remembered:
                    row = (t0, t1, arrival, *values)
                    if remembered:
                        streams.remember(row, (base.name,))
                    for port in listening or ():
                        port.receive(row, base.members)
                if t1 > clock.now:
                    clock.now = t1
        finally:
            streams.forget(clock.now)

    def close_epochs(self) -> None:
        """Close the epochs that the clock has passed."""
        clock = self._clock
        for lane in self._plan.lanes.values():
            lane.close(clock.now - lane.lateness)

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
        values = self._streams.by_name[names[0]].schema.row_values(event.values)
        row = (t0, t1, clock.arrivals, *values)
        clock.arrivals += 1
        self._streams.consume(row, names)
        if t1 > clock.now:
            clock.now = t1
            self.close_epochs()
