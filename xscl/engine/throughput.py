"""Throughput of an engine: documents and matches a second, and times of the stages of a push.

Counts are kept for each of the last 300 seconds.  Listeners, such as the histograms of
`/v1/metrics`, receive the times of stages:

    wait    for the engine's lock
    accept  documents are parsed and identified
    join    witnesses are found and joined
    store   results are stored, and expired state is evicted
    commit  until all changes are durable
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from xscl.planning.plan_graph import Passed, PlanGraph

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
    """Counts of pushes by the second; `clock` returns seconds.  Thread-safe."""

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
        """Return the recent rates; for a younger engine, since its start."""
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
        """End a stage, and begin the next one."""
        now = time.perf_counter()
        if self._pace.listener is not None:
            self._pace.listener(stage, now - self._last)
        self._last = now


LOOK, OVER = 10.0, 60.0
"""Seconds between two looks at what has passed, and over which it is averaged."""


class Flow:
    """Rates of rows at the nodes of a plan; `clock` returns seconds.

    A push samples the counters before it (`look`).  Samples of the last minute are kept, so
    nothing has to be counted by the second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def look(self, passed: Callable[[], Passed]) -> None:
        """Sample the counters before a push, unless there is a sample of the last seconds."""
        now = self._clock()
        if self._seen and now - self._seen[-1][0] < LOOK:
            return
        self._seen.append((now, passed().by_name()))
        self._forget(now)

    def rated(self, graph: PlanGraph, passed: Passed) -> PlanGraph:
        """Return a graph with the rows of its nodes, and their rates.

        Pushes before the first kept sample were over a minute ago: each later one has a sample of
        its own, or followed one within seconds.
        """
        now = self._clock()
        self._forget(now)
        rows = passed.by_name()
        since, before = self._seen[0] if self._seen else (now, rows)
        over = max(1.0, min(OVER, now - self._began), now - since)
        nodes = []
        for node in graph.nodes:
            count = rows.get(node.name, 0)
            lately = max(0, count - before.get(node.name, 0))
            nodes.append(replace(node, rows=count, rate=lately / over))
        return PlanGraph(tuple(nodes), graph.edges)

    def _forget(self, now: float) -> None:
        while self._seen and self._seen[0][0] < now - OVER - LOOK:
            self._seen.popleft()
