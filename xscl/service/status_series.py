"""The figures of a service over its last day: throughput, latency, what waits, and memory.

They are sampled at fixed intervals into a ring buffer, so their memory is bounded.  A restart
begins anew: `/v1/metrics` is what a monitoring system keeps.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xscl.engine.heap_trim import resident_bytes
from xscl.polling.feed_repository import ticks

STEP = 15.0
"""Seconds between two samples."""
KEPT = 5_760
"""Samples, of a day."""
SPANS = {"hour": 3_600_000_000, "day": 86_400_000_000}
"""The spans for which samples are shown, in ticks."""
MOST_LATENCIES = 4_096
"""Latencies of one interval that its quantiles are made of, the last ones."""


@dataclass(frozen=True, slots=True)
class SeriesSample:
    """The figures of one interval, which ended at a time.

    `documents` and `matches` are rates a second; `waiting` and `lag`, in seconds, are the largest
    ones; `memory` is the resident memory in bytes at the end, 0 where it is not known.  `p50` and
    `p95` are quantiles of the seconds from the arrival of a batch to its commit, 0 without any.
    """

    at: int
    documents: float
    matches: float
    waiting: int
    lag: float
    memory: int
    p50: float = 0.0
    p95: float = 0.0


class StatusSeries:
    """A ring buffer of samples, thread-safe; `clock` returns seconds, `now` the time in ticks."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], int] = ticks
    ) -> None:
        self._clock = clock
        self._now = now
        self._mutex = threading.Lock()
        self._samples: deque[SeriesSample] = deque(maxlen=KEPT)
        self._began: tuple[float, int, int] | None = None
        self._largest = (0, 0.0)
        self._latencies: deque[float] = deque(maxlen=MOST_LATENCIES)

    def note_latency(self, seconds: float) -> None:
        """Note the time from the arrival of a batch to its commit."""
        with self._mutex:
            self._latencies.append(max(0.0, seconds))

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
            found = sorted(self._latencies)
            quantiles = (_quantile(found, 0.5), _quantile(found, 0.95))
            self._samples.append(
                SeriesSample(self._now(), *rates, *self._largest, resident_bytes(), *quantiles)
            )
            self._began, self._largest = (now, documents, matches), (0, 0.0)
            self._latencies.clear()

    def since(self, begin: int) -> list[SeriesSample]:
        """Return the samples after a time in ticks, the oldest first."""
        with self._mutex:
            return [one for one in self._samples if one.at > begin]


def _quantile(found: Sequence[float], share: float) -> float:
    """Return a quantile of values in ascending order, 0 of none."""
    return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0
