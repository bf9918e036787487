"""The table of named numbers that rarely change (`Store.meta`, `Store.set_meta`)."""

from __future__ import annotations

from xscl.store.store import Store


def named_numbers(store: Store) -> dict[str, int]:
    """Return all named numbers."""
    return dict(store.fetch("SELECT key, value FROM state.meta"))
