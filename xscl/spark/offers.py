"""The documents of a service as a streaming data source of Spark; stage 1 on its executors.

A service offers a micro-batch: documents in a file, be they new ones or those of the past.  The
offer is the offset, so a micro-batch that is repeated is the same.  It is cut into shares, one for
each task, which shreds its documents: only parts pass through the JVM.

Spark runs this in Python processes of its own, which start with only the pickled source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from xscl.spark.part_format import PARTS
from xscl.spark.plan_files import PlanFiles

NAME = "xscl_documents"
WAIT, LOOK = 1.0, 0.01
"""Seconds that a look of Spark at the offers takes at most, and between two looks at the file."""

FEW = 250
"""The fewest documents of a share, but the last: cutting them would cost more than it saves."""

OFFERED = ("doc", "clock", "ts", "streams", "given", "xml")
"""The columns of offered documents: `doc` is a number, `clock` the largest time before."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A micro-batch of `rows` documents (`OFFERED`) in the file `path`, for a version of the plan.

    With the number 0 it is no micro-batch.
    """

    number: int = 0
    path: str = ""
    rows: int = 0
    version: int = 0


class OfferSource(DataSource):
    """The data source `xscl_documents`.

    Options: `offer`, the file of the offer; `plan`, the directory; `buckets`; `tasks`, the most
    shares of a micro-batch.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(PARTS)

    def streamReader(self, schema: StructType) -> OfferReader:
        return OfferReader(dict(self.options))


class OfferReader(DataSourceStreamReader):
    """Offers as offsets, and the parts of their documents."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._offer = Path(options["offer"])
        self._plan = PlanFiles(Path(options["plan"]))
        self._buckets = int(options["buckets"])
        self._tasks = int(options["tasks"])

    def initialOffset(self) -> dict[str, Any]:
        return asdict(Offer())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the newest offer; `start` itself if none has come within `WAIT`.

        Waiting here for the next one takes a tenth of the time of Spark's own polling.
        """
        until = time.monotonic() + WAIT
        while True:
            found: dict[str, Any] = json.loads(self._offer.read_text("utf-8"))
            if found["number"] != start["number"] or time.monotonic() > until:
                return found
            time.sleep(LOOK)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return equal, ordered shares of the documents of an offer; one for few documents."""
        if start == end:
            return []
        offer = Offer(**end)
        share = max(FEW, -(-offer.rows // self._tasks))
        firsts = range(0, max(1, offer.rows), share)
        return [InputPartition((offer, first, share)) for first in firsts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Shred the documents of a share, and yield their parts."""
        # The processes that plan would otherwise load all of stage 1, three of them for each query.
        from xscl.spark.offered_parts import parts_of
        from xscl.spark.plan_replica import replica_of

        offer, first, share = partition.value
        with pa.memory_map(offer.path) as file:
            rows = pa.ipc.open_file(file).read_all().slice(first, share)
            replica = replica_of(self._plan, 0, offer.version)
            yield parts_of(rows, replica, self._buckets, offer.version)
