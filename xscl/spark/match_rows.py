"""The results of a bucket as rows of matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from feeds.xml.xmlparse import parse
from templates.columns import (
    Column,
    Columns,
    chosen,
    distinct,
    grouped_counts,
    spread,
    together,
)
from templates.model.result_bound import RESULTS
from xscl.documents.composite_events import Composite, absent, joined, of_document
from xscl.documents.composite_events import together as united
from xscl.documents.document_ids import StoredDocument, document_name
from xscl.documents.results import Subscription
from xscl.planning.compile import CompiledQuery, compile_query
from xscl.shredding.nodes import DocumentTree, TreeCache, number_nodes
from xscl.spark.absences import WaitingRows
from xscl.spark.bucket import Bucket, BucketResults, PartDocuments
from xscl.spark.document_rows import REJECTED_COLUMN
from xscl.spark.plan_replica import PlanReplica
from xscl.subscriptions.match import MatchIds, MatchSource, match_id, match_of, values_of

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
        REJECTED_COLUMN,
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
    """Makes rows of `FOUND` from the results and the kept documents of one bucket."""

    def __init__(self, replica: PlanReplica, bucket: Bucket, *, with_content: bool) -> None:
        self._replica = replica
        self._bucket = bucket
        self._with_content = with_content

    def table(self, found: BucketResults) -> pa.Table:
        """Return rows of `FOUND`: subscribers' matches, and documents over the bound."""
        over = self._over_the_bound(found.cuts)
        return pa.concat_tables((self._matches(found.rows), over)) if len(found.rows) else over

    def _documents(self, numbers: Column) -> _Documents:
        """Return documents by their numbers."""
        return _Documents(self._bucket.table.take(pa.array(numbers - self._bucket.first)))

    def _matches(self, found: pa.Table) -> pa.Table:
        sides = [found[name].to_numpy() for name in ("doc1", "doc2")]
        numbers = distinct(np.concatenate(sides))
        left, right = (np.searchsorted(numbers, side) for side in sides)
        documents = self._documents(numbers)
        versions, ts = (documents.table[name].to_numpy() for name in ("version", "ts"))
        oldest = np.minimum(versions[left], versions[right])
        subscribers, who, row = self._seen(found["qid"].to_numpy(), oldest)
        answers = np.ones_like(row)
        columns = {"who": who, "left": left[row], "right": right[row], "row": row}
        seen = _distinct(subscribers, {**columns, "answers": answers})
        left, right = seen["left"], seen["right"]
        places = [seen[name].tolist() for name in ("who", "left", "right")]
        listed = found["nodes"].combine_chunks()
        flat = tuple(listed.flatten().to_pylist())
        every = [flat[first:last] for first, last in pairwise(listed.offsets.to_pylist())]
        nodes = [every[at] for at in seen["row"].tolist()]
        ids = MatchIds(subscribers, documents.names)
        both = pa.array(np.stack((left, right), axis=1).ravel())
        given = documents.table["id"].combine_chunks().take(both)
        made = {
            "id": list(map(ids.of, *places, nodes)),
            "subscription": pa.array(
                [subscriber.name for subscriber in subscribers], pa.string()
            ).take(seen["who"]),
            "documents": pa.FixedSizeListArray.from_arrays(given, 2).cast(pa.list_(pa.string())),
            "t0": pa.array(np.minimum(ts[left], ts[right])).cast(_TIME),
            "t1": pa.array(np.maximum(ts[left], ts[right])).cast(_TIME),
            **dict.fromkeys(("bindings", "xml", "_rejected"), [None] * len(nodes)),
            # Documents are numbered in the order of arrival.
            "newcomer": pa.array(documents.names).take(np.maximum(left, right)),
            "answers": seen["answers"],
        }
        if self._with_content:
            numbered = numbers.tolist()
            contents = []
            for who, one, other, of_one in zip(*places, nodes, strict=True):
                subscription, several = subscribers[who], [of_one]
                if subscription.distinct:  # its values are those of all results, in any bucket
                    pair = numbered[one], numbered[other]
                    several = self._bucket.all_nodes(subscription.qid, *pair)
                contents.append(documents.content(subscription, (one, other), several))
            made["bindings"] = [values for values, _ in contents]
            made["xml"] = [xml for _, xml in contents]
        return pa.table(made, schema=FOUND)

    def _seen(self, qids: Column, oldest: Column) -> tuple[Sequence[Subscription], Column, Column]:
        """Return subscribers, and for each result that one of them sees the indexes of both.

        `oldest` has the version of the plan at the older document of each result.
        """
        rows, place = np.unique(qids, return_inverse=True)
        of_rows = [self._replica.subscribers.get(qid, ()) for qid in rows.tolist()]
        subscribers = [one for several in of_rows for one in several]
        last = np.cumsum([len(several) for several in of_rows])
        row, at = spread(np.append(0, last[:-1])[place], last[place])
        since = np.array([subscriber.since for subscriber in subscribers], np.int64)
        sees = since[at] <= oldest[row]
        return subscribers, at[sees], row[sees]

    def _over_the_bound(self, cuts: Sequence[tuple[int, int]]) -> pa.Table:
        names = self._documents(np.array([number for _, number in cuts], np.int64)).names
        rows = [
            {"subscription": subscription.name, "newcomer": name, "answers": RESULTS + 1}
            for (qid, _), name in zip(cuts, names, strict=True)
            for subscription in self._replica.subscribers.get(qid, ())
        ]
        return pa.Table.from_pylist(rows, FOUND)


def _distinct(subscribers: Sequence[Subscription], seen: Columns) -> Columns:
    """Return matches; with DISTINCT all results of two documents are one match."""
    is_distinct = np.array([subscriber.distinct for subscriber in subscribers], np.bool_)[
        seen["who"]
    ]
    if not is_distinct.any():
        return seen
    groups, answers = grouped_counts(chosen(seen, is_distinct), "who", "left", "right")
    return together([chosen(seen, ~is_distinct), {**groups, "answers": answers}])


class _Documents:
    """Documents (`DOCUMENTS`) by their places, and what matches show of them.

    In composites a document has its place plus 1 as number, since 0 is `ABSENT`.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        columns = (table[name].to_pylist() for name in ("stream", "id"))
        self.names = list(map(document_name, *columns))
        self._trees = TreeCache()
        self._source = MatchSource(_compiled, self._tree)

    def content(
        self,
        subscription: Subscription,
        places: Sequence[int],
        results: Sequence[Sequence[int]],
    ) -> tuple[list[tuple[str, list[str]]], str]:
        """Return bindings and output of a match of two documents; `results` has nodes by result."""
        documents = {place + 1: self._stored(place) for place in places}
        parts = {number: of_document(one) for number, one in documents.items()}
        split, one, other = subscription.split, places[0] + 1, places[-1] + 1
        found = [joined(parts, one, other, nodes, split) for nodes in results]
        return self._shown(subscription, found, documents)

    def sides_content(
        self, subscription: Subscription, sides: Sequence[tuple[int, Sequence[int]]], end: int
    ) -> tuple[list[tuple[str, list[str]]], str]:
        """Return bindings and output of a match of an absence, which ends at a time in ticks.

        Its sides are places of documents with the nodes of each, -1 for a side that is not there.
        """
        documents = {place + 1: self._stored(place) for place, _ in sides if place >= 0}
        parts = [
            of_document(documents[place + 1])._replace(nodes=tuple(nodes))
            if place >= 0
            else absent(1, len(nodes), 0)
            for place, nodes in sides
        ]
        return self._shown(subscription, [united(parts)._replace(ts=end)], documents)

    def _shown(
        self,
        subscription: Subscription,
        composites: Sequence[Composite],
        documents: Mapping[int, StoredDocument],
    ) -> tuple[list[tuple[str, list[str]]], str]:
        match = match_of(subscription, composites, documents, self._source)
        return list(values_of(match).items()), match.xml().decode()

    def _tree(self, number: int) -> DocumentTree:
        tree = self._trees.get(number)
        if tree is None:
            text, ts = (self.table[name][number - 1].as_py() for name in ("xml", "ts"))
            tree = self._trees.put(number, number_nodes(parse(text), ts))
        return tree

    def _stored(self, place: int) -> StoredDocument:
        row = self.table.slice(place, 1).to_pylist()[0]
        return StoredDocument(
            doc=place + 1,
            id=self.names[place],
            ts=row["ts"],
            first=place,
            version=1,
            history=False,
            clock=row["clock"],
            rank=place,
            base=place,
            given=row["id"],
            stream=row["stream"],
        )


def absent_table(
    waiting: WaitingRows,
    replica: PlanReplica,
    read: PartDocuments,
    clocks: tuple[int, int],
    *,
    with_content: bool,
) -> pa.Table:
    """Return the results of absences (`FOUND`) that become certain between two clocks.

    The rows of the documents wait from now on.
    """
    since = {number: one.since for number, one in replica.absent.items()}
    over = waiting.join(replica.absences, since, read.absences, read.documents, clocks)
    made = []
    documents = _Documents(over.rows)
    rules = {absence.number: absence for absence in replica.absences}
    ends = (over.left.tolist(), over.right.tolist(), over.end.tolist())
    for left, right, end in zip(*ends, strict=True):
        rows = {at: over.rows.slice(at, 1).to_pylist()[0] for at in (left, right) if at >= 0}
        number = next(iter(rows.values()))["absence"]
        subscription, has_pairs = replica.absent[number], rules[number].pairs
        lacking = len(subscription.outputs) - sum(len(row["nodes"]) for row in rows.values())
        sides = [
            (at, rows[at]["nodes"] if at >= 0 else [-1] * lacking)
            for at in ((left, right) if has_pairs else (left,))
        ]
        names = [documents.names[at] if at >= 0 else "" for at, _ in sides]
        found = {
            "id": match_id(subscription, names, [node for _, nodes in sides for node in nodes]),
            "subscription": subscription.name,
            "documents": [row["id"] for row in rows.values()],
            "t0": min(row["ts"] for row in rows.values()),
            "t1": end,
            "newcomer": documents.names[max(rows, key=lambda at: rows[at]["number"])],
            "answers": 1,
        }
        if with_content:
            content = documents.sides_content(subscription, sides, end)
            found["bindings"], found["xml"] = content
        made.append(found)
    return pa.Table.from_pylist(made, FOUND)


def rejected_matches(rejected: pa.Table) -> pa.Table:
    """Return rows that are no documents (`REJECTED`) as rows of `FOUND`."""
    rows = [
        {"_rejected": row, "newcomer": f"{row['stream']}/{row['id']}", "answers": 0}
        for row in rejected.to_pylist()
    ]
    return pa.Table.from_pylist(rows, FOUND)
