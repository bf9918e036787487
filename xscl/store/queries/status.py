"""The figures of the status and of metrics that are counts over whole tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.queries.kept_matches import count_kept
from xscl.store.queries.relations import PUBLISHED
from xscl.store.queries.tables import EARLIEST
from xscl.store.store import Store

_COUNTS = f"""
SELECT
    (SELECT count(*) FROM state.subscription) AS subscriptions,
    (SELECT count(*) FROM state.template) AS templates,
    (SELECT count(DISTINCT qid) FROM state.subscription) AS joins,
    (SELECT max(clock) FROM state.progress WHERE clock > {EARLIEST}) AS clock,
    (SELECT count(*) FROM state.rejected) AS rejected,
    (SELECT count(*) FROM state.feed) AS feeds,
    (SELECT count(*) FROM state.feed WHERE error IS NOT NULL) AS feeds_failing,
    (SELECT count(*) FROM state.endpoint WHERE state = 'incomplete')
        + (SELECT count(*) FROM state.feed WHERE code = 'feed_secret') AS without_secrets
"""

# Late are the documents that arrived behind the watermark of one of their streams.  Items that a
# feed held at its first poll do not count: their age says nothing of how late a stream is.
_OF_ALL = f"""
SELECT
    (SELECT count(*) FROM (
        SELECT name FROM state.stream
        UNION SELECT value FROM state.subscription, json_each(reads)
        UNION SELECT publish FROM state.subscription WHERE publish IS NOT NULL
        UNION SELECT value
        FROM (SELECT DISTINCT streams FROM state.document), json_each(streams))) AS streams,
    (SELECT count(*) FROM state.document
        WHERE clock > ts AND NOT history AND NOT {PUBLISHED} AND EXISTS (
            SELECT value FROM json_each(streams) LEFT JOIN state.stream ON name = value
            WHERE clock - ts > coalesce(lateness, 0))) AS late
"""

_CAME = f"""
SELECT
    count(*) FILTER (WHERE NOT {PUBLISHED}) AS documents,
    count(*) FILTER (WHERE history AND NOT {PUBLISHED}) AS history,
    count(*) FILTER (WHERE {PUBLISHED}) AS published
FROM state.document WHERE doc >= ?
"""


def without_secrets(store: Store) -> tuple[list[str], list[str]]:
    """Return the names of subscriptions with endpoints, and of feeds, that wait for a secret."""
    endpoints = store.fetch(
        "SELECT DISTINCT subscription FROM state.endpoint WHERE state = 'incomplete' ORDER BY 1"
    )
    feeds = store.fetch("SELECT key FROM state.feed WHERE code = 'feed_secret' ORDER BY 1")
    return [name for (name,) in endpoints], [key for (key,) in feeds]


def status_counts(store: Store) -> dict[str, Any]:
    """Return the counts that take longest, by the names of their figures.

    The figures are those of `xscl.service.figures`.
    """
    (found,) = store.rows(_OF_ALL)
    return found


def small_counts(store: Store) -> dict[str, Any]:
    """Return the counts over small tables, by the names of their figures."""
    (found,) = store.rows(_COUNTS)
    return found


def counts_since(store: Store, next_doc: int, position: int) -> dict[str, int]:
    """Return the counts of what came since: documents from number `next_doc` on, and matches.

    Keys are names of figures; `matches` counts those after `position`.
    """
    (found,) = store.rows(_CAME, [next_doc])
    newest = store.progress("position")
    # Most commits of a service are polls: analysing the results costs 5 ms.
    matches = count_kept(store, position, newest) if newest > position else {}
    return found | {"matches": sum(matches.values())}


# -- Metrics -----------------------------------------------------------------------------


_BY_LABEL = {
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
    """Return the counts of each metric by its name, each as numbers by label."""
    return {
        name: {row["label"]: row["figure"] for row in store.rows(query)}
        for name, query in _BY_LABEL.items()
    }


# -- Figures -------------------------------------------------------------------------------


def failing_endpoints(store: Store, limit: int) -> Iterator[dict[str, Any]]:
    """Return the endpoints that fail, are stopped or have dead letters, the worst first.

    Columns are subscription, kind, state, failures, note, next_try and the number of `letters`.
    """
    return store.rows(
        "WITH refused AS (SELECT endpoint AS id, count(*) AS letters"
        " FROM state.dead_letter GROUP BY endpoint)"
        " SELECT subscription, kind, state, failures, note, next_try,"
        " coalesce(letters, 0) AS letters"
        " FROM state.endpoint LEFT JOIN refused USING (id)"
        " WHERE failures > 0 OR state IN ('disabled', 'incomplete') OR letters > 0"
        " ORDER BY state IN ('disabled', 'incomplete') DESC, failures DESC, letters DESC LIMIT ?",
        [limit],
    )


def delivery_counts(store: Store) -> dict[str, int]:
    """Return the numbers of endpoints, `failing` and `disabled` ones, and dead `letters`."""
    (found,) = store.rows(
        "SELECT count(*) AS endpoints,"
        " count(*) FILTER (WHERE state = 'incomplete' OR failures > 0 AND state <> 'disabled')"
        " AS failing,"
        " count(*) FILTER (WHERE state = 'disabled') AS disabled,"
        " (SELECT count(*) FROM state.dead_letter) AS letters FROM state.endpoint"
    )
    return found
