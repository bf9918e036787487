"""The spool as a streaming data source of Spark, named `xscl_spool`; stage 1 on its executors.

A service offers a micro-batch in a file: segments of the spool, or documents of the past in a file
of their own.  The offer is the offset, so a micro-batch that is repeated is the same.  It is cut
into shares, one for each task, which shreds its documents: only parts pass through the JVM.

Spark runs this in Python processes of its own, which start with only the pickled source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from feeds.documents import DocumentColumns
from feeds.spool import Segment, Spool
from xscl.spark.part_format import PARTS
from xscl.spark.plan_files import PlanFiles

NAME = "xscl_spool"
WAIT, LOOK = 1.0, 0.01
"""Seconds that a look of Spark at the offers takes at most, and between two looks at the file."""

FEW = 250
"""So many documents are one share: cutting them would cost more than it saves."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A micro-batch: `number` 0 is none.

    It has the documents of the segments after `after` up to `last`, numbered from `first` on, or
    those of the file `past`.  `version` is that of the plan, `clock` the largest time before.
    Documents at the places in `poison` end a process that reads them: they are left out.
    """

    number: int = 0
    after: int = 0
    last: int = 0
    first: int = 0
    version: int = 0
    clock: int = 0
    past: str = ""
    poison: list[int] = field(default_factory=list)


class SpoolSource(DataSource):
    """The data source `xscl_spool`.

    Options: `offer`, the file of the offer; `spool` and `plan`, the directories; `buckets`;
    `tasks`, the most shares of a micro-batch.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(PARTS)

    def streamReader(self, schema: StructType) -> SpoolReader:
        return SpoolReader(dict(self.options))


class SpoolReader(DataSourceStreamReader):
    """Offers as offsets, and the parts of their documents."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._offer = Path(options["offer"])
        self._directory = options["spool"]
        self._plan = PlanFiles(Path(options["plan"]))
        self._buckets = int(options["buckets"])
        self._tasks = int(options["tasks"])

    def initialOffset(self) -> dict[str, Any]:
        return asdict(Offer())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the newest offer; `start`, after a while, if it was taken.

        Waiting here for the next one takes a tenth of the time of Spark's own polling.
        """
        until = time.monotonic() + WAIT
        while True:
            found: dict[str, Any] = json.loads(self._offer.read_text("utf-8"))
            if found["number"] != start["number"] or time.monotonic() > until:
                return found
            time.sleep(LOOK)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return equal, ordered shares of the documents of an offer; one for few documents.

        A partition for each segment was tried: a task takes longer (40 ms) than
        the shredding of a small segment.
        """
        if start == end:
            return []
        offer = Offer(**end)
        if offer.past:
            with pa.memory_map(offer.past) as file:
                rows = pa.ipc.open_file(file).read_all().num_rows
            share = max(FEW, -(-rows // self._tasks))
            firsts = range(0, rows, share)
            return [InputPartition((offer, at, [Slice(0, at, at + share)])) for at in firsts]
        with Spool(self._directory, read_only=True) as spool:
            segments = [spool.segment(one) for one in spool.expect(offer.after, offer.last)]
        rows = sum(segment.rows for segment in segments)
        found, place = [], 0
        for slices in shares(segments, max(FEW, -(-rows // self._tasks))):
            found.append(InputPartition((offer, place, slices)))
            place += sum(one.end - one.begin for one in slices)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Shred the documents of a share, and yield their parts."""
        # The processes that plan would otherwise load all of stage 1, three of them for each query.
        from xscl.documents.document_validation import separate_invalid
        from xscl.spark.plan_replica import replica_of
        from xscl.spark.spool_parts import Arrived, parts_of

        offer, place, slices = partition.value
        if offer.past:
            with pa.memory_map(offer.past) as file:
                (one,) = slices
                rows = pa.ipc.open_file(file).read_all().slice(place, one.end - one.begin)
            numbers, clocks, ts = (rows[name].to_numpy() for name in ("doc", "clock", "ts"))
            names = ("streams", "given", "xml")
            streams, ids, xml = (rows[name].to_pylist() for name in names)
            documents = Arrived(numbers, clocks, ts, [*map(tuple, streams)], ids, xml)
        else:
            with Spool(self._directory, read_only=True) as spool:
                columns = [spool.columns(one.number, one.begin, one.end) for one in slices]
            read = DocumentColumns.united(columns)
            places = np.setdiff1d(np.arange(len(read)) + place, offer.poison)
            read, _ = separate_invalid(read.chosen((places - place).tolist()))
            documents = Arrived(
                places + offer.first,
                np.full(len(read), offer.clock),
                np.array(read.timestamps, np.int64),
                read.streams,
                read.ids,
                read.xml,
            )
        replica = replica_of(self._plan, 0, offer.version)
        yield parts_of(documents, replica, self._buckets, offer.version)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive documents of a segment; the end is exclusive."""

    number: int
    begin: int
    end: int


def shares(segments: Sequence[Segment], share: int) -> list[list[Slice]]:
    """Return the documents of segments in order, cut into equal shares; at least one."""
    found: list[list[Slice]] = [[]]
    room = share
    for segment in segments:
        begin = 0
        while begin < segment.rows:
            if not room:
                found.append([])
                room = share
            end = min(segment.rows, begin + room)
            found[-1].append(Slice(segment.number, begin, end))
            room -= end - begin
            begin = end
    return found
