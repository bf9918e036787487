"""`pipeline`: from the spool to matches, with executors of Spark and without.

Two consumers process the same segments in turns, each into an engine of its own, and must have
equal matches.  A *trigger* is one segment of 10,000 items.  Its time runs from the end of the one
before to the commit of its matches, so it includes all of Spark's own work.  The *latency* of a
segment runs from the acknowledgement of its items to the delivery of the match that it completes.
Segments arrive one at a time, each after the one before is finished.

Spark is local, with two tasks at a time.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.feed_items import DAY, items, wishes
from benchmarks.harness import Options, Row, Stages, Value, require_equal, timed_stages
from benchmarks.rss import STAGES
from feeds.documents import Document
from feeds.spool import Spool
from xscl.engine.executors import Executors
from xscl.engine.facade import Engine
from xscl.ingestion.pipeline import Consumer
from xscl.subscriptions.matches import Matches

NAME = "pipeline"
SEED = 2006
PAUSE = 0.037  # seconds between two segments, so that looks of Spark and arrivals keep no step
MASTER = "local[2]"


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes: items in a trigger, triggers in a round, rounds, segments timed one by one."""

    subscriptions: int
    batch: int
    triggers: int
    rounds: int
    singles: int


QUICK = Plan(10_000, 5_000, 2, 1, 10)
FULL = Plan(10_000, 10_000, 4, 3, 100)


@dataclass(slots=True)
class Side:
    """One consumer from a spool to an engine, and the end of each of its batches."""

    name: str
    spool: Spool
    engine: Engine
    executors: Executors | None = None
    ended: list[float] = field(default_factory=list)
    found: threading.Event = field(default_factory=threading.Event)
    triggers: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    stages: Stages = field(default_factory=Stages)

    def listen(self, matches: Matches) -> None:
        self.ended.append(time.perf_counter())
        if len(matches):
            self.found.set()

    def run_once(self) -> None:
        """Consume the spool; the first batch, in which a query may start, is not counted."""
        self.ended.clear()
        consumer = self._consumer()
        with timed_stages(self.stages, STAGES | {"waiting and reading": (consumer, "run_once")}):
            consumer.run_once()
        self.triggers.extend(b - a for a, b in zip(self.ended, self.ended[1:], strict=False))

    def time_singles(self, pairs: Sequence[list[Document]]) -> None:
        """Send segments one by one, each with a match to an earlier one."""
        consumer = self._consumer()
        thread = threading.Thread(target=consumer.serve)
        thread.start()
        try:
            for number, pair in enumerate(pairs):
                self.found.clear()
                self.spool.append(pair, 0)
                began = time.perf_counter()
                if not self.found.wait(60):
                    raise TimeoutError(f"{self.name}: no match for segment {number} within 60 s")
                if number >= len(pairs) // 10:  # the query has started
                    self.latencies.append(self.ended[-1] - began)
                time.sleep(PAUSE)
        finally:
            consumer.stop()
            thread.join()

    def _consumer(self) -> Consumer:
        return Consumer(
            self.spool,
            self.engine.ingest,
            executors=self.executors,
            on_matches=self.listen,
            batch=1,
        )


def run(options: Options) -> Iterator[Row]:
    """Yield documents a second at large batches, and the latency of single segments."""
    plan = QUICK if options.quick else FULL
    with TemporaryDirectory() as folder, _sides(Path(folder), plan) as sides:
        direct, spark = sides
        stream = [i.document() for i in items(plan.batch * plan.triggers * plan.rounds, SEED)]
        segments = [stream[at : at + plan.batch] for at in range(0, len(stream), plan.batch)]
        for number in range(0, len(segments), plan.triggers):
            for side in sides:
                for segment in segments[number : number + plan.triggers]:
                    side.spool.append(segment, 0)
                side.run_once()
        rows = "SELECT qid, doc1, doc2 FROM state.result"
        count = require_equal(_rows(spark.engine, rows), _rows(direct.engine, rows), NAME)
        for side in sides:
            yield _rate(plan, side, direct, count)
            if options.profile:
                parameters = _parameters(plan, side) | {"profile": "share of time by stage"}
                yield Row(NAME, parameters, side.stages.shares())
        last = stream[-1].timestamp
        for side in sides:
            side.time_singles(_pairs(plan.singles, last + 2 * DAY))
            yield _latency(plan, side)


def _rows(engine: Engine, query: str) -> Iterator[tuple[int, ...]]:
    return zip(*engine.sql(query).to_pydict().values(), strict=True)


@contextmanager
def _sides(folder: Path, plan: Plan) -> Iterator[tuple[Side, Side]]:
    # Loading Spark takes seconds, and other benchmarks do without.
    from xscl.spark.executors import SparkExecutors

    asked = [
        (f"s{n}", wish.query("1 d")) for n, wish in enumerate(wishes("a", plan.subscriptions, SEED))
    ]
    with ExitStack() as stack:

        def side(name: str) -> Side:
            spool = stack.enter_context(Spool(folder / name))
            engine = stack.enter_context(Engine(folder / f"{name}.sqlite", owns_process=True))
            engine.subscribe_many(asked)
            return Side(name, spool, engine)

        direct, spark = side("direct"), side("spark")
        executors = SparkExecutors(MASTER, spark.engine, folder / "executors")
        stack.callback(executors.close)
        spark.executors = executors
        yield direct, spark


def _pairs(count: int, start: int) -> list[list[Document]]:
    """Return segments of two items, the second of which has the first one's title."""
    found = []
    for number in range(count):
        texts = [
            f"<item><item_url>http://one.example/{number}/{half}</item_url>"
            f"<channel_url>http://one.example/</channel_url><title>number {number}</title>"
            f"<timestamp>minute {number}{half}</timestamp><description>half {half} of {number}"
            "</description></item>"
            for half in range(2)
        ]
        found.append(
            [
                Document(
                    "feed", f"single{number}.{half}", start + 10 * number + half, text.encode()
                )
                for half, text in enumerate(texts)
            ]
        )
    return found


def _parameters(plan: Plan, side: Side) -> dict[str, Value]:
    return {
        "consumer": side.name,
        "subscriptions": plan.subscriptions,
        "window": "1 d",
        "scope": "end_to_end",
        "storage": "file",
    }


def _rate(plan: Plan, side: Side, direct: Side, rows: int) -> Row:
    seconds = statistics.median(side.triggers)
    (templates,) = _rows(side.engine, "SELECT count(DISTINCT template) FROM R_sub")
    figures: dict[str, Value] = {
        "items_per_s": plan.batch / seconds,
        "ratio": statistics.median(direct.triggers) / seconds,
        "rows": rows,
        "templates": int(str(templates[0])),
    }
    return Row(NAME, _parameters(plan, side) | {"batch": plan.batch}, figures)


def _latency(plan: Plan, side: Side) -> Row:
    cuts = statistics.quantiles(side.latencies, n=20, method="inclusive")
    figures: dict[str, Value] = {"p50_ms": cuts[9] * 1000, "p95_ms": cuts[18] * 1000}
    return Row(NAME, _parameters(plan, side) | {"batch": 2}, figures)
