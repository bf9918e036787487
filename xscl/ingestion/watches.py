"""Watches of a service: whether its consumer stalls, and whether its executors are away.

They work without the engine's lock, which a long push holds, and are thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from xscl.errors import XsclError

STALLED = 60.0
"""Seconds without a commit, while segments wait, after which the consumer counts as stalled.

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


class ConsumerWatch:
    """Compares the committed segments with the spool; `latest` returns its last segment.

    Thread-safe. It has to be polled, because it detects only then that waiting begins.
    """

    def __init__(
        self,
        latest: Callable[[], int],
        position: int,
        clock: Callable[[], float] = time.monotonic,
        stalled: float = STALLED,
    ) -> None:
        self._latest = latest
        self._position = position
        self._clock = clock
        self._stalled = stalled
        self._since: float | None = None  # when it was first seen that something waits
        self._mutex = threading.Lock()

    def committed(self, position: int) -> None:
        """Record that the spool was consumed up to a segment, in a durable transaction."""
        with self._mutex:
            self._position = position
            self._since = None

    def stall(self) -> ConsumerStall | None:
        """Return the stall of the consumer, None if it advances."""
        latest, now = self._latest(), self._clock()
        with self._mutex:
            if latest <= self._position:
                self._since = None
                return None
            if self._since is None:
                self._since = now
            waited = now - self._since
            return ConsumerStall(self._position + 1, waited) if waited >= self._stalled else None


@dataclass(frozen=True, slots=True)
class Away:
    """Executors that evaluate no documents, since a time in ticks, for a reason."""

    since: int
    reason: str
    hint: str | None = None


class ExecutorsWatch:
    """Notes whether executors are away, as they are until they have started; thread-safe.

    `now` returns the time in ticks.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._mutex = threading.Lock()
        self._away: Away | None = Away(now(), STARTING, _LASTS)

    @property
    def away(self) -> Away | None:
        """Since when executors are away, and why; None if they are there."""
        with self._mutex:
            return self._away

    def note(self, failure: XsclError | None) -> bool:
        """Record why executors are away, None if they are there; return True for a new reason."""
        with self._mutex:
            before = self._away
            if failure is None:
                self._away = None
                return before is not None
            since = self._now() if before is None else before.since
            self._away = Away(since, failure.message, failure.hint)
            return before is None or before.reason != failure.message
