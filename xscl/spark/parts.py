"""Stage 1 on executors: documents to one part for each bucket.

A document goes to the buckets of its *routes*: the values of its nodes with a designated equality.
A part has the documents of a bucket with all their kept bindings, so that everything else is
tested there.  Each portion of documents makes a part for every bucket, an empty one at least: it
carries the clock, so each bucket evicts in each micro-batch.  Spark's own watermark would drop rows
silently when files come in another order.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from feeds.errors import MalformedDocument
from feeds.xml.xmlparse import parse
from templates.columns import Columns, among, chosen, columns_of, distinct, keys_of, spread
from templates.model.relations import TIMES
from xscl.documents.document_ids import document_name
from xscl.shredding.arrivals import compute_bindings
from xscl.spark.absences import ROWS, block_rows
from xscl.spark.document_rows import checked_columns, documents_of, rejected_batch, rejected_row
from xscl.spark.part_format import (
    BATCH,
    BINDING,
    DOCUMENTS,
    PARTS,
    REJECTED_ROWS,
    bucket_of,
    packed,
)
from xscl.spark.plan_files import ExecutorPlan, PlanFiles
from xscl.spark.plan_replica import PlanReplica, replica_of
from xscl.time_format import LATEST

PORTION = 10_000
"""Documents that are shredded together; many small parts cost more than their documents."""

MOST_BUCKETS = 4_096
"""The most buckets: each portion of documents makes a part for every one."""


def checked_buckets(buckets: int) -> None:
    """Raise ValueError unless it is a number of buckets."""
    if not 1 <= buckets <= MOST_BUCKETS:
        raise ValueError(f"buckets must be 1 to {MOST_BUCKETS:,}, not {buckets}")


def documents_in_order(frame: DataFrame, order: str) -> DataFrame:
    """Return the columns of documents; `number` and `clock` only with the order "number".

    With the order "time" stage 1 takes both from `ts`.  Raises AnalysisException for columns that
    are missing or have another type, ValueError for an order other than "time" and "number".
    """
    if order not in ("time", "number"):
        raise ValueError(f"the order {order!r} is neither 'time' nor 'number'")
    rows = frame.selectExpr(*checked_columns(frame.schema))
    ordering = ("number", "clock")
    if order == "time":
        return rows.drop(*ordering)
    if missing := [name for name in ordering if name not in rows.columns]:
        raise AnalysisException(f"order='number' needs the column {missing[0]!r}, a BIGINT")
    return rows


@dataclass(frozen=True, slots=True)
class Shredding:
    """A function for `mapInArrow`: rows of `documents_in_order` to rows of `PARTS`.

    All documents are shredded with `version` of the plan; those of a streaming query, which
    `reader` names, with a version for each micro-batch (`PlanFiles.claimed`).  Its rows have
    `batch`, the time of the micro-batch, which is the same when it is repeated.
    """

    plan: ExecutorPlan
    buckets: int
    lateness: int
    with_content: bool
    version: int = 0
    reader: str = ""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _portions(batches):
            version = self.version
            if self.reader:
                assert isinstance(self.plan, PlanFiles), "that of a stream changes"
                version = self.plan.claimed(self.reader, batch[BATCH][0].as_py())
                batch = batch.drop_columns([BATCH])
            documents, rejected = documents_of(batch)
            if "number" not in documents.schema.names:
                for name in ("number", "clock"):
                    documents = documents.append_column(name, documents["ts"])
            replica = replica_of(self.plan, self.lateness, version)
            yield self._parts(documents, rejected, replica, version)

    def _parts(
        self, rows: pa.RecordBatch, rejected: pa.RecordBatch, replica: PlanReplica, version: int
    ) -> pa.RecordBatch:
        streams, xml = rows["stream"].to_pylist(), rows["xml"].to_pylist()
        texts = [((stream,), text) for stream, text in zip(streams, xml, strict=True)]
        found = compute_bindings(replica.automaton, texts)
        every = keyed(found.bindings, found.values["strVal"].to_pylist())
        absent = block_rows(replica.registry, replica.absences, every, _times(rows))
        documents = _documents(rows, version, with_content=self.with_content)
        clock = max(int(rows[name].to_numpy().max(initial=-LATEST)) for name in ("ts", "clock"))
        parts = divided(replica, self.buckets, documents, every, absent)
        malformed = rejected_batch([*_malformed(rows, sorted(found.refused))])
        for some in (rejected, malformed):
            if some.num_rows:
                rejected_rows = packed(pa.Table.from_batches([some]))
                parts.append(BucketPart(REJECTED_ROWS, rejected_rows, b"", b""))
        return part_rows(parts, version, clock)


class BucketPart(NamedTuple):
    """Documents of a bucket, their bindings and rows of absences, packed: see `PARTS`."""

    bucket: int
    documents: bytes
    bindings: bytes
    absences: bytes


def divided(
    replica: PlanReplica, buckets: int, documents: pa.Table, every: Columns, absent: pa.Table
) -> list[BucketPart]:
    """Return a part for each bucket of documents (`DOCUMENTS`), with all their bindings.

    `every` are the bindings (`keyed`), `absent` rows of absences (`absences.ROWS`).
    """
    bindings = chosen(every, np.flatnonzero(replica.registry.retention.keeps[every["pair"]] >= 0))
    starts = np.searchsorted(bindings["doc"], np.arange(documents.num_rows + 1))
    routes = bindings["valued"] & among(bindings["pair"].astype(np.int64), replica.ends)
    of_routes = bucket_of(bindings["key"][routes], buckets)
    absent_in = bucket_of(absent["key"].to_numpy(), buckets)
    absent_docs = absent["doc"].to_numpy()
    joined = of_routes << 32 | bindings["doc"][routes]
    routed = distinct(np.concatenate((joined, absent_in << 32 | absent_docs)))
    parts = []
    for bucket in range(buckets):
        low, high = np.searchsorted(routed, [bucket << 32, (bucket + 1) << 32])
        places = routed[low:high] & 0xFFFFFFFF
        doc, at = spread(starts[places], starts[places + 1])
        of_part = pa.table({"doc": doc, **{name: bindings[name][at] for name in BINDING}})
        here = np.flatnonzero(absent_in == bucket)
        placed = pa.array(np.searchsorted(places, absent_docs[here]))
        waiting = absent.take(here).set_column(ROWS.get_field_index("doc"), "doc", placed)
        tables = (packed(one) for one in (documents.take(places), of_part, waiting))
        parts.append(BucketPart(bucket, *tables))
    return parts


def part_rows(parts: Sequence[BucketPart], version: int, clock: int) -> pa.RecordBatch:
    """Return parts as rows of `PARTS`."""
    columns = dict(zip(BucketPart._fields, zip(*parts, strict=True), strict=True))
    same = {"version": [version] * len(parts), "clock": [clock] * len(parts)}
    return pa.record_batch({**columns, **same}, schema=PARTS)


def _portions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition in batches of `PORTION` rows or a little more."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= PORTION:
            yield _united(waiting)
            waiting = []
    if waiting:
        yield _united(waiting)


def _united(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0]


def _malformed(rows: pa.RecordBatch, places: Iterable[int]) -> Iterator[dict[str, object]]:
    """Yield the malformed documents at some indexes as rows of REJECTED."""
    for place in places:
        row = rows.slice(place, 1).to_pylist()[0]
        try:
            parse(row["xml"])
        except MalformedDocument as error:
            yield rejected_row(row, error)


def keyed(bindings: pa.Table, values: Sequence[str]) -> Columns:
    """Return bindings in the order of documents: `key` is that of the value if it is `valued`."""
    keys = np.append(keys_of(values), np.uint64(0))
    value = bindings["value"].combine_chunks()
    columns = {
        **columns_of(bindings.drop_columns("value")),
        "valued": value.is_valid().to_numpy(zero_copy_only=False),
        "key": keys[value.fill_null(len(values)).to_numpy()],
    }
    return chosen(columns, np.argsort(columns["doc"], kind="stable"))


def _times(rows: pa.RecordBatch) -> pa.Table:
    """Return the times of documents as a relation of stage 2, numbered from 1."""
    numbers = np.arange(rows.num_rows) + 1
    columns = dict.fromkeys(TIMES.names, numbers) | {"clock": rows["clock"]}
    return pa.table({**columns, **dict.fromkeys(("start", "ts"), rows["ts"])}, schema=TIMES)


def _documents(rows: pa.RecordBatch, version: int, *, with_content: bool) -> pa.Table:
    given = ("number", "clock", "ts", "stream", "id")
    columns = {name: rows[name] for name in given}
    names = map(document_name, *(rows[name].to_pylist() for name in ("stream", "id")))
    columns |= identities([*names], rows["xml"].to_pylist())
    columns["xml"] = rows["xml"] if with_content else pa.nulls(rows.num_rows, pa.binary())
    columns["version"] = pa.array(np.full(rows.num_rows, version))
    return pa.table(columns).select(DOCUMENTS.names).cast(DOCUMENTS)


def identities(names: list[str], texts: Iterable[bytes]) -> dict[str, pa.Array]:
    """Return two columns of documents: `base`, a hash of the name, and `digest`, one of name and
    text.
    """
    base = keys_of(names).astype(np.int64)
    digests = np.fromiter(map(zlib.crc32, texts), np.int64, len(names))
    return {"base": pa.array(base), "digest": pa.array(base ^ digests)}
