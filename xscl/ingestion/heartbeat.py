"""Heartbeats: time that passes on live streams without documents.

Temporal operators wait for the end of an epoch or for a deadline by the event clock, which
documents raise.  On live streams, whose documents arrive as they happen, the wall clock raises it,
too.  When an operator there is overdue, a *beat* is appended to the spool: a segment without
documents that carries a time.  The consumer processes it in order, in a transaction like any batch.
So its effects are durable, occur once, and are repeatable when the spool is read again.

A beat must not overtake documents in transit to the spool.  A document that is posted with the time
of its sender's clock takes a moment, so a beat is a little behind the clock of arrivals
(`xscl.polling.arrival_clock`).  Items arrive with polls, so after a time without polls a beat waits
for them.  A document that exceeds the lateness of its stream is late, and is recorded as such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from feeds.faultpoints import reached
from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.polling.feed_repository import ticks

ON_THE_WAY = 1_000_000
"""Ticks by which a beat is behind the clock, for documents that are not in the spool yet."""


@dataclass(eq=False)
class Heartbeat:
    """Appends beats to a spool when an engine waits for time to pass.

    `heard_until` returns the time up to which all feeds were polled, None without feeds; `clock`
    returns the time.  Both are in ticks.
    """

    engine: Engine
    spool: Spool
    heard_until: Callable[[], int | None] = lambda: None
    clock: Callable[[], int] = ticks

    def beat_if_due(self) -> None:
        """Append a beat if an operator waits for its time and all segments are consumed.

        Raises SegmentsMissing if a segment is lost.
        """
        time = self.clock() - ON_THE_WAY
        waiting = self.spool.consecutive(self.engine.ingest.segment, self.spool.latest(), 1)
        if waiting or not self.engine.ingest.is_awaited(time):
            return
        heard = self.heard_until()
        if heard is not None and heard < time:
            time = heard
            if not self.engine.ingest.is_awaited(time):
                return
        self.spool.beat(time)
        reached("beat")
