"""Time that passes when nothing comes.

Operators over time wait for the end of an epoch or for a deadline, and the clock that says that it
is over is raised by documents.  On live streams, whose documents come as they happen, it is over
by the wall clock too.  When something waits there whose time has come, a *beat* is appended to the
spool: a segment without documents that says how late it is.  It is consumed in its turn, by
whichever consumer, in a transaction like any batch; so what follows from it is as durable, comes
as much once, and is the same when the spool is read again, as what follows from documents.

A beat must not overtake documents that are on their way to the spool.  Those that are posted with
the time of their sender's clock take a moment, so a beat is a little behind the clock of arrivals
(`xscl.polling.arrival_clock`).  Items come
when their feeds are polled: after a time in which nothing was polled it waits for that.  What comes
later than its stream allows is late, and told as such.
"""

from __future__ import annotations

from collections.abc import Callable

from feeds.faultpoints import reached
from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.polling.feed_repository import ticks

ON_THE_WAY = 1_000_000
"""Ticks from a document's own time to its segment that are allowed for."""


class Timekeeper:
    """Appends beats to a spool when an engine waits for the time.

    `heard_until` says until which time all feeds have been heard, None without feeds; `clock`
    tells the time.  Both are in ticks.
    """

    def __init__(
        self,
        engine: Engine,
        spool: Spool,
        heard_until: Callable[[], int | None] = lambda: None,
        clock: Callable[[], int] = ticks,
    ) -> None:
        self._engine = engine
        self._spool = spool
        self._heard_until = heard_until
        self._clock = clock

    def look(self) -> None:
        """Append a beat if somebody waits for it, and all that was before has been consumed.

        Raises SegmentsMissing if something of that is lost.
        """
        time = self._clock() - ON_THE_WAY
        waiting = self._spool.consecutive(self._engine.host.ingest.segment, self._spool.latest(), 1)
        if waiting or not self._engine.host.ingest.is_awaited(time):
            return
        heard = self._heard_until()
        if heard is not None and heard < time:
            time = heard
            if not self._engine.host.ingest.is_awaited(time):
                return
        self._spool.beat(time)
        reached("beat")
