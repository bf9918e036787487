"""The spool as a streaming data source of Spark, named `xscl_spool`; stage 1 on its executors.

A micro-batch is cut into shares, one for each task.  A task shreds its share
with the patterns in a directory (`xscl.shredding.remote.artefact`) and writes
the witnesses to a file there.  Only pointers pass through the JVM: a row names a
slice of a segment, the file, and the place of the slice's first document in it.
The consumer maps segments and files into memory (three times as fast as rows
through the JVM).

    spark.dataSource.register(SpoolSource)
    spark.readStream.format("xscl_spool").option("path", directory).load()

Options: `path`, the directory of the spool; `after`, the segment after which
a new query begins (default 0, the very beginning); `segments`, the most
segments in one micro-batch; `bytes`, the most bytes in one of several segments;
`documents`, the number of documents after which one ends, with their segment;
`patterns`, the directory of the patterns, without which nothing is shredded;
`tasks`, the most shares.

Spark runs this in Python processes of its own, which start with only the pickled
source.  So everything here is importable, and the offset always comes from the spool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

from feeds.documents import DocumentColumns
from feeds.spool import Segment, Spool, SpoolError
from xscl.shredding.remote.current import current

NAME = "xscl_spool"
SEGMENTS = 64
"""The most segments in one micro-batch unless the option `segments` says otherwise."""

BYTES = 64_000_000
"""The most bytes in one micro-batch of several segments unless the option `bytes` says otherwise.

Tasks parse them one document after the other; whoever consumes them has the texts only.
"""

DOCUMENTS = 10_000
"""The documents after which a micro-batch ends unless the option `documents` says otherwise."""

FEW = 250
"""So many documents are one share: cutting them would cost more than it saves."""

Row: TypeAlias = tuple[int, int, int, str | None, int]

Offset: TypeAlias = dict[str, int]
"""`{"segment": n}`: everything up to segment n is behind us."""


class SpoolSource(DataSource):
    """The data source `xscl_spool`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "number bigint, begin bigint, end bigint, witnesses string, place bigint"

    def streamReader(self, schema: StructType) -> SpoolReader:
        if "path" not in self.options:
            raise SpoolError(f"the source {NAME} needs the option 'path', the spool's directory")
        return SpoolReader(dict(self.options))


class SpoolReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and pointers, read from the spool at each call of Spark."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._path = Path(options["path"])
        self._after = int(options.get("after", 0))
        self._segments = int(options.get("segments", SEGMENTS))
        self._bytes = int(options.get("bytes", BYTES))
        self._documents = int(options.get("documents", DOCUMENTS))
        self._patterns = Path(options["patterns"]) if "patterns" in options else None
        self._tasks = int(options.get("tasks", 1))
        self._target: int | None = None

    def _spool(self) -> Spool:
        return Spool(self._path, read_only=True)

    def initialOffset(self) -> Offset:
        return {"segment": self._after}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._segments)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this run, so that it ends even while documents arrive."""
        self._target = self._spool().latest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """The end of the next micro-batch, `start` if there is nothing new.

        Spark would silently accept an end before the start; `consecutive` raises
        if the spool went backwards, or if the next segment is lost.
        """
        spool = self._spool()
        begin, end = start["segment"], spool.latest()
        if self._target is not None:
            end = max(begin, min(end, self._target))
        match limit:
            case ReadAllAvailable():
                found = spool.consecutive(begin, end)
                return {"segment": found[-1] if found else begin}
            case ReadMaxFiles():
                return {"segment": self._end(spool, begin, end, limit.max_files)}
            case _:
                raise SpoolError(f"the source {NAME} knows no limit like {limit}")

    def _end(self, spool: Spool, begin: int, end: int, most: int) -> int:
        """Return the last of the next segments within the bounds of number and size."""
        numbers = spool.consecutive(begin, end, most)
        rows = size = 0
        for place, number in enumerate(numbers):
            segment = spool.segment(number)
            size += segment.size
            if place and size > self._bytes:
                return numbers[place - 1]
            rows += segment.rows
            if rows >= self._documents:
                return number
        return numbers[-1] if numbers else begin

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return equal, ordered shares of the documents between two offsets; one for few documents.

        A partition for each segment was tried: a task takes longer (40 ms) than
        the shredding of a small segment.
        """
        spool = self._spool()
        numbers = spool.expect(start["segment"], end["segment"])
        segments = [spool.segment(number) for number in numbers]
        rows = sum(segment.rows for segment in segments)
        share = max(FEW, -(-rows // self._tasks))
        version = current(self._patterns) if self._patterns else None
        return [InputPartition((version, slices)) for slices in shares(segments, share)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Shred the documents of a share, write their witnesses to a file, and yield slices."""
        version, slices = partition.value
        has_documents = any(one.begin < one.end for one in slices)
        path = self._shred(version, slices) if version is not None and has_documents else None
        rows, place = [], 0
        for one in slices:
            rows.append((one.number, one.begin, one.end, path, place))
            place += one.end - one.begin
        return iter(rows)

    def _shred(self, version: str, slices: Sequence[SegmentSlice]) -> str | None:
        """Return the file with the witnesses; None if the patterns were replaced."""
        assert self._patterns is not None
        # The processes that plan would otherwise load all of stage 1, three of them for each query.
        from xscl.ingestion.spark.spark_task import shred

        spool = self._spool()
        columns = [spool.columns(one.number, one.begin, one.end) for one in slices]
        documents = DocumentColumns.united(columns)
        first = slices[0]
        path = self._patterns / f"{first.number}-{first.begin}-{version}.witnesses"
        found = shred(documents, self._patterns, version, path)
        return None if found is None else str(found)


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """Consecutive documents of a segment; the end is exclusive."""

    number: int
    begin: int
    end: int


def shares(segments: Sequence[Segment], share: int) -> list[list[SegmentSlice]]:
    """Return the documents and beats of segments in order, cut into equal shares."""
    found: list[list[SegmentSlice]] = []
    room = 0
    for segment in segments:
        begin, end = 0, -1
        while end < segment.rows:  # once for a beat
            if not room:
                found.append([])
                room = share
            end = min(segment.rows, begin + room)
            found[-1].append(SegmentSlice(segment.number, begin, end))
            room -= end - begin
            begin = end
    return found
