"""The last polls of feeds, by the keys of these; times are ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xscl.store.store import Store

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


def count_polls(store: Store) -> tuple[int, int]:
    """Return the numbers of kept polls and of feeds."""
    ((polls, feeds),) = store.fetch(
        "SELECT (SELECT count(*) FROM state.feed_poll), (SELECT count(*) FROM state.feed)"
    )
    return polls, feeds


def trim_polls(store: Store, most: int) -> None:
    """Delete the polls of each feed beyond the newest ones.

    By time and not by row number (decision 030): polls of one feed have different times.
    """
    store.fetch(
        "DELETE FROM state.feed_poll WHERE (key, polled) NOT IN (SELECT key, polled FROM"
        f" (SELECT key, polled, row_number() OVER (PARTITION BY key ORDER BY {_NEWEST}) AS place"
        " FROM state.feed_poll) AS ranked WHERE place <= ?)",
        [most],
    )


def delete_polls(store: Store, key: str) -> None:
    """Delete the polls of a feed."""
    store.fetch("DELETE FROM state.feed_poll WHERE key = ?", [key])
