"""Leases of feeds at their WebSub hubs, by the keys of the feeds; times are ticks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from xscl.store.queries.rows import rows_of, update_rows
from xscl.store.store import Store


def leases(store: Store, keys: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """Return the leases of some feeds, or all."""
    if keys is None:
        return rows_of(store, "feed_lease")
    return rows_of(store, "feed_lease", key=keys)


def count_leases(store: Store) -> int:
    """Return the number of feeds whose hubs send what is new."""
    (row,) = store.rows("SELECT count(*) AS leases FROM state.feed_lease WHERE until IS NOT NULL")
    return int(row["leases"])


def wanted_leases(store: Store, now: int, most: int) -> list[tuple[str, str, str]]:
    """Return key, hub and topic of feeds whose hubs are to be asked, those never asked last."""
    rows = store.rows(
        "SELECT key, f.hub, f.topic FROM state.feed f LEFT JOIN state.feed_lease l USING (key)"
        " WHERE f.hub IS NOT NULL AND NOT f.gone AND f.error IS NULL"
        " AND (l.due IS NULL OR l.due <= ? OR (l.hub, l.topic) <> (f.hub, f.topic))"
        " ORDER BY l.due NULLS LAST, key LIMIT ?",
        [now, most],
    )
    return [(row["key"], row["hub"], row["topic"]) for row in rows]


def ended_leases(store: Store, now: int) -> list[str]:
    """Return the keys of leases that are over."""
    rows = store.rows("SELECT key FROM state.feed_lease WHERE until <= ?", [now])
    return [row["key"] for row in rows]


def leases_without_hub(store: Store) -> list[str]:
    """Return the keys of leases whose feeds are gone or name no hub."""
    rows = store.rows(
        "SELECT key FROM state.feed_lease WHERE key NOT IN"
        " (SELECT key FROM state.feed WHERE hub IS NOT NULL AND NOT gone)"
    )
    return [row["key"] for row in rows]


def note_problem(store: Store, key: str, note: str, *, asked: int) -> None:
    """Record why a hub that was asked at a time has not confirmed."""
    store.fetch(
        "UPDATE state.feed_lease SET note = ? WHERE key = ? AND asked = ?"
        " AND coalesce(confirmed, 0) < asked",
        [note, key, asked],
    )


def confirm_lease(
    store: Store, key: str, callback: str, *, confirmed: int, until: int, due: int
) -> None:
    """Begin a lease or prolong it."""
    begun = {"confirmed": confirmed, "until": until, "due": due}
    changed = {**begun, "failures": 0, "denied": False, "note": None}
    update_rows(store, "feed_lease", changed, key=key, callback=callback)


def deny_lease(store: Store, key: str, callback: str, *, due: int, note: str) -> None:
    """End a lease that the hub refuses."""
    changed = {"until": None, "denied": True, "due": due, "note": note}
    update_rows(store, "feed_lease", changed, key=key, callback=callback)


def end_leases(store: Store, keys: Collection[str], note: str) -> None:
    """End leases that are over."""
    update_rows(store, "feed_lease", {"until": None, "note": note}, key=keys)


def count_delivery(store: Store, key: str, now: int) -> None:
    """Count a delivery of a hub."""
    store.fetch(
        "UPDATE state.feed_lease SET deliveries = deliveries + 1, delivered = ? WHERE key = ?",
        [now, key],
    )
