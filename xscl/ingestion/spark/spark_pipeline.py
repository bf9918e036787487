"""From the spool to the engine with Spark Structured Streaming.

Spark detects new segments, cuts micro-batches, and shreds the documents on its
executors (`xscl.ingestion.spark.spark_source`).  The steps of a micro-batch:

1. Spark calls foreachBatch in a thread of its own.
2. foreachBatch runs the one action of Spark, in which the documents are shredded
   (two would read twice), and collects pointers to their texts and witnesses.
3. It waits until the batch before is in the store, passes this one to the consumer,
   and returns: Spark commits and continues with the next micro-batch.
4. Meanwhile the thread of the consumer reads both and calls the sink.

The patterns lie in a directory and are renewed after a batch if they have changed.
Witnesses of older patterns are not used; the sink shreds such documents itself.

The store alone says what was consumed: its transaction of a batch has the last
segment.  So each query begins with an empty checkpoint after that segment, whatever
Spark had committed before.
"""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from feeds.faultpoints import reached
from feeds.spool import Spool
from xscl.documents.consumed_offsets import BatchKey
from xscl.ingestion.pipeline import BatchSink, PipelineError, forget, read_all
from xscl.shredding.arrivals import BatchPart
from xscl.shredding.remote.artefact import ArtefactDirectory
from xscl.shredding.remote.remote_bindings import read_bindings

try:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from xscl.ingestion.spark import spark_source
    from xscl.ingestion.spark.error_report import reason_of
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("pyspark", "py4j"):
        raise
    raise PipelineError(
        "Spark is not installed", hint="pip install 'xscl[spark]', or go on without Spark"
    ) from missing

__all__ = ["BatchHandover", "ConsumerStopped", "MicroBatch", "SparkConsumer"]

_QUERY = "spark"
_TICK = 0.05  # seconds between two looks at whether the query has ended
_STARTS = 5  # of a query whose first process comes too late
_LATE = "worker failed to connect back"


class ConsumerStopped(Exception):
    """Ends a micro-batch that began after the consumer's stop; nothing is consumed."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch on its way from Spark's thread to the consumer's: pointers in order."""

    rows: tuple[spark_source.Row, ...]
    done: Future[None] = field(default_factory=Future, compare=False)


class BatchHandover:
    """The slot through which Spark's thread passes one batch to the consumer's."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: queue.SimpleQueue[MicroBatch] = queue.SimpleQueue()
        self._given: MicroBatch | None = None
        self._closed = False

    def put(self, batch: MicroBatch) -> None:
        """Wait for the end of the batch before, raise its error if any, and store this one."""
        if self._given is not None:
            self._given.done.result()
        with self._mutex:
            if self._closed:
                raise ConsumerStopped
            self._waiting.put(batch)
            self._given = batch

    def get(self, seconds: float) -> MicroBatch | None:
        """Return the waiting batch, None after a timeout."""
        try:
            return self._waiting.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Refuse the waiting batch and all later ones."""
        with self._mutex:
            self._closed = True
        while (batch := self.get(0)) is not None:
            batch.done.set_exception(ConsumerStopped())


class SparkConsumer:
    """Consumes a spool by streaming queries, each with a new checkpoint in `checkpoint`.

    With the directory `patterns`, which is its own, Spark's tasks shred documents.
    """

    def __init__(
        self,
        session: SparkSession,
        spool: Spool,
        sink: BatchSink,
        checkpoint: Path,
        *,
        patterns: Path | None = None,
        segments: int = spark_source.SEGMENTS,
    ) -> None:
        self._session = session
        self._spool = spool
        self._sink = sink
        self._checkpoint = checkpoint.absolute() / _QUERY
        self._artefacts = None if patterns is None else ArtefactDirectory(patterns.absolute())
        self._segments = segments
        self._stopping = threading.Event()
        session.dataSource.register(spark_source.SpoolSource)

    def run_once(self) -> int:
        """Consume the present segments of the spool, and return the number of documents."""
        return self._run(None)

    def serve(self, interval: float = 1.0) -> None:
        """Consume present and new segments until `stop`, polling every `interval` seconds."""
        self._run(interval)

    def stop(self) -> None:
        """Request the end after the batch in progress; the consumer does not start again."""
        self._stopping.set()

    def _run(self, interval: float | None) -> int:
        """Run a query until it ends or `stop`, and return the number of documents.

        Without an interval the query ends by itself.  On a busy machine the Python process that
        plans for Spark may exceed Spark's timeout of ten seconds; then it is started again.
        """
        begin = self._sink.segment
        for _ in range(_STARTS - 1):
            try:
                return self._run_query(interval)
            except PipelineError as error:
                if _LATE not in error.message or self._sink.segment > begin:
                    raise
        return self._run_query(interval)

    def _run_query(self, interval: float | None) -> int:
        if self._stopping.is_set():
            return 0
        handover = BatchHandover()
        self._publish()
        query = self._start(interval, handover)
        count = 0
        try:
            while not self._stopping.is_set():
                ended = not query.isActive  # what it gave before that is taken all the same
                batch = handover.get(0 if ended else _TICK)
                if batch is not None:
                    count += self._consume(batch)
                elif ended:
                    break
        finally:
            handover.close()
            query.stop()
        _raise_failure(query)
        return count

    def _publish(self) -> None:
        if self._artefacts is not None:
            self._sink.publish_patterns(self._artefacts)

    def _start(self, interval: float | None, handover: BatchHandover) -> StreamingQuery:
        def hand_over(pointers: DataFrame, batch_id: int) -> None:
            columns = [column.to_pylist() for column in pointers.toArrow().columns]
            handover.put(MicroBatch(tuple(sorted(zip(*columns, strict=True)))))

        stream = self._session.readStream.format(spark_source.NAME).options(**self._options())
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self._checkpoint)
            writer = stream.load().writeStream.foreachBatch(hand_over)
            writer = writer.option("checkpointLocation", str(self._checkpoint))
            if interval is None:
                return writer.trigger(availableNow=True).start()
            return writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds").start()
        except (OSError, PySparkException, Py4JError) as error:
            raise PipelineError(f"Spark cannot read the spool: {reason_of(error)}") from error

    def _options(self) -> dict[str, str | int]:
        options: dict[str, str | int] = {
            "path": str(self._spool.directory),
            "after": self._sink.segment,
            "segments": self._segments,
            "tasks": self._session.sparkContext.defaultParallelism,
        }
        if self._artefacts is not None:
            options["patterns"] = str(self._artefacts.directory)
        return options

    def _consume(self, batch: MicroBatch) -> int:
        """Pass a batch to the sink."""
        try:
            numbers = dict.fromkeys(row[0] for row in batch.rows)
            documents, beats = read_all(self._spool, list(numbers))
            last = batch.rows[-1][0]
            key = BatchKey(_QUERY, last, last, beats, self._spool.segment(last).arrived)
            self._sink.hold()
            self._sink.consume(documents, key, _parts(batch.rows))
            self._publish()
        except BaseException as error:
            # Spark's thread can report errors but not, say, a KeyboardInterrupt.
            batch.done.set_exception(error if isinstance(error, Exception) else ConsumerStopped())
            raise
        reached("batch_done")
        batch.done.set_result(None)
        forget(self._spool, last)
        for path in {row[3] for row in batch.rows if row[3] is not None}:
            Path(path).unlink(missing_ok=True)
        return len(documents)


def _parts(rows: Sequence[spark_source.Row]) -> list[BatchPart]:
    """The witnesses of the documents of slices, which together are whole segments."""
    paths = {row[3] for row in rows}
    portions = {path: read_bindings(Path(path)) for path in paths if path is not None}
    return [
        BatchPart(None if path is None else portions[path], place, end - begin)
        for _, begin, end, path, place in rows
        if begin < end
    ]


def _raise_failure(query: StreamingQuery) -> None:
    """Raise what made the query fail by itself, such as an error of the source."""
    failure = query.exception()
    if (
        failure is not None
        and f"{ConsumerStopped.__module__}.{ConsumerStopped.__name__}" not in str(failure)
    ):
        raise PipelineError(f"Spark stopped reading the spool: {reason_of(failure)}") from failure
