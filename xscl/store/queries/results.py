"""The results that are kept, in the order of their positions.

A result is of two documents or composites, by their numbers, or of one; then doc1 = doc2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.analysis import analysed
from xscl.store.queries.rows import RowNumbers, among
from xscl.store.queries.tables import RELATIONS
from xscl.store.store import Store

_SCHEMA = RELATIONS["result"].schema


class ResultRange(NamedTuple):
    """The results of the row of R_T `qid` with `after` < position <= `until`.

    They are of documents and composites whose numbers are at least `since`.
    """

    qid: int
    since: int
    after: int
    until: int


def results_between(
    store: Store,
    low: int,
    high: int,
    *,
    ranges: Sequence[ResultRange] = (),
    prefix: str = "",
    newest_first: bool = False,
    limit: int,
) -> pa.Table:
    """Return the first results with `low` <= position <= `high`, at most `limit`, in order.

    They are in one of the ranges, or else of subscriptions whose names begin with the prefix, or
    all.  With `newest_first` they are the last ones, in the opposite order.
    """
    qids = _qids_of(store, prefix) if prefix and not ranges else None
    parts, missing = [_SCHEMA.empty_table()], limit
    for batch in store.batches("result", low, high, newest_first=newest_first):
        found = batch
        if ranges:
            found = found.filter(pa.array(_in_ranges(found, ranges)))
        elif qids is not None:
            found = found.filter(pa.array(np.isin(found["qid"].to_numpy(), qids)))
        if newest_first:
            found = found.take(pa.array(np.arange(found.num_rows)[::-1][:missing]))
        parts.append(pa.Table.from_batches([found]).slice(0, missing))
        missing -= parts[-1].num_rows
        if missing <= 0:
            break
    return pa.concat_tables(parts)


def _qids_of(store: Store, prefix: str) -> npt.NDArray[np.int64]:
    """Return the `qid` of the subscriptions, and retired ones, whose names have a prefix."""
    of_name = "WHERE substr(name, 1, length(?1)) = ?1"
    rows = store.fetch(
        f"SELECT qid FROM state.subscription {of_name}"
        f" UNION SELECT qid FROM state.retired {of_name}",
        [prefix],
    )
    return np.array([qid for (qid,) in rows], np.int64)


def _in_ranges(batch: pa.RecordBatch, ranges: Sequence[ResultRange]) -> npt.NDArray[np.bool_]:
    """Return a mask of a batch: True for results that are in at least one range."""
    position, qid, doc1, doc2 = (
        batch[name].to_numpy() for name in ("position", "qid", "doc1", "doc2")
    )
    older = np.minimum(doc1, doc2)
    found = np.zeros(len(qid), np.bool_)
    here = np.isin(qid, np.array([one.qid for one in ranges]))
    if not here.any():
        return found
    met = set(qid[here].tolist())
    for one in ranges:
        if one.qid in met:
            found |= (
                (qid == one.qid)
                & (older >= one.since)
                & (position > one.after)
                & (position <= one.until)
            )
    return found


def results_of_pair(store: Store, qid: int, doc1: int, doc2: int, *, after: int) -> pa.Table:
    """Return the results of a `qid` and two documents after a position, in order."""
    found = store.scan("result", after + 1)
    same = (found["qid"].to_numpy() == qid) & (found["doc1"].to_numpy() == doc1)
    return found.filter(pa.array(same & (found["doc2"].to_numpy() == doc2)))


def has_result(store: Store, sought: ResultRange) -> bool:
    """Return True if a result is in a range."""
    batches = store.batches("result", sought.after + 1, sought.until)
    return any(_in_ranges(batch, [sought]).any() for batch in batches)


def last_positions(store: Store) -> dict[int, int]:
    """Return the position of the last result of each `qid`."""
    last: dict[int, int] = {}
    for batch in store.batches("result"):
        last.update(zip(batch["qid"].to_pylist(), batch["position"].to_pylist(), strict=True))
    return last


def delete_results_of(store: Store, qid: int) -> None:
    """Delete all results of a row of R_T."""
    store.drop("result", dead=lambda batch: pc.equal(batch["qid"], qid))


def results_of(store: Store, qid: int) -> pa.Table:
    """Return the results of a row of R_T, in the order of positions."""
    batches = store.batches("result")
    parts = [batch.filter(pc.equal(batch["qid"], qid)) for batch in batches]
    return pa.Table.from_batches(parts, _SCHEMA)


def documents_of_results(store: Store) -> RowNumbers:
    """Return the numbers of the documents and composites of results, repeated and unordered."""
    columns = [batch[name] for batch in store.batches("result") for name in ("doc1", "doc2")]
    return np.concatenate([np.zeros(0, np.int64), *(column.to_numpy() for column in columns)])


def first_result_of(store: Store, doc: int) -> int | None:
    """Return the position of the first result with a document from `doc` on, None without one."""
    for batch in store.batches("result"):
        newer = np.maximum(batch["doc1"].to_numpy(), batch["doc2"].to_numpy())
        if (newer >= doc).any():
            return int(batch["position"][int(np.argmax(newer >= doc))].as_py())
    return None


def delete_results(store: Store, last: int, *, but_of: Collection[int]) -> int | None:
    """Delete the results up to position `last`, except those whose `doc1` is in `but_of`.

    Returns the largest position up to `last` that had a result, None if none was deleted.
    """
    newest = next(store.batches("result", until=last, newest_first=True), None)
    held = pa.array(list(but_of), pa.int64())
    gone = store.drop(
        "result",
        last,
        (lambda batch: pc.invert(pc.is_in(batch["doc1"], held))) if but_of else None,
    )
    return int(pc.max(newest["position"]).as_py()) if gone and newest is not None else None


# -- Analysis ------------------------------------------------------------------------------

_BUSIEST = (
    "WITH busy AS (SELECT qid, count(*) AS matches FROM state.result"
    " WHERE greatest(doc1, doc2) >= (SELECT min(doc) FROM state.document WHERE arrived > ?)"
    " GROUP BY qid ORDER BY matches DESC LIMIT ?)"
    " SELECT min(name) AS name, count(*) - 1 AS others, any_value(matches) AS matches FROM busy"
    " JOIN state.subscription USING (qid) GROUP BY qid ORDER BY 3 DESC, 1"
)


def busiest_joins(store: Store, since: int, limit: int) -> Iterator[dict[str, Any]]:
    """Return the joins with the most results of documents that arrived after a time, in ticks.

    Each has the first `name` of its subscriptions, the number of `others`, and of `matches`.
    """
    return analysed(store, _BUSIEST, [since, limit])


# -- Cuts --------------------------------------------------------------------------------


def delete_cuts(store: Store, qids: Collection[int], *, before: int | None = None) -> None:
    """Delete from `cut` the documents of rows of R_T, those before a number or all."""
    listed, parameters = among(qids)
    bound, last = ("", []) if before is None else (" AND doc < ?", [before])
    store.fetch(f"DELETE FROM state.cut WHERE qid IN ({listed}){bound}", [*parameters, *last])
