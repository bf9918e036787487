"""The spool as a streaming data source of Spark, named `xscl_spool`.

Its rows are *pointers*: number, path and size of a segment.  Whoever consumes
a micro-batch reads the documents from the segments themselves (memory-mapped,
three times as fast as sending them through the JVM).

    spark.dataSource.register(SpoolSource)
    spark.readStream.format("xscl_spool").option("path", directory).load()

Options: `path`, the directory of the spool; `after`, the segment after which
a new query begins (default 0, the very beginning); `segments`, the most
segments in one micro-batch.

Spark runs this in Python processes of its own, which start with nothing but
the pickled source: hence everything here is found again by import, and the
offset always comes from the spool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from feeds.spool import Spool, SpoolError

NAME = "xscl_spool"
SEGMENTS = 64
"""The most segments in one micro-batch unless the option `segments` says otherwise."""

Offset: TypeAlias = dict[str, int]
"""`{"segment": n}`: everything up to segment n is behind us."""


@dataclass(frozen=True, slots=True)
class _Options:
    path: Path
    after: int
    segments: int


class SpoolSource(DataSource):
    """The data source `xscl_spool`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "number bigint, path string, rows bigint"

    def streamReader(self, schema: StructType) -> SpoolReader:
        if "path" not in self.options:
            raise SpoolError(f"the source {NAME} needs the option 'path', the spool's directory")
        return SpoolReader(
            _Options(
                Path(self.options["path"]),
                int(self.options.get("after", 0)),
                int(self.options.get("segments", SEGMENTS)),
            )
        )


class SpoolReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and pointers, both read from the spool whenever Spark asks."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._target: int | None = None

    def _spool(self) -> Spool:
        return Spool(self._options.path, read_only=True)

    def initialOffset(self) -> Offset:
        return {"segment": self._options.after}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._options.segments)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end of this run, so that it ends even while documents keep coming."""
        self._target = self._spool().latest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next micro-batch, `start` if there is nothing new.

        Spark would silently accept an end before the start; `numbers` raises
        if the spool went backwards.
        """
        spool = self._spool()
        begin, end = start["segment"], spool.latest()
        if self._target is not None:
            end = max(begin, min(end, self._target))
        match limit:
            case ReadAllAvailable():
                most = None
            case ReadMaxFiles():
                most = limit.max_files
            case _:
                raise SpoolError(f"the source {NAME} knows no limit like {limit}")
        numbers = [number for number in spool.numbers(begin, most) if number <= end]
        return {"segment": numbers[-1] if len(numbers) == most else end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One partition with the numbers of all segments of the micro-batch.

        A partition for each segment was tried: a task takes longer (40 ms) than
        it takes to point to all the segments.
        """
        numbers = [n for n in self._spool().numbers(start["segment"]) if n <= end["segment"]]
        return [InputPartition(numbers)] if numbers else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, int]]:
        """The pointers; looking into the footers here finds a damaged segment early."""
        spool = self._spool()
        segments = [spool.segment(number) for number in partition.value]
        return iter([(segment.number, str(segment.path), segment.rows) for segment in segments])
