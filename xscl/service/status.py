"""The status figures of a service: `xscl status`, status.json, and those of the last day.

Most figures are counts over whole tables, whose cost grows with the store.  A repeated reader
(`StatusReader`) gets the progress of the consumer and its backlog fresh each time, and adds new
documents and matches to those that it has counted.  All are recounted after a change, but not
before twenty times the duration of the last count has passed, or a minute.

`StatusSeries` samples throughput, latency, backlog and memory at fixed intervals into a ring
buffer, so its memory is bounded.  A restart empties it: a monitoring system gets longer series from
`/v1/metrics`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from feeds.errors import SpoolError
from feeds.spool import Spool
from feeds.spool_files import Segment
from xscl.client.bodies import ticks_of, time_of
from xscl.client.service_answers import StatusSample
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.documents.retention import (
    Retention,
    described,
    load_retention,
    retained_texts,
)
from xscl.engine.facade import Engine
from xscl.engine.heap_trim import resident_bytes
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.watches import ExecutorsWatch
from xscl.polling.feed_repository import ticks
from xscl.store.queries.status import counts_since, small_counts, status_counts
from xscl.store.store import Store
from xscl.store.store_lock import StoreMark
from xscl.time_format import written


def status(store: Store, home: DataDirectory, engine: Engine | None = None) -> dict[str, Any]:
    """Return the current figures.

    `store` is a connection of its own, which sees only whole batches of an engine that runs in
    another thread.  Without `engine` the figure `windows` is None.
    """
    return StatusReader(store, home, engine=engine).now() | {"rates": None}


RATIO = 20
"""Pause between counts as a multiple of the last count's duration."""

LONGEST = 60.0
"""Maximum age in seconds of counts after a change."""


@dataclass(eq=False)
class StatusReader:
    """Repeated reads of the figures of one store; `clock` returns seconds.

    `engine` is the running one, if any; `ticks` is the arrival clock.  `executors` watches the
    executors of the engine.
    """

    store: Store
    home: DataDirectory
    clock: Callable[[], float] = time.monotonic
    engine: Engine | None = None
    ticks: Callable[[], int] = ticks
    executors: ExecutorsWatch | None = None

    def __post_init__(self) -> None:
        self._counted: dict[str, Any] = {}
        self._until = 0.0  # no recount before this time
        self._mark: StoreMark | None = None  # of the store at the last whole count
        self._seen: StoreMark | None = None
        self._next_addition = 0.0
        self._reached = 0, 0  # next document number and position when last counted
        self._backlog = _Backlog()

    def now(self, *, whole: bool = False) -> dict[str, Any]:
        """Return the figures (see `figures`) for JSON; with `whole` all of them are recounted."""
        began, engine = self.clock(), self.engine
        mark = self.store.seen()  # later commits are counted the next time
        if whole or not self._counted or (mark != self._mark and began >= self._until):
            self._mark, self._reached = mark, (0, 0)
            with self.store.reading():
                self._counted = _counted(self.store)
                self._add_new()
            if engine is not None:
                self._counted["windows"] = [
                    dict(zip(("ticks", "witnesses", "instances", "last_day"), one, strict=True))
                    for one in engine.queries.state_by_window(self.store)
                ]
            ended = self.clock()
            self._until = ended + min(RATIO * (ended - began), LONGEST)
            self._seen, self._next_addition = mark, 0.0
        elif mark != self._seen and began >= self._next_addition:
            with self.store.reading():
                self._add_new()
            ended = self.clock()  # a count of matches reads all kept ones: 90 ms of 4,000,000
            self._seen, self._next_addition = mark, ended + RATIO * (ended - began)
        position = ConsumedOffsets(self.store).segment
        latest, waiting, oldest = self._backlog.look(self.home, position)
        executors = self._of_executors()
        through = "direct" if executors is None else "spark"
        return self._counted | {
            "spool": latest,
            "position": position,
            "waiting": waiting,
            "lag": max(0.0, (self.ticks() - oldest) / 1e6) if waiting else 0.0,
            "rates": None if engine is None else asdict(engine.ingest.pace.rates()),
            "refused": 0 if engine is None else engine.state.subscriptions.refusals,
            "executors": executors,
            "consumer": through if position else None,
        }

    def _of_executors(self) -> dict[str, Any] | None:
        if self.executors is None or self.engine is None:
            return None
        joins, here = self.engine.state.registry.places()
        away = self.executors.away
        shown = None if away is None else asdict(away) | {"since": written(away.since)}
        return {"joins": joins, "here": here, "away": shown}

    def _add_new(self) -> None:
        """Add the documents and matches since the last count to the counts."""
        came = counts_since(self.store, *self._reached)
        self._counted |= small_counts(self.store)
        self._counted |= {name: self._counted.get(name, 0) + new for name, new in came.items()}
        next_doc, position = self.store.numbers("next_doc", "position")
        self._reached = next_doc, position
        clock = self._counted["clock"]
        self._counted["clock"] = None if clock is None else written(clock)


def _counted(store: Store) -> dict[str, Any]:
    """Count the figures that need whole tables."""
    texts = retained_texts(store)
    return status_counts(store) | {
        "texts": texts.texts,
        "text_bytes": texts.text_bytes,
        "texts_since": None if texts.since is None else written(texts.since),
        "texts_removed": texts.removed,
        "keeps": described(load_retention(store) or Retention()),
        "windows": None,
    }


class _Backlog:
    """The segments that wait to be consumed; each is opened once."""

    def __init__(self) -> None:
        self._spool: Spool | None = None  # kept, as it caches the files that it has read
        self._segments: deque[Segment] = deque()
        self._seen = 0

    def look(self, home: DataDirectory, position: int) -> tuple[int, int, int]:
        """Return the latest segment's number, and count and arrival of the waiting documents.

        They are in segments after `position`.  The arrival is that of the oldest in ticks, or 0.
        """
        if self._spool is None or not home.spool.is_dir():
            try:
                self._spool = Spool(home.spool, read_only=True)
            except SpoolError:
                return 0, 0, 0
        spool = self._spool
        while self._segments and self._segments[0].number <= position:
            self._segments.popleft()
        self._segments.extend(spool.segments(max(position, self._seen)))
        if self._segments:
            self._seen = self._segments[-1].number
        waiting = sum(segment.rows for segment in self._segments)
        return spool.latest(), waiting, self._segments[0].arrived if self._segments else 0


STEP = 15.0
"""Seconds between two samples."""
KEPT = 5_760
"""Maximum number of samples: those of a day."""
SPANS = {"hour": 3_600_000_000, "day": 86_400_000_000}
"""The spans for which samples are shown, in ticks."""
MOST_LATENCIES = 4_096
"""Maximum number of latencies of an interval for its quantiles; the last ones are kept."""


class StatusSeries:
    """A thread-safe ring buffer of samples; `clock` returns seconds, `now` ticks since 1970."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], int] = ticks
    ) -> None:
        self._clock = clock
        self._now = now
        self._mutex = threading.Lock()
        self._samples: deque[StatusSample] = deque(maxlen=KEPT)
        self._began: tuple[float, int, int] | None = None
        self._largest = (0, 0.0)
        self._latencies: deque[float] = deque(maxlen=MOST_LATENCIES)

    def note_latency(self, seconds: float) -> None:
        """Note the time from the arrival of a batch to its commit."""
        with self._mutex:
            self._latencies.append(max(0.0, seconds))

    def observe(self, documents: int, matches: int, waiting: int, lag: float) -> None:
        """Note total counts and the backlog (`lag` in seconds); add a sample after each `STEP`."""
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
            found = sorted(self._latencies)
            self._samples.append(
                StatusSample(
                    at=time_of(self._now()),
                    documents=(documents - documents_before) / passed,
                    matches=(matches - matches_before) / passed,
                    waiting=self._largest[0],
                    lag=self._largest[1],
                    memory=resident_bytes(),
                    p50=_quantile(found, 0.5),
                    p95=_quantile(found, 0.95),
                )
            )
            self._began, self._largest = (now, documents, matches), (0, 0.0)
            self._latencies.clear()

    def since(self, begin: int) -> list[StatusSample]:
        """Return the samples after a time in ticks, the oldest first."""
        with self._mutex:
            return [sample for sample in self._samples if ticks_of(sample.at) > begin]


def _quantile(found: Sequence[float], share: float) -> float:
    """Return a quantile of values in ascending order, 0 of none."""
    return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0
