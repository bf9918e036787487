"""Late documents, and the subscriptions that may have missed them.

The rule is that of `xscl.subscriptions.lateness`; `reading` is the table of its bounds, which is
lent for a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from xscl.store.queries.analysis import analysed
from xscl.store.store import Store

ARRIVAL = """
    SELECT doc, id, ts, clock - ts AS behind, first, version, history,
        unnest(streams) AS stream
    FROM state.document"""
"""The query of documents by their streams."""

MISSED = """
    SELECT a.doc, a.ts + a.behind - r.bound AS watermark, r.subscription
    FROM arrival a JOIN reading r ON r.stream = a.stream AND a.behind > r.bound
    WHERE a.first >= r.since AND (r.updates OR a.version = 1)
    UNION ALL
    SELECT l.doc, l.watermark, r.subscription
    FROM state.late l JOIN arrival a USING (doc)
    JOIN reading r ON r.stream = a.stream AND r.lateness = l.lateness
    WHERE a.first >= r.since AND (r.updates OR a.version = 1)"""
"""Documents that a subscription may have missed."""

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
    """Return the documents that some subscriptions may have missed, by the readings.

    The last one to arrive comes first.  `store` is a connection of the caller's own.
    """
    return list(analysed(store, _LATEST, [limit], {"reading": readings}))


def count_late(store: Store, readings: pa.Table, docs: Sequence[int]) -> int:
    """Return the number of documents that some subscription may have missed, by the readings."""
    if not docs:
        return 0
    asked = pa.table({"doc": pa.array(docs, pa.int64())})
    (row,) = analysed(store, _COUNT, lent={"reading": readings, "asked": asked})
    return int(row["late"])
