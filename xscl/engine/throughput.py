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
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:  # not imported at run time: commands use this module without the engine
    from xscl.planning.plan_graph import PlanGraph

PushStage: TypeAlias = Literal["wait", "accept", "join", "store", "commit"]

KEPT = 300
"""Seconds of which counts are kept."""


@dataclass(frozen=True, slots=True)
class PushRates:
    """Documents and matches a second, on average over one minute and over five."""

    documents_1m: float = 0.0
    documents_5m: float = 0.0
    matches_1m: float = 0.0
    matches_5m: float = 0.0


class PushThroughput:
    """Counts the documents and matches of pushes by the second.  Thread-safe.

    `clock` returns seconds.  `matches_between` returns the number of matches after one position of
    the log of results, up to another: they are counted on reading, so that no push waits for that.
    """

    def __init__(
        self,
        matches_between: Callable[[int, int], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._matches_between = matches_between
        self._clock = clock
        self._mutex = threading.Lock()
        # (second, the number of documents before it, the last position before it)
        self._seconds: deque[tuple[int, int, int]] = deque()
        self._began = clock()
        self._position = 0
        self._counting = threading.Lock()
        self._matches, self._counted_to = 0, 0
        self.documents = 0
        self.pushes = 0
        self.listener: Callable[[PushStage, float], None] | None = None

    def count(self, documents: int, position: int, results: int) -> None:
        """Count one push of some documents: `results` is the number of its results.

        `position` is that of the last result.
        """
        now, before = int(self._clock()), position - results
        with self._mutex:
            if not self.pushes:
                self._counted_to = before
            if not self._seconds or self._seconds[-1][0] < now:
                self._seconds.append((now, self.documents, before))
            while self._seconds[0][0] < now - KEPT:
                self._seconds.popleft()
            self.pushes += 1
            self.documents += documents
            self._position = position

    @property
    def matches(self) -> int:
        """The number of matches that were found since the first push."""
        with self._counting:
            with self._mutex:
                position = self._position
            if position > self._counted_to:
                self._matches += self._matches_between(self._counted_to, position)
                self._counted_to = position
            return self._matches

    def rates(self) -> PushRates:
        """Return the average rates of the last minute and the last five minutes.

        Soon after the start of the engine they are those since the start.
        """
        now = self._clock()
        with self._mutex:
            known, every, position = list(self._seconds), self.documents, self._position
        documents, matches = [], []
        found = 0
        for seconds in (60, KEPT):
            among = (one for one in known if one[0] > now - seconds)
            _, earlier, before = next(among, (now, every, position))
            over = min(float(seconds), max(1.0, now - self._began))
            documents.append((every - earlier) / over)
            if before < position:  # `found` has the matches of the shorter interval already
                found += self._matches_between(before, position)
                position = before
            matches.append(found / over)
        return PushRates(documents[0], documents[1], matches[0], matches[1])


class StageTimer:
    """A stopwatch for the stages of one push; it gives their times to the listener of `pace`."""

    def __init__(self, pace: PushThroughput) -> None:
        self._pace = pace
        self._last = time.perf_counter()

    def end(self, stage: PushStage) -> None:
        """End a stage, which began where the last one ended; the listener gets its seconds."""
        now = time.perf_counter()
        if self._pace.listener is not None:
            self._pace.listener(stage, now - self._last)
        self._last = now


LOOK, OVER = 10.0, 60.0
"""Seconds between two samples of the counters of rows, and over which rates are averaged."""


class PlanThroughput:
    """Computes the rates of rows at the nodes of a plan; `clock` returns seconds.

    A push samples the nodes' counters of rows before it runs (`look`).  Samples of the last minute
    are kept, so nothing has to be counted by the second.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seen: deque[tuple[float, dict[str, int]]] = deque()

    def look(self, passed: Callable[[], dict[str, int]]) -> None:
        """Sample the counters before a push, unless that was done in the last ten seconds.

        `passed` returns, by the name of a node of the plan, the number of its rows so far.
        """
        now = self._clock()
        if self._seen and now - self._seen[-1][0] < LOOK:
            return
        self._seen.append((now, passed()))
        self._forget(now)

    def rated(self, graph: PlanGraph, rows: dict[str, int]) -> PlanGraph:
        """Return the graph with the `rows` of each node so far, and its rate in rows a second.

        The rate is that since the first kept sample.  Pushes before it were over a minute ago: each
        later one has a sample of its own, or followed one within seconds.
        """
        now = self._clock()
        self._forget(now)
        since, before = self._seen[0] if self._seen else (now, rows)
        over = max(1.0, min(OVER, now - self._began), now - since)
        nodes = []
        for node in graph.nodes:
            count = rows.get(node.name, 0)
            lately = max(0, count - before.get(node.name, 0))
            nodes.append(replace(node, rows=count, rate=lately / over))
        return replace(graph, nodes=tuple(nodes))

    def _forget(self, now: float) -> None:
        while self._seen and self._seen[0][0] < now - OVER - LOOK:
            self._seen.popleft()
