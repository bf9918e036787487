"""The feeds that are polled; their table is there once feeds have been."""

from __future__ import annotations

from xscl.store.store import Store


def has_feeds_on(store: Store, stream: str) -> bool:
    """Return True if a stream belongs to a feed or to a tag of feeds."""
    query = "SELECT 1 FROM state.feed WHERE stream = ? OR list_contains(tags, ?) LIMIT 1"
    return store.has("feed") and bool(store.fetch(query, [stream, stream]))
