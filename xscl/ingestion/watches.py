"""Watches of a service: whether its consumer stalls, and whether its executors are away.

They work without the engine's lock, which a long push holds, and are thread-safe.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from xscl.errors import XsclError

_log = logging.getLogger(__name__)

STALLED = 60.0
"""Seconds without a commit while segments wait, from which on the consumer counts as stalled.

A batch is cut so that it takes a second; Spark needs up to a minute to start.
"""
AGAIN = 5.0
"""Seconds after which executors that are away are asked again."""

STARTING = "Spark is starting"
_LASTS = "if that lasts: does the master have executors? spark/spark.log in the data says more"


@dataclass(frozen=True, slots=True)
class ConsumerStall:
    """A consumer that does not advance: its first waiting segment, and for how many seconds."""

    segment: int
    seconds: float


@dataclass(eq=False)
class ConsumerWatch:
    """Compares the last committed segment with that of the spool, which `latest` returns.

    Thread-safe.  The time without a commit counts from the first call of `stall` that finds a
    waiting segment, so it must be called regularly.
    """

    latest: Callable[[], int]
    position: int
    clock: Callable[[], float] = time.monotonic
    stalled: float = STALLED

    def __post_init__(self) -> None:
        self._since: float | None = None  # time of the first `stall` that found a waiting segment
        self._mutex = threading.Lock()

    def committed(self, position: int) -> None:
        """Record that the spool was consumed up to the segment `position`, durably."""
        with self._mutex:
            self.position = position
            self._since = None

    def stall(self) -> ConsumerStall | None:
        """Return the stall of the consumer, None if it advances."""
        latest, now = self.latest(), self.clock()
        with self._mutex:
            if latest <= self.position:
                self._since = None
                return None
            if self._since is None:
                self._since = now
            waited = now - self._since
            return ConsumerStall(self.position + 1, waited) if waited >= self.stalled else None


@dataclass(frozen=True, slots=True)
class Away:
    """Executors that evaluate no documents, since a time in ticks, for a reason."""

    since: int
    reason: str
    hint: str | None = None


class ExecutorsWatch:
    """Notes whether executors are available; until they have started they are away.

    `now` returns the time in ticks.  `away` is None while executors are available.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.away: Away | None = Away(now(), STARTING, _LASTS)

    def note(self, failure: XsclError | None) -> None:
        """Record the failure for which executors are away, None if they are available.

        Only the consumer calls this.
        """
        before = self.away
        if failure is None:
            self.away = None
            if before is not None and before.reason != STARTING:
                _log.warning("Spark is there: documents are taken from the spool again")
            return
        since = self._now() if before is None else before.since
        self.away = Away(since, failure.message, failure.hint)
        if before is None or before.reason != failure.message:
            _log.warning("documents wait in the spool: %s", failure.message)
