"""`spark`: joins on Spark's executors beside one engine, by processor time.

A stream of documents is pushed to an engine whose store is on a file, and is evaluated by
`xscl.spark.match` (mode `batch`) and `xscl.spark.stream` (mode `stream`, one file a micro-batch)
without content, into Parquet files.  The sides take turns, and their matches are compared by id.

Processor time is that of all processes: this one, Java, and the Python processes of Spark.  The
start of Spark and of its first queries is apart.  Of a stream the second half of the micro-batches
counts, when there is state.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import books_and_blogs
from benchmarks.feed_items import items, wishes
from benchmarks.harness import Options, Row, Value
from feeds.documents import Document
from xscl.engine.facade import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.spark.catalog import Catalog

NAME = "spark"
SEED = 2006
MASTER = "local[2]"
SAMPLE = 500  # documents by which designated equalities are chosen
PUSHED = 10_000  # documents of a push to the engine
WARMING = 400  # documents of the first queries, which are not counted

Ids: TypeAlias = Counter[tuple[str, str]]
"""Matches, by id and subscription."""


@dataclass(frozen=True, slots=True)
class Side:
    """A way to evaluate on Spark: its mode, the buckets, and the documents of a micro-batch."""

    mode: str
    buckets: int
    batch: int


@dataclass(frozen=True, slots=True)
class Point:
    """A workload and its sizes, the sides beside an engine, and how often all take turns."""

    workload: str
    documents: int
    subscriptions: int
    sides: tuple[Side, ...]
    rounds: int


BATCH, STREAM = Side("batch", 4, PUSHED), Side("stream", 4, PUSHED)
WIDE = Side("stream", 16, 4 * PUSHED)  # as many documents of a bucket and micro-batch
QUICK = (
    Point("b", 50_000, 1_000, (BATCH, STREAM), 1),
    Point("nested", 20_000, 8, (BATCH, STREAM), 1),
)
FULL = (
    Point("b", 240_000, 1_000, (BATCH, STREAM, WIDE), 3),
    Point("b", 120_000, 10_000, (BATCH, STREAM), 3),
    Point("nested", 60_000, 8, (BATCH, STREAM), 3),
)


def workload(
    name: str, documents: int, subscriptions: int
) -> tuple[list[Document], dict[str, str]]:
    """Return the documents of a workload, in the order of time, and its queries by name."""
    if name == "nested":
        stream = books_and_blogs.documents(documents, SEED)
        return stream, books_and_blogs.queries(subscriptions)
    asked = wishes(name, subscriptions, SEED)
    return [one.document() for one in items(documents, SEED)], {
        f"s{number}": wish.query("1 d") for number, wish in enumerate(asked)
    }


def processor_seconds() -> float:
    """Return the processor time of this process and of all below it, ended ones included."""
    known: dict[int, tuple[int, int]] = {}  # parent and ticks
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        known[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = [os.getpid()]
    for one in below:
        below.extend(process for process, (parent, _) in known.items() if parent == one)
    return sum(known[one][1] for one in below) / os.sysconf("SC_CLK_TCK")


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each point and mode."""
    with TemporaryDirectory() as folder, session_on(Path(folder)) as session:
        for number, point in enumerate(QUICK if options.quick else FULL):
            yield from measured(session, Path(folder) / str(number), point)


@contextmanager
def session_on(folder: Path) -> Iterator[SparkSession]:
    # Loading Spark takes seconds, and other benchmarks do without.
    from xscl.spark import start_session

    session = start_session(MASTER, scratch=folder / "spark")
    try:
        yield session
    finally:
        session.stop()


def measured(session: SparkSession, folder: Path, point: Point) -> Iterator[Row]:
    """Yield the rows of a point."""
    from xscl.spark.catalog import Catalog

    stream, queries = workload(point.workload, point.documents, point.subscriptions)
    warming = _written(folder / "warming", stream[:WARMING], WARMING // 2)
    for batch in {side.batch for side in point.sides}:
        _written(folder / str(batch), stream, batch)
    engine: list[float] = []
    taken: dict[Side, list[_Taken]] = {side: [] for side in point.sides}
    with Catalog(folder / "catalog", sample=stream[:SAMPLE]) as catalog:
        catalog.subscribe_many(queries)
        for number, side in enumerate(point.sides):
            _MODES[side.mode](session, warming, catalog, side, folder / f"warming{number}")
        for turn in range(point.rounds):
            of_turn = folder / f"turn{turn}"
            spent, wanted = _pushed(of_turn / "engine.store", stream, queries)
            engine.append(spent)
            for number, side in enumerate(point.sides):
                documents, place = folder / str(side.batch), of_turn / str(number)
                spark = _MODES[side.mode](session, documents, catalog, side, place)
                found = _ids(place / "matches")
                one = _Taken(spark, (wanted - found).total(), (found - wanted).total())
                taken[side].append(one)
    for side, several in taken.items():
        yield _row(point, side, statistics.median(engine), wanted.total(), several)


class _Taken(NamedTuple):
    """A run on Spark: seconds a document, and matches that differ from those of the engine."""

    seconds: float
    missing: int
    extra: int


def _row(point: Point, side: Side, engine: float, matches: int, taken: Sequence[_Taken]) -> Row:
    spark = statistics.median(one.seconds for one in taken)
    parameters: dict[str, Value] = {
        "mode": side.mode,
        "workload": point.workload,
        "documents": point.documents,
        "subscriptions": point.subscriptions,
        "buckets": side.buckets,
        "batch": side.batch,
    }
    figures: dict[str, Value] = {
        "cpu_ratio": spark / engine,
        "spark_us": spark * 1e6,
        "engine_us": engine * 1e6,
        "matches": matches,
        "missing": max(one.missing for one in taken),
        "extra": max(one.extra for one in taken),
    }
    return Row(NAME, parameters, figures)


# -- Sides ---------------------------------------------------------------------------------


def _written(folder: Path, stream: Sequence[Document], batch: int) -> Path:
    """Write documents as Parquet files of one micro-batch each, and return the folder."""
    folder.mkdir(parents=True)
    for first in range(0, len(stream), batch):
        some = stream[first : first + batch]
        columns = {
            "stream": [one.streams[0] for one in some],
            "id": [one.id for one in some],
            "ts": [one.timestamp for one in some],
            "xml": pa.array([one.xml for one in some], pa.binary()),
        }
        path = folder / f"{first:09}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (first, first))  # Spark takes files in the order of their times
    return folder


def _pushed(
    store: Path, stream: Sequence[Document], queries: Mapping[str, str]
) -> tuple[float, Ids]:
    """Return the seconds that an engine takes for a document, and the matches."""
    store.parent.mkdir(parents=True)
    wanted: Ids = Counter()
    spent = 0.0
    with Engine(store) as engine:
        engine.subscribe_many(queries.items())
        for first in range(0, len(stream), PUSHED):
            some = stream[first : first + PUSHED]
            began = time.process_time()
            found = engine.push(some)
            spent += time.process_time() - began
            wanted.update((match.id, match.subscription) for match in found)
    return spent / len(stream), wanted


def _matched(
    session: SparkSession, documents: Path, catalog: Catalog, side: Side, folder: Path
) -> float:
    """Return the seconds that a batch takes for a document."""
    from xscl.spark.matching import match

    began = processor_seconds()
    frame = session.read.parquet(str(documents))
    found = match(frame, catalog, buckets=side.buckets, content=False)
    found.write.parquet(str(folder / "matches"))
    return (processor_seconds() - began) / sum(_sizes(documents))


def _streamed(
    session: SparkSession, documents: Path, catalog: Catalog, side: Side, folder: Path
) -> float:
    """Return the seconds that a stream takes for a document, in the second half."""
    from xscl.spark.streaming import stream

    ended: list[float] = []
    sizes = _sizes(documents)

    def write(frame: DataFrame, number: int) -> None:
        frame.write.parquet(f"{folder}/matches/batch={number}")
        ended.append(processor_seconds())

    schema = session.read.parquet(str(documents)).schema
    source = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    query = stream(
        source.parquet(str(documents)),
        catalog,
        checkpoint=folder / "checkpoint",
        sink=write,
        buckets=side.buckets,
        content=False,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    half = (len(ended) - 1) // 2
    return (ended[-1] - ended[half]) / sum(sizes[half + 1 :])


_MODES: Mapping[str, Callable[[SparkSession, Path, Catalog, Side, Path], float]] = {
    "batch": _matched,
    "stream": _streamed,
}


def _sizes(documents: Path) -> list[int]:
    """Return the numbers of documents of the micro-batches."""
    return [pq.read_metadata(path).num_rows for path in sorted(documents.iterdir())]


def _ids(folder: Path) -> Ids:
    table = pq.read_table(folder, columns=["id", "subscription"])
    return Counter(zip(table["id"].to_pylist(), table["subscription"].to_pylist(), strict=True))
