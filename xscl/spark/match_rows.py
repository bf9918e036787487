"""The results of a bucket as rows of matches, and the bound of results over all buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from feeds.xml.xmlparse import parse
from templates.model.result_bound import RESULTS
from xscl.documents.composite_events import joined, of_document
from xscl.documents.document_ids import document_name
from xscl.documents.document_log import StoredDocument
from xscl.documents.results import Subscription, result_of
from xscl.documents.tree_cache import TreeCache
from xscl.planning.compile import CompiledQuery, compile_query
from xscl.shredding.nodes.tree import DocumentTree, number_nodes
from xscl.spark.bucket import Bucket, Found
from xscl.spark.plan_replica import PlanReplica
from xscl.spark.rejected_rows import REJECTED
from xscl.subscriptions.match import MatchSource, match_id, match_of
from xscl.subscriptions.match_tables import values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIME = pa.timestamp("us", tz="UTC")
MATCHES = pa.schema(
    [
        ("id", pa.string()),
        ("subscription", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("t0", _TIME),
        ("t1", _TIME),
        ("bindings", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("xml", pa.string()),
        ("_rejected", pa.struct(list(REJECTED))),
    ]
)
"""A match: `bindings` has the string values of the nodes of each variable, `xml` is the output
document; both are null without content.  A row with `_rejected` is no match: a document was not
taken, or had more results with a subscription than `RESULTS`, and so has none."""

FOUND = MATCHES.append(pa.field("newcomer", pa.string())).append(pa.field("answers", pa.int64()))
"""A match before the bound: `newcomer` names the document that arrived last, `answers` are the
results that it is made of.  A row without an id says that a bucket alone has too many."""


_compiled: Callable[[str], CompiledQuery] = lru_cache(maxsize=10_000)(compile_query)


class MatchRows:
    """Makes rows of `FOUND` of the results of one bucket, with its kept documents."""

    def __init__(self, replica: PlanReplica, bucket: Bucket, *, with_content: bool) -> None:
        self._replica = replica
        self._bucket = bucket
        self._with_content = with_content
        self._documents: dict[int, StoredDocument] = {}
        self._texts: dict[int, bytes] = {}
        self._versions: dict[int, int] = {}
        self._trees = TreeCache()
        self._source = MatchSource(_compiled, self._tree)

    def table(self, found: Found) -> pa.Table:
        """Return the matches of results, as their subscribers see them."""
        numbers = {number for _, number in found.cuts}
        for name in ("doc1", "doc2"):
            numbers.update(found.rows[name].to_pylist())
        self._read(sorted(numbers))
        rows = [*self._matches(found.rows), *self._over_the_bound(found.cuts)]
        columns = {name: [row.get(name) for row in rows] for name in FOUND.names}
        return pa.table(columns, schema=FOUND)

    def _read(self, numbers: Sequence[int]) -> None:
        """Read documents that results name."""
        places = pa.array(numbers, pa.int64()).to_numpy() - self._bucket.first
        for number, row in zip(numbers, self._bucket.table.take(places).to_pylist(), strict=True):
            self._documents[number] = _stored(row, number)
            self._versions[number] = row["version"]
            self._texts[number] = row["xml"]

    def _tree(self, number: int) -> DocumentTree:
        tree = self._trees.get(number)
        if tree is None:
            tree = self._trees.put(number, number_nodes(parse(self._texts[number])))
        return tree

    def _matches(self, found: pa.Table) -> Iterator[dict[str, object]]:
        columns = (found[name].to_pylist() for name in ("qid", "doc1", "doc2", "nodes"))
        groups: dict[tuple[int, int, int], list[list[int]]] = defaultdict(list)
        for qid, one, other, nodes in zip(*columns, strict=True):
            groups[qid, one, other].append(nodes)
        for (qid, one, other), several in groups.items():
            oldest = min(self._versions[one], self._versions[other])
            for subscription in self._replica.subscribers.get(qid, ()):
                if subscription.since > oldest:
                    continue
                if subscription.distinct:
                    yield self._row(subscription, one, other, several)
                else:
                    for nodes in several:
                        yield self._row(subscription, one, other, [nodes])

    def _row(
        self, subscription: Subscription, one: int, other: int, several: Sequence[Sequence[int]]
    ) -> dict[str, object]:
        """Return the match of two documents with several results, of which each has nodes."""
        left, right = self._documents[one], self._documents[other]
        row: dict[str, object] = {
            "subscription": subscription.name,
            "documents": [left.given, right.given],
            "t0": min(left.ts, right.ts),
            "t1": max(left.ts, right.ts),
            "newcomer": (left if one > other else right).id,
            "answers": len(several),
        }
        if not self._with_content:
            named = () if subscription.distinct else several[0]
            return {**row, "id": match_id(subscription, (left.id, right.id), named)}
        if subscription.distinct:  # its values are those of all results, also in other buckets
            several = self._bucket.all_nodes(subscription.qid, one, other)
        parts = {one: of_document(left), other: of_document(right)}
        composites = [joined(parts, one, other, nodes, subscription.split) for nodes in several]
        result = result_of(composites, {one: left, other: right})
        match = match_of(subscription, result, self._source)
        values = list(values_of(match).items())
        return {**row, "id": match.id, "bindings": values, "xml": match.xml().decode()}

    def _over_the_bound(self, cuts: Sequence[tuple[int, int]]) -> Iterator[dict[str, object]]:
        for qid, number in cuts:
            for subscription in self._replica.subscribers.get(qid, ()):
                newcomer = self._documents[number].id
                row = {"subscription": subscription.name, "newcomer": newcomer}
                yield {**row, "answers": RESULTS + 1}


def absent_table(replica: PlanReplica, over: pa.Table, *, with_content: bool) -> pa.Table:
    """Return left rows of absences without an answer (`Waiting.join`) as rows of `FOUND`."""
    rows = []
    for place, row in enumerate(over.to_pylist()):
        subscription = replica.absent[row["absence"]]
        if subscription.since > row["version"]:
            continue
        document = _stored(row, place)
        found: dict[str, object] = {
            "subscription": subscription.name,
            "documents": [document.given],
            "t0": document.ts,
            "t1": row["deadline"],
            "newcomer": document.id,
            "answers": 1,
        }
        if with_content:
            trees = {place: number_nodes(parse(row["xml"]))}
            composite = of_document(document)._replace(nodes=tuple(row["nodes"]))
            result = result_of([composite._replace(ts=row["deadline"])], {place: document})
            match = match_of(subscription, result, MatchSource(_compiled, trees.__getitem__))
            found["bindings"] = list(values_of(match).items())
            found["xml"] = match.xml().decode()
        named = () if subscription.distinct else row["nodes"]
        rows.append({**found, "id": match_id(subscription, [document.id], named)})
    return pa.table({name: [row.get(name) for row in rows] for name in FOUND.names}, schema=FOUND)


def _stored(row: Mapping[str, Any], number: int) -> StoredDocument:
    """Return a document (`DOCUMENTS`) under a number."""
    return StoredDocument(
        doc=number,
        id=document_name(row["stream"], row["id"]),
        ts=row["ts"],
        first=number,
        version=1,
        history=False,
        clock=row["clock"],
        rank=number,
        base=number,
        given=row["id"],
        stream=row["stream"],
    )


def rejected_matches(rejected: pa.Table) -> pa.Table:
    """Return rows that are no documents (`REJECTED`) as rows of `FOUND`."""
    rows = rejected.to_pylist()
    columns: dict[str, list[object]] = {name: [None] * len(rows) for name in FOUND.names}
    columns["_rejected"] = rows
    columns["newcomer"] = [f"{row['stream']}/{row['id']}" for row in rows]
    columns["answers"] = [0] * len(rows)
    return pa.table(columns, schema=FOUND)


def within_bound(found: DataFrame) -> DataFrame:
    """Return the matches (`MATCHES`) of rows of `FOUND` from all buckets.

    A document with more than `RESULTS` results with a subscription, in all buckets together, has
    none of them; one row says so.  A match of several results is found in several buckets, and is
    one row.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    group = Window.partitionBy("newcomer", "subscription")
    by_id = group.orderBy("id")
    counted = found.withColumns(
        {
            "_total": F.sum("answers").over(group),
            "_place": F.row_number().over(by_id),
            "_before": F.lag("id").over(by_id),
        }
    )
    is_over = F.col("_total") > RESULTS
    message = F.format_string(
        "%s has more than %s results with the subscription %s: it has none of them",
        *(F.col("newcomer"), F.lit(f"{RESULTS:,}"), F.col("subscription")),
    )
    over = F.struct(
        F.lit(None).cast("string").alias("stream"),
        F.col("newcomer").alias("id"),
        F.col("t1").alias("ts"),
        F.lit(None).cast("binary").alias("xml"),
        F.lit("results").alias("reason"),
        message.alias("message"),
    )
    is_another = F.col("subscription").isNull() | ~F.col("id").eqNullSafe(F.col("_before"))
    kept = counted.where(F.when(is_over, F.col("_place") == 1).otherwise(is_another))
    columns = [
        F.when(~is_over, F.col(name)).alias(name) for name in MATCHES.names if name != "_rejected"
    ]
    rejected = F.when(is_over, over).otherwise(F.col("_rejected")).alias("_rejected")
    return kept.select(*columns, rejected)
