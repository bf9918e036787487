"""Documents that came late, with the subscriptions that may have missed them, or were rejected.

The rule is that of `xscl.subscriptions.lateness`; its bounds are the table `reading`, in memory,
which is an argument of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from xscl.store.queries.analysis import analysed
from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import delete_but_newest
from xscl.store.store import Store

ARRIVAL = """
    SELECT doc, id, ts, clock - ts AS behind, first, version, history,
        unnest(streams) AS stream
    FROM state.document"""
"""The query of documents, with a row for each of their streams."""

MISSED = """
    SELECT a.doc, a.ts + a.behind - r.bound AS watermark, r.subscription
    FROM arrival a JOIN reading r ON r.stream = a.stream AND a.behind > r.bound
    WHERE a.first >= r.since AND (r.updates OR a.version = 1)
    UNION ALL
    SELECT l.doc, l.watermark, r.subscription
    FROM state.late l JOIN arrival a USING (doc)
    JOIN reading r ON r.stream = a.stream AND r.lateness = l.lateness
    WHERE a.first >= r.since AND (r.updates OR a.version = 1)"""
"""The query of documents, each with a subscription that may have missed it."""

LATE = """
    SELECT d.id AS docid, d.given AS id, d.streams, d.ts AS timestamp, m.watermark,
        m.watermark - d.ts AS behind, m.missed
    FROM state.document d JOIN (
        SELECT doc, max(watermark) AS watermark, list_sort(list(DISTINCT subscription)) AS missed
        FROM missed GROUP BY doc) m USING (doc)"""
"""The query of late documents: over `missed`."""

_LATEST = f"WITH arrival AS ({ARRIVAL}), missed AS ({MISSED}){LATE} ORDER BY d.doc DESC LIMIT ?"
_COUNT = (
    f"WITH arrival AS ({ARRIVAL}), missed AS ({MISSED})"
    " SELECT count(DISTINCT doc) AS late FROM missed WHERE doc IN (SELECT doc FROM asked)"
)


def latest_missed(store: Store, readings: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Return the documents that subscriptions may have missed; `readings` is the table `reading`.

    The last one to arrive comes first.  `store` is a connection of the caller's own.
    """
    return list(analysed(store, _LATEST, [limit], {"reading": readings}))


def count_late(store: Store, readings: pa.Table, docs: Sequence[int]) -> int:
    """Return the number of `docs` that subscriptions may have missed, by `readings`."""
    if not docs:
        return 0
    asked = pa.table({"doc": pa.array(docs, pa.int64())})
    (row,) = analysed(store, _COUNT, lent={"reading": readings, "asked": asked})
    return int(row["late"])


# -- Rejected ------------------------------------------------------------------------------


def rejected_of(
    store: Store, owner: int, *, before: int | None = None, limit: int
) -> Iterator[dict[str, Any]]:
    """Return the newest rejected documents of an owner's streams, each with its number.

    They are those before a number, or the last ones.
    """
    return store.rows(
        'SELECT rowid AS number, stream, id, reason, line, "column", message, sha256, beginning,'
        f" clock FROM state.rejected WHERE {own_condition('stream', owner)}"
        " AND rowid < coalesce(?, rowid + 1) ORDER BY rowid DESC LIMIT ?",
        [before, limit],
    )


def known_rejected(
    store: Store, ids: Sequence[str], digests: Sequence[str]
) -> set[tuple[str | None, str, str]]:
    """Return (stream, id, digest) of rejected documents; with id and digest at one index."""
    listed = list(zip(ids, digests, strict=True))
    return set(
        store.fetch(
            "SELECT stream, id, sha256 FROM state.rejected WHERE (id, sha256) IN"
            " (SELECT value ->> 0, value ->> 1 FROM json_each(?))",
            [listed],
        )
    )


def keep_newest(store: Store, rows: int, *, tolerated: int) -> None:
    """Keep the `rows` newest of `late`, and of `rejected`, if it has more than `tolerated`."""
    for table in ("late", "rejected"):
        ((there,),) = store.fetch(f"SELECT count(*) FROM state.{table}")
        if there > tolerated:
            delete_but_newest(store, table, rows)
