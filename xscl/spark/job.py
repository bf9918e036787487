"""A job: the matches of a catalog over a source of Spark, in a sink, until it is stopped.

Executors read the source and write the sink.  A micro-batch takes effect once: the checkpoint has
what was read, and a micro-batch that is repeated overwrites its own directories of the sink.

    probe            tasks that look whether executors see what they will read
    hadoop_files     directories on any file system of Spark

The sink are Parquet files, a directory for each micro-batch; readers skip `_rejected`:

    batch=7/               the matches of the micro-batch 7
    _rejected/batch=7/     its rows that are no documents, and documents with too many results
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from xscl.ingestion.pipeline import PipelineError
from xscl.spark.catalog import published_plan
from xscl.spark.hadoop_files import exists, local_path, make_directory
from xscl.spark.probe import probe
from xscl.spark.session import STREAMING, reason_of, start_session
from xscl.spark.streaming import stream


class MicroBatch(NamedTuple):
    """A micro-batch that has taken effect."""

    batch: int
    documents: int
    matches: int
    rejected: int
    seconds: float


class ParquetSink:
    """Writes matches, and counts them; begins no micro-batch once `stopping` is set."""

    def __init__(self, place: str, stopping: threading.Event) -> None:
        self._place = place
        self._stopping = stopping
        self._written: dict[int, tuple[int, int]] = {}  # numbers of matches and rejected rows
        self._began = self._done = -1
        self.has_refused = False
        """True if a micro-batch was not begun; the query ends with an error then."""

    @property
    def is_idle(self) -> bool:
        """True if no micro-batch is in progress."""
        return self._began == self._done

    def __call__(self, matches: DataFrame, number: int) -> None:
        """Write the matches of a micro-batch."""
        if self._stopping.is_set():
            self.has_refused = True
            raise RuntimeError("the job is stopping")
        self._began = number
        seen = Observation()
        rows = matches.observe(
            seen, F.count(F.lit(1)).alias("rows"), F.count("_rejected").alias("rejected")
        )
        found = rows.where("_rejected IS NULL").drop("_rejected")
        found.write.mode("overwrite").parquet(f"{self._place}/batch={number}")
        rejected = seen.get["rejected"]
        if rejected:
            others = matches.where("_rejected IS NOT NULL").select("_rejected.*")
            others.write.mode("overwrite").parquet(f"{self._place}/_rejected/batch={number}")
        self._written[number] = seen.get["rows"] - rejected, rejected

    def report(self, query: StreamingQuery, on_batch: Callable[[MicroBatch], None]) -> None:
        """Report the micro-batches that the checkpoint has, each once."""
        # Unless a written micro-batch waits for its commit, there is nothing to report.
        for one in query.recentProgress if self._written else ():
            if "addBatch" in one.durationMs and one.batchId in self._written:
                self._done = one.batchId
                seconds = one.durationMs["triggerExecution"] / 1_000
                matches, rejected = self._written.pop(one.batchId)
                on_batch(MicroBatch(one.batchId, one.numInputRows, matches, rejected, seconds))


KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_JSON = "stream STRING, id STRING, ts TIMESTAMP, xml STRING"
_ORDERED = ", number BIGINT, clock TIMESTAMP"


@dataclass(frozen=True, slots=True)
class JobSource:
    """Documents that come in files of a directory (`parquet`, `json`), or from Kafka.

    The place is the directory, or SERVERS/TOPICS.  `options` are of Spark's source.
    """

    form: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> str | None:
        """The directory of the files, None for Kafka."""
        return None if self.form == "kafka" else self.place

    def documents(self, session: SparkSession, order: str) -> DataFrame:
        """Return the documents; with the `order` "number" also their numbers and clocks.

        Raises PipelineError if nothing says what columns there are, or if Spark cannot read Kafka.
        """
        reader = session.readStream.options(**self.options)
        if self.form == "json":
            return reader.schema(_JSON + _ORDERED if order == "number" else _JSON).json(self.place)
        if self.form == "parquet":
            try:
                found = session.read.parquet(self.place)
            except AnalysisException as error:
                raise PipelineError(
                    f"the columns of {self.place} are unknown: {reason_of(error)}",
                    hint="the first Parquet file must be there when the job starts",
                ) from error
            return reader.schema(found.schema).parquet(self.place)
        servers, _, topics = self.place.rpartition("/")
        kafka = reader.format("kafka").option("kafka.bootstrap.servers", servers)
        try:
            return kafka_documents(kafka.option("subscribe", topics).load())
        except AnalysisException as error:
            raise PipelineError(
                f"Kafka cannot be read: {reason_of(error)}",
                hint=f"--conf spark.jars.packages={KAFKA}:{session.version}",
            ) from error


def kafka_documents(records: DataFrame) -> DataFrame:
    """Return the records of Kafka as documents: of topic, key, time and value."""
    return records.selectExpr(
        "topic AS stream", "CAST(key AS STRING) AS id", "timestamp AS ts", "value AS xml"
    )


_PARTITIONS = "spark.sql.shuffle.partitions"
_POLL = 0.2
"""Seconds between two looks at a running query."""


@dataclass(frozen=True, slots=True)
class Job:
    """The places that a job reads and writes, and other arguments of `stream`.

    `sink` and `checkpoint` are directories of any file system of Spark.
    """

    catalog: Path
    source: JobSource
    sink: str
    checkpoint: str
    settings: Mapping[str, Any]


@contextmanager
def job_session(
    master: str | None, settings: Mapping[str, str], buckets: int
) -> Iterator[SparkSession]:
    """Yield the session of spark-submit, or start one and stop it at the end.

    On a cluster a shuffle has `buckets` partitions, unless a setting has another number.  Raises
    PipelineError if Spark does not start, and in place of its errors.
    """
    is_running = SparkContext._active_spark_context is not None
    with ThreadPoolExecutor(1) as thread:  # in the main thread Spark would take SIGINT for itself
        session = thread.submit(_started, master, settings, buckets).result()
    # What a sink raises comes back as the error of the query; py4j would print it, too.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    try:
        yield session
    except (PySparkException, Py4JError) as error:
        raise PipelineError(reason_of(error)) from error
    finally:
        if not is_running:
            session.stop()


def _started(master: str | None, settings: Mapping[str, str], buckets: int) -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        place = master or "local[*]"
        own = {} if place.startswith("local") else {_PARTITIONS: str(buckets)}
        return start_session(place, settings={**own, **settings})
    # spark-submit has chosen master and settings.
    session = SparkSession.builder.config(map={**STREAMING, **settings}).getOrCreate()
    if not session.sparkContext.getConf().contains(_PARTITIONS):
        session.conf.set(_PARTITIONS, buckets)
    return session


def run_job(
    session: SparkSession,
    job: Job,
    on_batch: Callable[[MicroBatch], None],
    stopping: threading.Event,
) -> None:
    """Run a job until its trigger ends it, or until `stopping` is set.

    A micro-batch in progress is finished then.  Raises PipelineError, what Spark raises, and
    StoreError if there is no catalog.
    """
    files = published_plan(job.catalog)
    begins = not exists(session, f"{job.checkpoint}/offsets")
    if begins and exists(session, f"{job.sink}/batch=0"):
        raise PipelineError(
            f"the sink {job.sink} has micro-batches of another checkpoint",
            hint="give a new checkpoint a sink of its own",
        )
    documents = job.source.documents(session, job.settings["order"])
    for place in (job.sink, job.checkpoint):
        make_directory(session, place)
    seen = [one for one in (job.sink, job.checkpoint, job.source.directory) if one is not None]
    local = (local_path(session, place) for place in seen)
    probe(session, files, [path for path in local if path is not None])
    sink = ParquetSink(job.sink, stopping)
    query = stream(documents, job.catalog, checkpoint=job.checkpoint, sink=sink, **job.settings)
    try:
        while not query.awaitTermination(_POLL):  # type: ignore[arg-type]  # fractions are taken
            sink.report(query, on_batch)
            if stopping.is_set() and sink.is_idle:
                query.stop()
    except PySparkException:
        if not sink.has_refused:
            raise
    finally:
        query.stop()
        sink.report(query, on_batch)
