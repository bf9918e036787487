"""The matches that are kept, in SQL: those to which `Matches` expands the results.

All counters and relations of matches are derived from these rows, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.analysis import DAY, analysed, days_ago
from xscl.store.store import Store

_SEEN_BY = "name, number, qid, since, updates, is_distinct, after, until"

KEPT_MATCHES = f"""
    WITH kept_part AS (
        SELECT doc, [doc] AS docs, ts, first, version FROM state.document
        UNION ALL SELECT doc, docs, ts, first, version FROM state.composite),
    seen AS (
        SELECT r.position, s.name, s.number, s.after, s.is_distinct, r.doc1, r.doc2,
            p1.docs AS docs1, p2.docs AS docs2, greatest(p1.ts, p2.ts) AS ts
        FROM state.result r
        JOIN (SELECT {_SEEN_BY} FROM state.subscription
            UNION ALL SELECT {_SEEN_BY} FROM state.retired) s
        ON s.qid = r.qid AND r.position > s.after AND r.position <= coalesce(s.until, r.position)
        JOIN kept_part p1 ON p1.doc = r.doc1 JOIN kept_part p2 ON p2.doc = r.doc2
        WHERE s.since <= least(p1.first, p2.first)
            AND (s.updates OR (p1.version = 1 AND p2.version = 1)))
    SELECT position, name, number, ts, doc1, doc2 FROM seen WHERE NOT is_distinct
    UNION ALL
    SELECT min(position), any_value(name), number, ts, arg_min(doc1, position),
        arg_min(doc2, position)
    FROM seen WHERE is_distinct GROUP BY number, after, docs1, docs2, ts
"""
"""One row for each match: its position, the name and number of its subscription, its time, and the
documents or composites of its result; of a DISTINCT subscription those of the first one."""

_AMONG = f"""
    WITH part AS (
        SELECT doc, [doc] AS docs FROM state.document WHERE list_contains(?, doc)
        UNION ALL SELECT doc, docs FROM state.composite),
    found AS (
        SELECT list_transform(
            CASE WHEN m.doc1 = m.doc2 THEN p1.docs ELSE list_concat(p1.docs, p2.docs) END,
            lambda doc: greatest(doc, 0)) AS docs
        FROM ({KEPT_MATCHES}) m JOIN part p1 ON p1.doc = m.doc1 JOIN part p2 ON p2.doc = m.doc2
        WHERE m.number = ? AND m.position > ?
            AND m.position <= coalesce(?, m.position))
    SELECT docs FROM found WHERE ? IN (docs, list_filter(docs, lambda doc: doc <> 0)) LIMIT 1
"""
_COUNT = (
    f"SELECT name, count(*) AS matches FROM ({KEPT_MATCHES})"
    " WHERE position > ? AND position <= ? GROUP BY name"
)
_COUNTS = (
    "SELECT s.number, count(*) AS matches, count(*) FILTER (WHERE ts > ?) AS lately,"
    f" max(ts) AS last, {days_ago('ts')} AS days_ago FROM ({KEPT_MATCHES}) m"
    " JOIN (SELECT number, name FROM state.subscription WHERE list_contains(?, number)) s"
    " USING (name) GROUP BY s.number"
)


def match_among(
    store: Store, docs: Sequence[int], *, number: int, after: int, until: int | None
) -> tuple[int, ...] | None:
    """Return a match's documents by component, 0 for a component without one; None without a match.

    Its documents are exactly `docs`, in any components unless 0 stands for those without one.  It
    is one of the subscription `number`, with `after` < position <= `until` (None: no bound).
    """
    with store.reading():
        if not _may_have_result(store, [doc for doc in docs if doc]):
            return None
        rows = analysed(store, _AMONG, [list(docs), number, after, until, list(docs)])
    return next((tuple(row["docs"]) for row in rows), None)


def _may_have_result(store: Store, docs: Sequence[int]) -> bool:
    """Return False if no result is of these documents alone; this saves an analysis of 17 ms.

    Instants, which have numbers below 0, do not count.
    """
    composites = store.mirror("composite")
    lists = composites["docs"].combine_chunks()
    is_known = pc.is_in(lists.flatten(), value_set=pa.array(docs))
    is_other = pc.and_not(pc.greater(lists.flatten(), 0), is_known)
    has_other = np.zeros(composites.num_rows, bool)
    has_other[lists.value_parent_indices().filter(is_other)] = True
    composed = composites.filter(~has_other)
    parts = {0: [0], **{doc: [doc] for doc in docs}}
    parts |= zip(composed["doc"].to_pylist(), composed["docs"].to_pylist(), strict=True)
    results = store.mirror("result").select(("doc1", "doc2"))
    own = pa.array([*parts], pa.int64())
    rows = results.filter(pc.and_(*(pc.is_in(side, value_set=own) for side in results.columns)))
    pairs = zip(*(side.to_pylist() for side in rows.columns), strict=True)
    sides = {(one,) if one == other else (one, other) for one, other in pairs}
    found = ([doc for side in each for doc in parts[side] if doc > 0] for each in sides)
    return list(docs) in found


def count_kept(store: Store, after: int, up_to: int) -> dict[str, int]:
    """Return by subscription the number of kept matches with `after` < position <= `up_to`."""
    rows = analysed(store, _COUNT, [after, up_to])
    return {row["name"]: row["matches"] for row in rows}


def match_counts(
    store: Store, numbers: Sequence[int], *, now: int, days: int
) -> Iterator[dict[str, Any]]:
    """Return a row with the counts of kept matches of each subscription that has some.

    Columns: `number`; `matches`, all of them; `lately`, those of the last day; `days_ago`, a
    mapping of days ago to counts, for `days` days; `last`, the time of the last match in ticks.
    """
    return analysed(store, _COUNTS, [now - DAY, now, now - days * DAY, list(numbers)])
