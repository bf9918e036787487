"""The last polls of feeds, by the keys of these; times are ticks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from xscl.store.store import Store


def polls_of(store: Store, key: str, most: int) -> Iterator[dict[str, Any]]:
    """Return the last polls of a feed, the newest first."""
    return store.rows(
        "SELECT polled, outcome, seconds, items, note FROM state.feed_poll WHERE key = ?"
        " ORDER BY polled DESC, rowid DESC LIMIT ?",
        [key, most],
    )


def trim_polls(store: Store, keys: Collection[str], most: int) -> None:
    """Delete the polls of feeds beyond the newest ones."""
    beyond = "SELECT rowid FROM state.feed_poll WHERE key = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
    for key in keys:
        store.fetch(
            f"DELETE FROM state.feed_poll WHERE key = ? AND rowid <= ({beyond})",
            [key, key, most],
        )
