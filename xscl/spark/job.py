"""A job: the matches of a catalog over a source of Spark, in a sink, until it is stopped.

Executors read the source and write the sink.  A micro-batch takes effect once: the checkpoint has
what was read, and a micro-batch that is repeated overwrites its own directories of the sink.

    job_source       documents of Parquet files, JSON lines or Kafka
    job_sink         matches to Parquet files, and what is known of each micro-batch
    probe            tasks that look whether executors see what they will read
    hadoop_files     directories on any file system of Spark
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.ingestion.pipeline import PipelineError
from xscl.spark.catalog import published_plan
from xscl.spark.error_report import reason_of
from xscl.spark.hadoop_files import exists, local_path, make_directory
from xscl.spark.job_sink import MicroBatch, ParquetSink
from xscl.spark.job_source import JobSource
from xscl.spark.probe import probe
from xscl.spark.session import STREAMING, start_session
from xscl.spark.streaming import stream

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

    On a cluster a shuffle has a partition for each of so many buckets, unless a setting has another
    number.  Raises PipelineError if Spark does not start, and in place of its errors.
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
