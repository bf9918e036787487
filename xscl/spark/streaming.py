"""The matches of a catalog over a streaming DataFrame, on executors, each exactly once.

The state of a bucket is a map from micro-batches to the parts that later documents may join, and a
stamp.  A worker keeps the join state in memory and uses it only if its stamp is that of the state.
So a retried, moved or speculative task, and a worker that was closed in a silence, rebuild it from
the parts: 9 to 15 µs a document of the window.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from templates.columns import columns_of
from xscl.atomic_files import write_durably
from xscl.ingestion.pipeline import PipelineError
from xscl.language.parser import parse_window
from xscl.spark.absences import ROWS, WaitingRows
from xscl.spark.bound import SHARES_TYPE, in_shares, matches_of
from xscl.spark.bucket import Bucket, PartDocuments, read_parts, selected
from xscl.spark.catalog import Catalog, published_plan
from xscl.spark.hadoop_files import exists, qualified
from xscl.spark.match_rows import MatchRows, absent_table, rejected_matches
from xscl.spark.matching import PARTS_TYPE
from xscl.spark.part_format import BATCH, BINDINGS, DOCUMENTS, packed, unpacked
from xscl.spark.parts import Shredding, checked_buckets, documents_in_order
from xscl.spark.plan_files import PlanFiles
from xscl.spark.plan_replica import PlanReplica, replica_of

BUCKETS = 16
"""Buckets of a stream, unless a number is given."""

PartData: TypeAlias = tuple[bytes, bytes, bytes]
"""Documents, bindings and absences of a part (`PARTS`)."""

Sink = Callable[[DataFrame, int], None]
"""Called with the matches of a micro-batch (`MATCHES`) and its number; again with the same number
after a failure.  It may run several actions on the frame."""


class Live(NamedTuple):
    """The join state of a bucket in this worker, and the stamp of Spark's state that it equals.

    `since` is the time of its last use, by the monotonic clock.
    """

    stamp: str
    bucket: Bucket
    waiting: WaitingRows
    since: float


_live: dict[tuple[str, int], Live] = {}
"""The join states in this worker, by reader and bucket."""

SECONDS = 600.0
"""Seconds without use after which a worker drops a join state.

The query has ended then, or the bucket has moved to another worker."""


def _remember(which: tuple[str, int], state: Live) -> None:
    """Keep a join state in this worker, and drop those unused for `SECONDS`."""
    now = time.monotonic()
    for old in [one for one, live in _live.items() if now - live.since > SECONDS]:
        del _live[old]
    _live[which] = state._replace(since=now)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The settings of a checkpoint: buckets, lateness in ticks, order, and content."""

    buckets: int
    lateness: int
    order: str
    content: bool


class BucketJoin(StatefulProcessor):
    """Joins the parts of one bucket: rows of `PARTS` to rows of `SHARES`."""

    def __init__(self, files: PlanFiles, reader: str, settings: StreamSettings) -> None:
        self._files = files
        self._reader = reader
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: the parts by micro-batch and latest time, and the progress."""
        self._parts = handle.getMapState(
            "parts", "batch bigint, last bigint", "documents binary, bindings binary"
        )
        self._progress = handle.getValueState(
            "progress", "stamp string, clock bigint, batch bigint, number bigint, version bigint"
        )
        self._absent = handle.getValueState("absent", "left binary, right binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Join the parts of a micro-batch."""
        parts = list(rows)
        data = [
            (bytes(part.documents), bytes(part.bindings), bytes(part.absences)) for part in parts
        ]
        if key[0] < 0:
            yield from self._beside(data)
            return
        old = self._progress.get()
        stamp, clock, batch, number, known = old or ("", _BEGINNING, 0, _BEGINNING, 0)
        version = max(part.version for part in parts)
        if version < known:
            raise PipelineError(
                f"the catalog is at version {version}, and documents were joined with {known}",
                hint="it was replaced by an older copy: begin with another checkpoint",
            )
        replica = replica_of(self._files, self._settings.lateness, version)
        live = self._restored(key[0], stamp, replica)
        now = max(clock, *(part.clock for part in parts))
        read = read_parts(data) or NOTHING
        number = self._checked(read.documents, number)
        read = _after(live.bucket.unknown(read, now - replica.keep), clock)
        yield from self._results(live, replica, read, (clock, now))
        if read.documents.num_rows:
            self._keep(batch + 1, read, now - replica.keep)
            live.bucket.evict(replica, now)
        self._forget(now - replica.keep)
        if replica.absences or self._absent.exists():
            self._absent.update(tuple(map(packed, live.waiting.state())))
        stamp = os.urandom(8).hex()
        self._progress.update((stamp, now, batch + 1, number, version))
        _remember((self._reader, key[0]), live._replace(stamp=stamp))

    def _beside(self, parts: Sequence[PartData]) -> Iterator[Row]:
        """Yield the rows of parts of no bucket: rejected rows of the source."""
        for documents, _, _ in parts:
            yield from self._shared(rejected_matches(unpacked(documents)))

    def _results(
        self, live: Live, replica: PlanReplica, read: PartDocuments, clocks: tuple[int, int]
    ) -> Iterator[Row]:
        """Add documents to the join state; yield rows of `SHARES` with the completed results."""
        with_content = self._settings.content
        found = [absent_table(live.waiting, replica, read, clocks, with_content=with_content)]
        if read.documents.num_rows:
            joined = live.bucket.join(replica, read.documents, read.bindings)
            rows_of = MatchRows(replica, live.bucket, with_content=with_content)
            found.append(rows_of.table(joined))
        if any(map(len, found)):
            yield from self._shared(pa.concat_tables(found))

    def _shared(self, found: pa.Table) -> Iterator[Row]:
        for share, data in in_shares(found, self._settings.buckets):
            yield Row(share=share, found=data)

    def _restored(self, number: int, stamp: str, replica: PlanReplica) -> Live:
        """Return the state of a bucket as of the last micro-batch."""
        live = _live.pop((self._reader, number), None)
        if live is not None and live.stamp == stamp:
            return live
        bucket = Bucket(number, self._settings.buckets)
        live = Live(stamp, bucket, WaitingRows(self._settings.lateness), 0.0)
        kept = sorted(self._parts.iterator(), key=lambda one: tuple(one[0]))
        for _, part in kept:
            read = read_parts([(bytes(part[0]), bytes(part[1]), b"")])
            assert read is not None, "only parts with documents are kept"
            live.bucket.restore(replica, read.documents, read.bindings)
        if (waiting := self._absent.get()) is not None:
            live.waiting.restore(*(unpacked(bytes(one)) if one else None for one in waiting))
        return live

    def _checked(self, documents: pa.Table, number: int) -> int:
        """Return the number of the last document; raises PipelineError if numbers step back."""
        if not documents.num_rows:
            return number
        numbers = documents["number"].to_numpy()
        if self._settings.order == "number" and numbers.min() <= number:
            raise PipelineError(
                f"the number {numbers.min()} came after {number}: numbers must not step back",
                hint='give documents rising numbers, or use order="time" with a lateness',
            )
        return max(number, int(numbers.max()))

    def _keep(self, batch: int, read: PartDocuments, oldest: int) -> None:
        """Keep of a micro-batch the documents that a later one can join."""
        ts = read.documents["ts"].to_numpy()
        stays = ts >= oldest
        if not stays.any():
            return
        kept = selected(read, stays)
        value = packed(kept.documents), packed(pa.table(dict(kept.bindings)))
        self._parts.updateValue((batch, int(ts[stays].max())), value)

    def _forget(self, oldest: int) -> None:
        """Remove the parts whose documents are all before `oldest`."""
        for key in list(self._parts.keys()):
            if key[1] < oldest:
                self._parts.removeKey(tuple(key))

    def close(self) -> None:
        """Keep the join state in the worker, for the next micro-batch."""


_BEGINNING = -(1 << 62)
"""Before all times and numbers."""


NOTHING = PartDocuments(
    DOCUMENTS.empty_table(), columns_of(BINDINGS.empty_table()), ROWS.empty_table()
)


def _after(read: PartDocuments, clock: int) -> PartDocuments:
    """Return documents whose `clock` is at least that of the micro-batches before."""
    later = np.maximum(read.documents["clock"].to_numpy(), clock)
    place = read.documents.column_names.index("clock")
    return read._replace(documents=read.documents.set_column(place, "clock", pa.array(later)))


def stream(
    documents: DataFrame,
    catalog: Catalog | str | Path,
    *,
    checkpoint: str | Path,
    sink: Sink,
    buckets: int = BUCKETS,
    lateness: str | int = 0,
    order: str = "time",
    content: bool = True,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start a streaming query that writes the matches of a catalog to a sink.

    A catalog that another process changes is given by its directory.

    The matches are those of one engine that gets the micro-batches in turn, each in order: of
    `time`, or of the columns `number` and `clock` with `order="number"`.  A document may come as
    late as `lateness`, such as "2 h".  Without `content` the columns `bindings` and `xml` are null
    and the texts of documents are not kept.  `trigger` has the arguments of Spark's trigger.

    The checkpoint, and the directory of the catalog, must be on file systems that all executors
    see.  A checkpoint is bound to its settings.

    Raises PipelineError for other settings than the checkpoint's, a checkpoint that is gone, and
    columns that are missing or have another type; StoreError if there is no catalog.
    """
    checked_buckets(buckets)
    files = catalog.files if isinstance(catalog, Catalog) else published_plan(catalog)
    settings = StreamSettings(
        buckets, lateness if isinstance(lateness, int) else parse_window(lateness), order, content
    )
    place = str(checkpoint)
    address = qualified(documents.sparkSession, place)
    reader = hashlib.blake2b(address.encode(), digest_size=8).hexdigest()
    _bind(documents, place, files, reader, settings)
    moment = F.unix_micros(F.current_timestamp())  # Spark repeats it with the micro-batch
    rows = documents_in_order(documents, order).withColumn(BATCH, moment)
    shredding = Shredding(files, buckets, settings.lateness, content, reader=reader)
    parts = rows.mapInArrow(shredding, PARTS_TYPE)
    joining = BucketJoin(files, reader, settings)
    found = parts.groupBy("bucket").transformWithState(joining, SHARES_TYPE, "Append", "None")

    def write(batch: DataFrame, number: int) -> None:
        # A second action would run the stateful operator again.
        kept = batch.persist()
        try:
            sink(matches_of(kept), number)
        finally:
            kept.unpersist()

    started = found.writeStream.foreachBatch(write).option("checkpointLocation", place)
    return started.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def _bind(
    documents: DataFrame,
    checkpoint: str,
    files: PlanFiles,
    reader: str,
    settings: StreamSettings,
) -> None:
    """Bind a checkpoint to its settings; raises PipelineError if it was bound to others."""
    path = files.directory / "claims" / f"{reader}.json"
    wanted = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    began = exists(documents.sparkSession, f"{checkpoint}/offsets")
    try:
        known = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        known = None
    if not began and not path.with_suffix("").exists():
        known = None  # the query that was bound has evaluated nothing
    if known is None and began:
        raise PipelineError(
            f"the checkpoint {checkpoint} is not one of this catalog",
            hint="give another directory for the checkpoint",
        )
    if known is not None and not began:
        raise PipelineError(
            f"the checkpoint {checkpoint} is gone: its sink would get matches a second time",
            hint="begin with another checkpoint and another sink",
        )
    if known not in (None, wanted):
        other = ", ".join(f"{n}={known[n]!r}" for n in wanted if known.get(n) != wanted[n])
        raise PipelineError(
            f"the checkpoint {checkpoint} was begun with {other}",
            hint="give the same settings, or another checkpoint",
        )
    if known is None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(path, json.dumps(wanted).encode())
