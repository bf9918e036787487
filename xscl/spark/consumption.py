"""A streaming DataFrame into an engine: each micro-batch takes effect exactly once.

foreachBatch may get a micro-batch again after a failure.  Its key, (query id, batch id), is
recorded in the transaction of the documents, so a repeated one changes nothing; the query id is
that of the checkpoint.  The order of writing is engine, files of results, Spark's commit.  What a
kill between two of them leaves out is written when Spark gives the batch again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from feeds.faultpoints import reached
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import PipelineError
from xscl.spark.document_rows import checked_columns, document_rows
from xscl.spark.match_export import MatchExport
from xscl.spark.match_files import MatchFiles
from xscl.spark.match_source import register
from xscl.subscriptions.matches import Matches

_COMMAND = "spark"


def consume(
    df: DataFrame,
    engine: Engine | str | Path,
    *,
    checkpoint: str | Path,
    results: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> Consumption:
    """Start a query that pushes the documents of a streaming DataFrame, and return it.

    `engine` is an engine, or a data directory as for `xscl --data`, which is locked until
    `Consumption.stop`.  `checkpoint` is a directory of Spark for this query alone.  Matches are
    written to the directory `results` for `spark.readStream.format("xscl_matches")`; by default
    that is `results` in the data directory, and with an engine they are not written.  `trigger` has
    the arguments of `DataStreamWriter.trigger`: `{"availableNow": True}`.

    A micro-batch is collected in this process, and pushed in the order of `ts`.  Rows that cannot
    be taken are recorded in the relation `rejected`, and in the table `_rejected` of `results`.

    Raises AnalysisException for a DataFrame without these columns, or that is not streaming,
    StoreError or DataDirectoryError for a directory that cannot be opened, and PipelineError for
    `results` of another engine.
    """
    frame = df.selectExpr(*checked_columns(df.schema))
    register(df.sparkSession)
    with ExitStack() as opened:
        if not isinstance(engine, Engine):
            home = DataDirectory(Path(engine))
            opened.enter_context(home.hold(_COMMAND))
            results = home.results if results is None else results
            engine = opened.enter_context(Engine(home.database))
        export = None if results is None else MatchExport(engine, MatchFiles(Path(results)))
        push = _BatchPush(engine, export)
        writer = frame.writeStream.foreachBatch(push)
        writer = writer.option("checkpointLocation", str(Path(checkpoint).absolute()))
        if trigger is not None:
            writer = writer.trigger(**trigger)
        query = writer.start()
        return Consumption(query, engine, push, opened.pop_all())


class Consumption:
    """A running query that consumes documents: `query` of Spark, and the `engine` that it fills.

    Use it in a `with`, or call `stop`.
    """

    def __init__(
        self, query: StreamingQuery, engine: Engine, push: _BatchPush, opened: ExitStack
    ) -> None:
        self.query = query
        self.engine = engine
        self._push = push
        self._opened = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most some seconds; return True if it has ended.

        Raises StreamingQueryException if it has failed.
        """
        if seconds is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(max(1, round(seconds))))

    def stop(self) -> None:
        """Stop the query after the micro-batch in progress; close a data directory."""
        self._push.close()
        self.query.stop()
        self._opened.close()


class _BatchPush:
    """Pushes micro-batches; Spark calls it in a thread of its own, and keeps it for ever."""

    def __init__(self, engine: Engine, export: MatchExport | None) -> None:
        self._mutex = threading.Lock()
        self._target: tuple[Engine, MatchExport | None] | None = (engine, export)

    def close(self) -> None:
        """Wait for the micro-batch in progress, and refuse later ones."""
        with self._mutex:
            self._target = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        # The thread of a micro-batch knows its query; `StreamingQuery.id` may not exist yet.
        query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        with self._mutex:
            if self._target is None:
                raise PipelineError("the consumption has stopped")
            _push(*self._target, frame, (str(query_id), batch_id))


def _push(
    engine: Engine, export: MatchExport | None, frame: DataFrame, batch: tuple[str, int]
) -> None:
    """Push a micro-batch, and write its matches and its rejected rows to files."""

    def write(matches: Matches | None = None) -> None:
        if export is not None:
            export.write()

    write()  # what a process that ended has left
    rows = document_rows(frame.toArrow())
    engine.host.ingest.refuse(tuple(rows.refusals()))
    pushed = engine.push(rows.documents, source=batch, listen=write)
    reached("spark_pushed")
    repeated = pushed.unchanged == len(rows.documents)
    if export is not None and (rows.refused or pushed.rejected or repeated):
        rejected = rows.rejected()
        if rejected.num_rows:
            export.files.write_rejected(*batch, rejected)
