"""Detection of a stalled consumer: segments wait, and none was committed for a while.

It works without the engine's lock, which a long push holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

STALLED = 60.0
"""Seconds without a commit, while segments wait, after which the consumer counts as stalled.

A batch is cut so that it takes a second; Spark needs up to a minute to start.
"""


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
