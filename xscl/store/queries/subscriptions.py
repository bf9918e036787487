"""Subscriptions, and the retired versions of which matches are kept.

The two tables have equal columns; `outputs`, `places`, `reads`, `columns` and `live` are lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xscl.store.store import Store

_CURRENT, _RETIRED = "state.subscription", "state.retired"
_COLUMNS = (
    "number, name, query, template, qid, outputs, places, since, is_distinct, updates, publish,"
    " reads, ordered, language, columns, events, key, version, after, until, bound_to, backfilled,"
    " live"
)
_NAMED = ("endpoint", "secret_address", "star", "subscription_tag")
"""The tables with names of subscriptions."""


# -- Rows ----------------------------------------------------------------------------------


def subscriptions(store: Store) -> Iterator[dict[str, Any]]:
    """Return all subscriptions in the order of their numbers."""
    return _all(store, _CURRENT, "number")


def retired_versions(store: Store) -> Iterator[dict[str, Any]]:
    """Return all retired versions in the order of their ends."""
    return _all(store, _RETIRED, "version, until")


def _all(store: Store, table: str, order: str) -> Iterator[dict[str, Any]]:
    return store.rows(f"SELECT {_COLUMNS} FROM {table} ORDER BY {order}")


def insert_subscriptions(
    store: Store, rows: Iterable[Mapping[str, object]], *, retired: bool = False
) -> None:
    """Insert subscriptions, or retired versions: rows of all columns."""
    store.insert_rows(_RETIRED if retired else _CURRENT, rows)


def delete_subscription(store: Store, number: int) -> None:
    """Delete a subscription."""
    store.fetch("DELETE FROM state.subscription WHERE number = ?", [number])


def delete_retired(store: Store, key: str, version: int, after: int) -> None:
    """Delete a version with the results after a position."""
    store.fetch(
        "DELETE FROM state.retired WHERE key = ? AND version = ? AND after = ?",
        [key, version, after],
    )


# -- Names ---------------------------------------------------------------------------------


def rename_retired(store: Store, name: str, new: str) -> None:
    """Give the retired versions of a name another one, and all that refers to them by it."""
    store.fetch("UPDATE state.retired SET name = ? WHERE name = ?", [new, name])
    for table in _NAMED:
        store.fetch(
            f"UPDATE state.{table} SET subscription = ? WHERE subscription = ?", [new, name]
        )


def delete_endpoints_and_tags(store: Store, name: str) -> None:
    """Delete what refers to a subscription by its name, except the stars of its matches."""
    store.fetch(
        "DELETE FROM state.dead_letter WHERE endpoint IN"
        " (SELECT id FROM state.endpoint WHERE subscription = ?)",
        [name],
    )
    for table in _NAMED:
        if table != "star":
            store.fetch(f"DELETE FROM state.{table} WHERE subscription = ?", [name])
