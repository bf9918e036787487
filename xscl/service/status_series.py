"""The figures of a service over its last day: throughput, waiting documents, lag and memory.

They are sampled at fixed intervals into a ring, so their memory is bounded.  A restart begins
anew: `/v1/metrics` is what a monitoring system keeps.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xscl.polling.feed_repository import ticks

STEP = 15.0
"""Seconds between two samples."""
KEPT = 5_760
"""Samples, of a day."""

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class StatusSample:
    """The figures of one interval, which ended at a time.

    `documents` and `matches` are rates a second; `waiting` and `lag`, in seconds, are the largest
    ones; `memory` is the resident memory in bytes at the end, 0 where it is not known.
    """

    at: int
    documents: float
    matches: float
    waiting: int
    lag: float
    memory: int


class StatusSeries:
    """A ring of samples, thread-safe; `clock` returns seconds, `now` the time in ticks."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], int] = ticks
    ) -> None:
        self._clock = clock
        self._now = now
        self._mutex = threading.Lock()
        self._samples: deque[StatusSample] = deque(maxlen=KEPT)
        self._began: tuple[float, int, int] | None = None
        self._largest = (0, 0.0)

    def observe(self, documents: int, matches: int, waiting: int, lag: float) -> None:
        """Note the totals of documents and matches, and what waits; sample them when it is time."""
        now = self._clock()
        with self._mutex:
            self._largest = max(self._largest[0], waiting), max(self._largest[1], lag)
            if self._began is None:
                self._began = now, documents, matches
                return
            began, documents_before, matches_before = self._began
            passed = now - began
            if passed < STEP:
                return
            rates = (documents - documents_before) / passed, (matches - matches_before) / passed
            self._samples.append(StatusSample(self._now(), *rates, *self._largest, resident()))
            self._began, self._largest = (now, documents, matches), (0, 0.0)

    def since(self, begin: int) -> list[StatusSample]:
        """Return the samples after a time in ticks, the oldest first."""
        with self._mutex:
            return [one for one in self._samples if one.at > begin]


def resident() -> int:
    """Return the resident memory of this process in bytes, 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
