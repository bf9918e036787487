"""The last polls of feeds, by the keys of these; times are ticks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store

_SLACK, _FEW = 1.1, 1_000  # rows beyond these, as a factor and as a number, are deleted
_NEWEST = "polled DESC, rowid DESC"


def polls_of(store: Store, key: str, most: int) -> Iterator[dict[str, Any]]:
    """Return the last polls of a feed, the newest first."""
    return store.rows(
        "SELECT polled, outcome, seconds, items, note FROM state.feed_poll WHERE key = ?"
        f" ORDER BY {_NEWEST} LIMIT ?",
        [key, most],
    )


def insert_polls(store: Store, rows: Iterable[Mapping[str, object]]) -> None:
    """Insert polls: key, polled, outcome, seconds, items, note."""
    store.insert_rows("state.feed_poll", rows)


def trim_polls(store: Store, keys: Collection[str], most: int) -> None:
    """Delete the polls of feeds beyond the newest ones, now or some polls later."""
    if isinstance(store, SqliteStore):
        beyond = (
            "SELECT rowid FROM state.feed_poll WHERE key = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        )
        for key in keys:
            store.fetch(
                f"DELETE FROM state.feed_poll WHERE key = ? AND rowid <= ({beyond})",
                [key, key, most],
            )
        return
    ((polls, feeds),) = store.fetch(
        "SELECT (SELECT count(*) FROM state.feed_poll), (SELECT count(*) FROM state.feed)"
    )
    if polls <= most * feeds * _SLACK + _FEW:
        return
    # By time and not by row number (decision 030): polls of one feed have different times.
    store.fetch(
        "DELETE FROM state.feed_poll WHERE (key, polled) NOT IN (SELECT key, polled FROM"
        f" (SELECT key, polled, row_number() OVER (PARTITION BY key ORDER BY {_NEWEST}) AS place"
        " FROM state.feed_poll) AS ranked WHERE place <= ?)",
        [most],
    )


def delete_polls(store: Store, key: str) -> None:
    """Delete the polls of a feed."""
    store.fetch("DELETE FROM state.feed_poll WHERE key = ?", [key])
