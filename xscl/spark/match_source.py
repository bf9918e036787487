"""The data source `xscl_matches` of Spark: the matches that `consume` has written, and `_rejected`.

    register(spark)
    spark.readStream.format("xscl_matches").load(results)
    spark.read.format("xscl_matches").option("table", "_rejected").load(results)

Options: `path`, the directory of results; `table`, `matches` (default) or `_rejected`, which is
read in batches only; `maxFilesPerTrigger`, the most files in one micro-batch.

An offset is a position of the result log, the last one of a file.  A new query begins with the
oldest match, and a query that continues gets each later match once.  Spark runs this in Python
processes of its own, which start with the pickled source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from xscl.errors import XsclError
from xscl.spark.match_files import MATCHES, MatchFile, MatchFiles, batches
from xscl.spark.rejected_rows import REJECTED

NAME = "xscl_matches"
FILES = 1_000
"""The most files in one micro-batch unless the option `maxFilesPerTrigger` says otherwise."""

Offset: TypeAlias = dict[str, int]

_TABLES = {"matches": MATCHES, "_rejected": REJECTED}
_AGAIN = "begin a new query with another checkpoint: it reads the matches that are there"


class MatchesMissing(XsclError):
    """The matches after an offset cannot be read."""

    code = "matches_missing"


def register(spark: SparkSession) -> None:
    """Make the format `xscl_matches` known to a session; a repeated call changes nothing."""
    spark.dataSource.register(ResultSource)


class ResultSource(DataSource):
    """The data source `xscl_matches`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(_TABLES[self._table])

    def reader(self, schema: StructType) -> ResultReader:
        return ResultReader(self._files, self._table, schema)

    def streamReader(self, schema: StructType) -> ResultStreamReader:
        if self._table != "matches":
            raise XsclError(f"{self._table} is no stream", hint="read it with spark.read")
        most = int(self.options.get("maxFilesPerTrigger", FILES))
        return ResultStreamReader(self._files, schema, most)

    @property
    def _table(self) -> str:
        named = self.options.get("table", "matches")
        if named not in _TABLES:
            known = " or ".join(_TABLES)
            raise XsclError(f"the source {NAME} has no table {named!r}", hint=f"it has {known}")
        return named

    @property
    def _files(self) -> MatchFiles:
        if "path" not in self.options:
            raise XsclError(
                f"the source {NAME} needs a path", hint="load(directory), the directory of results"
            )
        files = MatchFiles(Path(self.options["path"].removeprefix("file:")))
        if not files.exist():
            raise XsclError(
                f"{files.directory} has no matches",
                hint="xscl.spark.consume writes them: to DIRECTORY/results, or to its `results`",
            )
        return files


class ResultReader(DataSourceReader):
    """All rows of a table at one moment."""

    def __init__(self, files: MatchFiles, table: str, schema: StructType) -> None:
        self._files = files
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file."""
        if self._table == "matches":
            return [InputPartition(str(one.path)) for one in self._files.files()]
        return [InputPartition(str(path)) for path in self._files.rejected_files()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        # Of an empty sequence Spark makes one partition without a value.
        if partition.value is None:
            return iter(())
        return _as(self._schema, batches(Path(partition.value)))


class ResultStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and rows, read from the files at each call of Spark."""

    def __init__(self, files: MatchFiles, schema: StructType, most: int) -> None:
        self._files = files
        self._schema = schema
        self._most = most
        self._target: int | None = None

    def initialOffset(self) -> Offset:
        """Return the position before the oldest file, which is 0 unless files were deleted."""
        files = self._files.files()
        return {"position": files[0].first - 1 if files else 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run, so that it ends even while matches arrive."""
        files = self._files.files()
        self._target = files[-1].last if files else 0

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next micro-batch, `start` if there is nothing new."""
        after = start["position"]
        found = self._consecutive(after)
        if self._target is not None:
            found = [one for one in found if one.last <= self._target]
        match limit:
            case ReadAllAvailable():
                pass
            case ReadMaxFiles():
                found = found[: limit.max_files]
            case _:
                raise XsclError(f"the source {NAME} knows no limit like {limit}")
        return {"position": found[-1].last if found else after}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for each file between two offsets."""
        after, until = start["position"], end["position"]
        found = [one for one in self._consecutive(after) if one.last <= until]
        if until > (found[-1].last if found else after):
            raise MatchesMissing(f"the matches up to position {until} are not there", hint=_AGAIN)
        return [InputPartition(str(one.path)) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the matches of a file."""
        return _as(self._schema, batches(Path(partition.value)))

    def _consecutive(self, after: int) -> list[MatchFile]:
        """Return the files after an offset, which is the end of a file; raises MatchesMissing."""
        files = self._files.files()
        if files and files[-1].last < after:
            raise MatchesMissing(
                f"the matches end at position {files[-1].last}, and the query has read up to"
                f" {after}: the directory is another one, or older",
                hint=_AGAIN,
            )
        found = [one for one in files if one.last > after]
        for one in found:
            if one.first != after + 1:
                raise MatchesMissing(
                    f"the matches after position {after} are not there: the next file is"
                    f" {one.path.name}",
                    hint=_AGAIN,
                )
            after = one.last
        return found


def _as(schema: StructType, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the schema that Spark expects, which may be nullable."""
    expected = to_arrow_schema(schema, timezone="UTC")
    for batch in rows:
        yield pa.RecordBatch.from_arrays(batch.columns, schema=expected)
