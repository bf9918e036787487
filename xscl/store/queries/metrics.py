"""The figures of the metrics that are counts of rows by one column."""

from __future__ import annotations

from xscl.store.store import Store

_COUNTS = {
    "feeds": "SELECT CASE WHEN gone THEN 'gone' WHEN error IS NOT NULL THEN 'failing'"
    " WHEN polls = 0 THEN 'new' ELSE 'ok' END AS label, count(*) AS figure"
    " FROM state.feed GROUP BY label",
    "feeds_failing": "SELECT code AS label, count(*) AS figure FROM state.feed"
    " WHERE error IS NOT NULL GROUP BY label",
    "endpoints": "SELECT coalesce(state, 'unknown') AS label, count(*) AS figure"
    " FROM state.endpoint GROUP BY label",
    "dead_letters": "SELECT 'dead' AS label, count(*) AS figure FROM state.dead_letter",
    "rejections": "SELECT reason AS label, count(*) AS figure FROM state.rejected GROUP BY label",
    "cuts": "SELECT 'cut' AS label, count(*) AS figure FROM state.cut",
}


def metric_counts(store: Store) -> dict[str, dict[str, int]]:
    """Return the figures of metrics by their names, and of each by its label."""
    return {
        name: {row["label"]: row["figure"] for row in store.rows(query)}
        for name, query in _COUNTS.items()
    }
