"""How fast an engine goes: documents and matches a second, and how long the stages of a push took.

Counts are kept for each of the last 300 seconds.  Stages are told to whoever listens, such as the
histograms of `/v1/metrics`:

    wait    for the engine's lock
    accept  documents are parsed and recognised
    join    witnesses are found and joined
    store   results are stored, and what is needed no more is forgotten
    commit  until all of it is durable
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal["wait", "accept", "join", "store", "commit"]

KEPT = 300
"""Seconds of which counts are kept."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Documents and matches a second, on average over one minute and over five."""

    documents_1m: float = 0.0
    documents_5m: float = 0.0
    matches_1m: float = 0.0
    matches_5m: float = 0.0


class Pace:
    """What pushes bring, by the second; `clock` tells seconds.  Any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._counts: deque[tuple[int, int, int]] = deque()  # second, documents, matches
        self._began = clock()
        self.documents = 0
        self.matches = 0
        self.pushes = 0
        self.listener: Callable[[Stage, float], None] | None = None

    def count(self, documents: int, matches: int) -> None:
        """Count one push."""
        now = int(self._clock())
        with self._mutex:
            self.pushes += 1
            self.documents += documents
            self.matches += matches
            if self._counts and self._counts[-1][0] == now:
                _, before, matched = self._counts.pop()
                documents, matches = documents + before, matches + matched
            self._counts.append((now, documents, matches))
            while self._counts[0][0] < now - KEPT:
                self._counts.popleft()

    def rates(self) -> Rates:
        """Return how fast it has gone lately; of one that began later, since it began."""
        now = self._clock()
        with self._mutex:
            counts = list(self._counts)
        found = []
        for seconds in (60, KEPT):
            among = [count for count in counts if count[0] > now - seconds]
            over = min(float(seconds), max(1.0, now - self._began))
            found.append([sum(count[at] for count in among) / over for at in (1, 2)])
        (documents_1m, matches_1m), (documents_5m, matches_5m) = found
        return Rates(documents_1m, documents_5m, matches_1m, matches_5m)


class Laps:
    """A stopwatch for the stages of one push."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._last = time.perf_counter()

    def end(self, stage: Stage) -> None:
        """Say that a stage has ended, and the next one begins."""
        now = time.perf_counter()
        if self._pace.listener is not None:
            self._pace.listener(stage, now - self._last)
        self._last = now
