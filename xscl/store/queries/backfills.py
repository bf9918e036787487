"""The backfills that are not complete, by the numbers of their subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xscl.store.store import Store


def backfills(store: Store) -> Iterator[dict[str, Any]]:
    """Return all backfills."""
    return store.rows(
        "SELECT subscription, key, doc, clock, most, acknowledged FROM state.backfill"
    )


def insert_backfill(store: Store, row: Mapping[str, object]) -> None:
    """Insert a backfill: a row as `backfills` returns it."""
    store.insert_rows("state.backfill", [row])


def acknowledge_backfill(store: Store, subscription: int) -> None:
    """Record that the registration of a subscription was acknowledged."""
    store.fetch(
        "UPDATE state.backfill SET acknowledged = true WHERE subscription = ?", [subscription]
    )


def delete_backfill(store: Store, subscription: int) -> None:
    """Delete the backfill of a subscription."""
    store.fetch("DELETE FROM state.backfill WHERE subscription = ?", [subscription])
