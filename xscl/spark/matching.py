"""The matches of subscriptions over a batch DataFrame, on executors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from feeds.documents import Document
from templates.columns import Columns, chosen
from xscl.spark.absences import WaitingRows
from xscl.spark.bound import SHARES, SHARES_TYPE, in_shares, matches_of
from xscl.spark.bucket import Bucket, read_parts
from xscl.spark.catalog import Catalog
from xscl.spark.document_rows import documents_of
from xscl.spark.match_rows import MatchRows, absent_table, rejected_matches
from xscl.spark.part_format import PARTS, REJECTED_ROWS, unpacked
from xscl.spark.parts import PORTION, Shredding, checked_buckets, documents_in_order
from xscl.spark.plan_files import ExecutorPlan, PlanImage
from xscl.spark.plan_replica import replica_of
from xscl.time_format import LATEST

SAMPLE = 500
"""The size of the sample of documents by which the designated equality of a join is chosen."""

PARTS_OF_MATCHES = 64
"""The fewest shares of a batch: a worker has the matches of one share in memory."""

PARTS_TYPE = from_arrow_schema(PARTS)


def match(
    documents: DataFrame,
    subscriptions: Mapping[str, str] | Catalog,
    *,
    buckets: int | None = None,
    order: str = "time",
    content: bool = True,
    forever: bool = False,
) -> DataFrame:
    """Return the matches of subscriptions over the documents of a DataFrame (`MATCHES`).

    They are those of one engine that gets the documents in order: of `time`, or of the columns
    `number` and `clock` with `order="number"`.  `subscriptions` are queries by name, or a catalog;
    with `forever` queries may have a window INF.  Without `content` the columns `bindings` and
    `xml` are null, which is several times as fast.

    Raises QueryError for a query that executors cannot evaluate, and PipelineError for columns that
    are missing or have another type.
    """
    session = documents.sparkSession
    if buckets is None:
        buckets = 2 * session.sparkContext.defaultParallelism
    checked_buckets(buckets)
    rows = documents_in_order(documents, order)
    plan: ExecutorPlan
    if isinstance(subscriptions, Catalog):
        plan = subscriptions.files
    else:
        plan = _plan_of(subscriptions, rows, forever=forever)
    version = plan.current()
    shredding = Shredding(plan, buckets, lateness=0, with_content=content, version=version)
    joining = _joining(plan, version, buckets, with_content=content)
    found = rows.mapInArrow(shredding, PARTS_TYPE).groupBy("bucket")
    return matches_of(found.applyInArrow(joining, SHARES_TYPE))


def _plan_of(queries: Mapping[str, str], rows: DataFrame, *, forever: bool) -> PlanImage:
    """Return the plan of queries: a frame may be evaluated whenever, on machines without our files.

    Raises QueryError.
    """
    with (
        tempfile.TemporaryDirectory(prefix="xscl-match-") as directory,
        Catalog(directory, sample=_sampled(rows), forever=forever) as catalog,
    ):
        catalog.subscribe_many(queries)
        return catalog.files.image()


def _sampled(rows: DataFrame) -> Iterator[Document]:
    """Yield documents of a DataFrame, read when the first one is asked for."""
    for batch in rows.limit(SAMPLE).toArrow().to_batches():
        documents, _ = documents_of(batch)
        for row in documents.to_pylist():
            yield Document(row["stream"], row["id"], row["ts"], row["xml"])


def _joining(
    plan: ExecutorPlan, version: int, buckets: int, *, with_content: bool
) -> Callable[[tuple[pa.Scalar, ...], Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `applyInArrow`: all parts of a bucket to rows of `SHARES`."""

    def join(
        key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        parts: list[tuple[bytes, bytes, bytes]] = []
        clock = -LATEST
        for batch in batches:
            names = ("documents", "bindings", "absences")
            parts.extend(zip(*(batch[name].to_pylist() for name in names), strict=True))
            clock = max(clock, *batch["clock"].to_pylist())
        if key[0].as_py() == REJECTED_ROWS:
            rejected = pa.concat_tables(unpacked(rows) for rows, _, _ in parts)
            yield from _shared(rejected_matches(rejected), buckets)
            return
        read = read_parts(parts)
        if read is None:
            return
        replica = replica_of(plan, 0, version)
        bucket = Bucket(key[0].as_py(), buckets)
        read = bucket.unknown(read)
        for documents, bindings in _steps(read.documents, read.bindings):
            found = bucket.join(replica, documents, bindings)
            rows = MatchRows(replica, bucket, with_content=with_content).table(found)
            yield from _shared(rows, buckets)
            bucket.evict(replica, int(documents["clock"].to_numpy().max()))
        clocks = -LATEST, clock
        absent = absent_table(WaitingRows(0), replica, read, clocks, with_content=with_content)
        yield from _shared(absent, buckets)

    return join


def _shared(found: pa.Table, buckets: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of `FOUND` as rows of `SHARES`."""
    if found.num_rows:
        shares, data = zip(*in_shares(found, max(buckets, PARTS_OF_MATCHES)), strict=True)
        yield pa.record_batch({"share": shares, "found": data}, schema=SHARES)


def _steps(documents: pa.Table, bindings: Columns) -> Iterator[tuple[pa.Table, Columns]]:
    """Yield documents in portions, each with its bindings."""
    for first in range(0, documents.num_rows, PORTION):
        some = documents.slice(first, PORTION)
        doc = bindings["doc"]
        low, high = doc.searchsorted([first, first + some.num_rows])
        here = chosen(bindings, np.arange(low, high))
        yield some, {**here, "doc": here["doc"] - first}
