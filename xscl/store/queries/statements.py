"""Statements in SQL that users have saved under names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.store import Store


def statements(store: Store, account: int) -> Iterator[dict[str, Any]]:
    """Return name, query and time (ticks) of an account's statements in the order of names."""
    return store.rows(
        "SELECT name, statement AS query, saved FROM state.saved_statement"
        " WHERE account = ? ORDER BY name",
        [account],
    )


def insert_statement(store: Store, *, account: int, name: str, query: str, saved: int) -> None:
    """Insert a statement; `saved` is in ticks."""
    store.fetch(
        "INSERT INTO state.saved_statement (account, name, statement, saved) VALUES (?, ?, ?, ?)",
        [account, name, query, saved],
    )


def delete_statement(store: Store, account: int, name: str) -> None:
    """Delete a statement, if there is one of the name."""
    store.fetch("DELETE FROM state.saved_statement WHERE account = ? AND name = ?", [account, name])
