"""Endpoints of deliveries, and the letters that they refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.store import Store

# -- Figures -------------------------------------------------------------------------------


def failing_endpoints(store: Store, limit: int) -> Iterator[dict[str, Any]]:
    """Return the endpoints that fail or have refused letters, the worst first.

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
    """Return the numbers of endpoints, of `failing` and of `disabled` ones, and of letters."""
    (found,) = store.rows(
        "SELECT count(*) AS endpoints,"
        " count(*) FILTER (WHERE state = 'incomplete' OR failures > 0 AND state <> 'disabled')"
        " AS failing,"
        " count(*) FILTER (WHERE state = 'disabled') AS disabled,"
        " (SELECT count(*) FROM state.dead_letter) AS letters FROM state.endpoint"
    )
    return found
