"""Events on their way in: checked, numbered, handed to the plan, the clock raised.

Most events are of one stream and fit it; nobody may listen to it, and no epoch may be due.  So that
is asked first, and costs little: a row is made for those who listen, a lane is called if something
waits in it for the time that has come.  What is unusual in any way is looked at more closely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from cep_core.events import Event, Rejected
from cep_core.plan import Plan
from cep_core.runtime import BEGINNING, END, Clock
from cep_core.streams import Streams, names_of

_TOGETHER = 1_000  # events between which nobody else is asked for anything
_NO_EVENT: Any = (None, (), 0, 0, None)


class Intake:
    """Takes events in; what does not fit a stream is rejected, nothing is raised for it."""

    def __init__(
        self, streams: Streams, plan: Plan, counts: dict[str, int], rejected: deque[Rejected]
    ) -> None:
        self._streams = streams
        self._plan = plan
        self._clock: Clock = plan.clock
        self._counts = counts
        self._rejected = rejected

    def take(self, events: Iterable[Event]) -> None:
        """Take events in, in order of arrival; each closes the epochs that it ends."""
        begun = self._clock.arrivals
        coming = iter(events)
        try:
            while some := tuple(islice(coming, _TOGETHER)):
                self._take_some(some)
        finally:
            self._counts["events"] += self._clock.arrivals - begun

    def _take_some(self, events: Sequence[Event]) -> None:
        """Take some events in; what the clock says is kept here as long as nobody looks at it."""
        streams, clock = self._streams, self._clock
        by_name, tallies, remembered = streams.by_name, streams.rates.counts, streams.widest > 0
        arrival, now, soonest = clock.arrivals, clock.now, self._soonest()
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
                    and tuple(map(type, values)) == base.plain
                    and type(t0) is type(t1) is int
                    and BEGINNING < t0 <= t1 < END
                ):
                    clock.arrivals, clock.now = arrival, now
                    self._take_unusual(event)
                    arrival, now, soonest = clock.arrivals, clock.now, self._soonest()
                    continue
                if name in tallies:
                    tallies[name] += 1
                else:
                    streams.rates.saw((base.name,), t1)
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
            for lane in self._plan.lanes.values():
                lane.pass_to(clock.now - lane.lateness)
            streams.forget(clock.now)

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

    def _take_unusual(self, event: Event) -> None:
        """Take in an event that needs a closer look: of several streams, or faulty."""
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
        row = (t0, t1, clock.arrivals, *event.values)
        clock.arrivals += 1
        self._streams.take(row, names)
        if t1 > clock.now:
            clock.now = t1
            self.close_epochs()
