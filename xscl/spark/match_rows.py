"""The results of a bucket as rows of matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from feeds.xml.xmlparse import parse
from templates.columns.columns import (
    Column,
    chosen,
    distinct,
    grouped_counts,
    spread,
    together,
)
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


class _Seen(NamedTuple):
    """Matches as columns: places of a subscriber, of documents and of a result, and answers."""

    subscriber: Column
    left: Column
    right: Column
    row: Column
    answers: Column


class MatchRows:
    """Makes rows of `FOUND` of the results of one bucket, with its kept documents."""

    def __init__(self, replica: PlanReplica, bucket: Bucket, *, with_content: bool) -> None:
        self._replica = replica
        self._bucket = bucket
        self._with_content = with_content

    def table(self, found: Found) -> pa.Table:
        """Return the matches of results, as their subscribers see them."""
        over = self._over_the_bound(found.cuts)
        return pa.concat_tables((self._matches(found.rows), over)) if len(found.rows) else over

    def _documents(self, numbers: Column) -> pa.Table:
        """Return documents by their numbers."""
        return self._bucket.table.take(pa.array(numbers - self._bucket.first))

    def _matches(self, found: pa.Table) -> pa.Table:
        ones, others = found["doc1"].to_numpy(), found["doc2"].to_numpy()
        numbers = distinct(np.concatenate((ones, others)))
        left, right = np.searchsorted(numbers, ones), np.searchsorted(numbers, others)
        documents = self._documents(numbers)
        versions = documents["version"].to_numpy()
        oldest = np.minimum(versions[left], versions[right])
        subscribers, at, row = self._seen(found["qid"].to_numpy(), oldest)
        seen = _distinct(subscribers, _Seen(at, left[row], right[row], row, np.ones_like(row)))
        nodes = found["nodes"].combine_chunks()
        starts = nodes.offsets.to_numpy()
        bounds = (starts[:-1][seen.row].tolist(), starts[1:][seen.row].tolist())
        nodes_of = partial(_slices, tuple(nodes.flatten().to_pylist()), *bounds)
        names = _names(documents)
        ids = MatchIds(subscribers, names)
        places = [one.tolist() for one in seen[:3]]
        ts = documents["ts"].to_numpy()
        both = np.stack((seen.left, seen.right), axis=1).ravel()
        offsets = pa.array(np.arange(len(seen.row) + 1) * 2, pa.int32())
        count = len(seen.row)
        columns = {
            "id": list(map(ids.of, *places, nodes_of())),
            "subscription": pa.array([one.name for one in subscribers], pa.string()).take(
                seen.subscriber
            ),
            "documents": pa.ListArray.from_arrays(
                offsets, documents["id"].combine_chunks().take(pa.array(both))
            ),
            "t0": pa.array(np.minimum(ts[seen.left], ts[seen.right])).cast(_TIME),
            "t1": pa.array(np.maximum(ts[seen.left], ts[seen.right])).cast(_TIME),
            **dict.fromkeys(("bindings", "xml", "_rejected"), [None] * count),
            # Documents are numbered in the order of arrival.
            "newcomer": pa.array(names).take(np.maximum(seen.left, seen.right)),
            "answers": seen.answers,
        }
        if self._with_content:
            content = _Contents(self._bucket, dict(enumerate(documents.to_pylist())), numbers)
            made = [
                content.of(subscribers[place], one, other, of_one)
                for place, one, other, of_one in zip(*places, nodes_of(), strict=True)
            ]
            columns["bindings"] = [values for values, _ in made]
            columns["xml"] = [xml for _, xml in made]
        return pa.table(columns, schema=FOUND)

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
        if not cuts:
            return FOUND.empty_table()
        rows = []
        names = _names(self._documents(np.array([number for _, number in cuts])))
        for (qid, _), name in zip(cuts, names, strict=True):
            for subscription in self._replica.subscribers.get(qid, ()):
                row = {"subscription": subscription.name, "newcomer": name}
                rows.append({**row, "answers": RESULTS + 1})
        return _found(rows)


def _slices(
    values: tuple[int, ...], first: Sequence[int], last: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    return (values[start:end] for start, end in zip(first, last, strict=True))


def _names(documents: pa.Table) -> list[str]:
    columns = (documents[name].to_pylist() for name in ("stream", "id"))
    return list(map(document_name, *columns))


def _distinct(subscribers: Sequence[Subscription], seen: _Seen) -> _Seen:
    """Return matches; one with all results of two documents for a subscriber of distinct ones."""
    is_distinct = np.array([one.distinct for one in subscribers], np.bool_)[seen.subscriber]
    if not is_distinct.any():
        return seen
    names = ("subscriber", "left", "right")
    columns = chosen(seen._asdict(), is_distinct)
    groups, answers = grouped_counts(columns, *names)
    return _Seen(**together([chosen(seen._asdict(), ~is_distinct), {**groups, "answers": answers}]))


class _Contents:
    """Makes the bindings and the output of matches of documents, given by their places."""

    def __init__(
        self, bucket: Bucket, documents: Mapping[int, Mapping[str, Any]], numbers: Column
    ) -> None:
        self._bucket = bucket
        self._texts = {place: row["xml"] for place, row in documents.items()}
        self._documents = {place: _stored(row, place) for place, row in documents.items()}
        self._numbers = numbers.tolist()
        self._trees = TreeCache()
        self._source = MatchSource(_compiled, self._tree)

    def of(
        self, subscription: Subscription, one: int, other: int, nodes: Sequence[int]
    ) -> tuple[list[tuple[str, Sequence[str]]], str]:
        """Return the bindings and the output of the match of a result with some nodes."""
        several: Sequence[Sequence[int]] = [nodes]
        if subscription.distinct:  # its values are those of all results, also in other buckets
            numbers = self._numbers[one], self._numbers[other]
            several = self._bucket.all_nodes(subscription.qid, *numbers)
        documents = {place: self._documents[place] for place in (one, other)}
        parts = {place: of_document(document) for place, document in documents.items()}
        composites = [joined(parts, one, other, nodes, subscription.split) for nodes in several]
        match = match_of(subscription, result_of(composites, documents), self._source)
        return list(values_of(match).items()), match.xml().decode()

    def _tree(self, place: int) -> DocumentTree:
        tree = self._trees.get(place)
        if tree is None:
            tree = self._trees.put(place, number_nodes(parse(self._texts[place])))
        return tree


def _found(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.table({name: [row.get(name) for row in rows] for name in FOUND.names}, schema=FOUND)


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
    return _found(rows)


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
