"""The sink of a job: Parquet files, a directory for each micro-batch.

    batch=7/               the matches of the micro-batch 7
    _rejected/batch=7/     its rows that are no documents, and documents with too many results

A micro-batch that is repeated overwrites its directories.  Readers of Parquet skip `_rejected`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


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
        self._written: dict[int, tuple[int, int]] = {}  # matches and rejected rows
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
        # Only between the end of a write and its commit is there something to ask for.
        for one in query.recentProgress if self._written else ():
            if "addBatch" in one.durationMs and one.batchId in self._written:
                self._done = one.batchId
                seconds = one.durationMs["triggerExecution"] / 1_000
                matches, rejected = self._written.pop(one.batchId)
                on_batch(MicroBatch(one.batchId, one.numInputRows, matches, rejected, seconds))
