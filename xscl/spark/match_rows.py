"""The results of a bucket as rows of matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from feeds.xml.xmlparse import parse
from templates.columns.columns import (
    Column,
    Columns,
    chosen,
    distinct,
    grouped_counts,
    spread,
    together,
)
from templates.model.result_bound import RESULTS
from xscl.documents.composite_events import joined, of_document
from xscl.documents.document_ids import StoredDocument, document_name
from xscl.documents.results import Subscription
from xscl.planning.compile import CompiledQuery, compile_query
from xscl.shredding.nodes.tree import DocumentTree, TreeCache, number_nodes
from xscl.spark.bucket import Bucket, BucketResults
from xscl.spark.document_rows import REJECTED_COLUMN
from xscl.spark.plan_replica import PlanReplica
from xscl.subscriptions.match import MatchIds, MatchSource, match_id, match_of
from xscl.subscriptions.match_tables import values_of

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
    """Makes rows of `FOUND` of the results of one bucket, with its kept documents."""

    def __init__(self, replica: PlanReplica, bucket: Bucket, *, with_content: bool) -> None:
        self._replica = replica
        self._bucket = bucket
        self._with_content = with_content

    def table(self, found: BucketResults) -> pa.Table:
        """Return the matches of results, as their subscribers see them."""
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
            "subscription": pa.array([one.name for one in subscribers], pa.string()).take(
                seen["who"]
            ),
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
        """Return subscribers, and each result that one sees: places of both.

        `oldest` has the version of the plan at the older document of each result.
        """
        rows, place = np.unique(qids, return_inverse=True)
        of_rows = [self._replica.subscribers.get(qid, ()) for qid in rows.tolist()]
        subscribers = [one for several in of_rows for one in several]
        last = np.cumsum([len(several) for several in of_rows])
        row, at = spread(np.append(0, last[:-1])[place], last[place])
        since = np.array([one.since for one in subscribers], np.int64)
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
    """Return matches; one with all results of two documents for a subscriber of distinct ones."""
    is_distinct = np.array([one.distinct for one in subscribers], np.bool_)[seen["who"]]
    if not is_distinct.any():
        return seen
    groups, answers = grouped_counts(chosen(seen, is_distinct), "who", "left", "right")
    return together([chosen(seen, ~is_distinct), {**groups, "answers": answers}])


class _Documents:
    """Documents (`DOCUMENTS`) by their places, and what matches show of them."""

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
        end: int | None = None,
    ) -> tuple[list[tuple[str, list[str]]], str]:
        """Return the bindings and the output of a match of one or two documents.

        It has the nodes of some results, and ends with the later document, or at a time.
        """
        documents = {place: self._stored(place) for place in places}
        parts = {place: of_document(one) for place, one in documents.items()}
        split = subscription.split
        found = [joined(parts, places[0], places[-1], nodes, split) for nodes in results]
        if end is not None:
            found = [one._replace(ts=end) for one in found]
        match = match_of(subscription, found, documents, self._source)
        return list(values_of(match).items()), match.xml().decode()

    def _tree(self, place: int) -> DocumentTree:
        tree = self._trees.get(place)
        if tree is None:
            text, ts = (self.table[name][place].as_py() for name in ("xml", "ts"))
            tree = self._trees.put(place, number_nodes(parse(text), ts))
        return tree

    def _stored(self, place: int) -> StoredDocument:
        row = self.table.slice(place, 1).to_pylist()[0]
        return StoredDocument(
            doc=place,
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


def absent_table(replica: PlanReplica, over: pa.Table, *, with_content: bool) -> pa.Table:
    """Return left rows of absences without an answer (`WaitingRows.join`) as rows of `FOUND`."""
    rows = []
    documents = _Documents(over)
    for place, row in enumerate(over.to_pylist()):
        subscription, name = replica.absent[row["absence"]], documents.names[place]
        if subscription.since > row["version"]:
            continue
        found = {
            "id": match_id(subscription, [name], row["nodes"]),
            "subscription": subscription.name,
            "documents": [row["id"]],
            "t0": row["ts"],
            "t1": row["deadline"],
            "newcomer": name,
            "answers": 1,
        }
        if with_content:
            content = documents.content(subscription, [place], [row["nodes"]], row["deadline"])
            found["bindings"], found["xml"] = content
        rows.append(found)
    return pa.Table.from_pylist(rows, FOUND)


def rejected_matches(rejected: pa.Table) -> pa.Table:
    """Return rows that are no documents (`REJECTED`) as rows of `FOUND`."""
    rows = [
        {"_rejected": row, "newcomer": f"{row['stream']}/{row['id']}", "answers": 0}
        for row in rejected.to_pylist()
    ]
    return pa.Table.from_pylist(rows, FOUND)
