"""Endpoints of deliveries, and the letters that they refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from xscl.store.queries.lists import LISTED
from xscl.store.store import Store


def endpoints(store: Store) -> Iterator[dict[str, Any]]:
    """Return all endpoints in the order of their creation."""
    return store.rows(
        "SELECT id, subscription, kind, config, created, position, state, failures, next_try, note"
        " FROM state.endpoint ORDER BY created, id"
    )


def letters(store: Store) -> Iterator[dict[str, Any]]:
    """Return all letters in the order of their positions."""
    return store.rows(
        "SELECT endpoint, message, position, last, died, attempts, reason, next_try"
        " FROM state.dead_letter ORDER BY position"
    )


def insert_endpoints(
    store: Store,
    endpoints: Iterable[Mapping[str, object]],
    letters: Iterable[Mapping[str, object]] = (),
) -> None:
    """Insert endpoints and letters: rows as the functions of these names return them."""
    store.insert_rows("state.endpoint", endpoints)
    store.insert_rows("state.dead_letter", letters)


def delete_endpoints(store: Store, ids: Sequence[str]) -> None:
    """Delete endpoints with their letters."""
    for table, column in (("endpoint", "id"), ("dead_letter", "endpoint")):
        store.fetch(f"DELETE FROM state.{table} WHERE {column} IN {LISTED}", [list(ids)])


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
