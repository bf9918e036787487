"""Statements in SQL that users have saved under names."""

from __future__ import annotations

from dataclasses import dataclass

from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account, QuotaExceeded
from xscl.store.store import Store

MOST = 100
"""Saved statements of one user."""
LONGEST_NAME = 100
"""Characters of the name of a statement."""


@dataclass(frozen=True, slots=True)
class SavedStatement:
    """A statement under its name, with the time at which it was saved, in ticks."""

    name: str
    query: str
    saved: int


def save_statement(store: Store, who: Account, name: str, query: str) -> None:
    """Save a statement, in place of one of the same name; raises WrongLabel, QuotaExceeded."""
    refuse_label(name)
    with store.transaction():
        remove_statement(store, who, name)
        (count,) = store.fetch(
            "SELECT count(*) FROM state.saved_statement WHERE account = ?", [who.number]
        )[0]
        if count >= MOST:
            raise QuotaExceeded(f"you have {MOST} saved statements, and may have no more")
        row = [who.number, name, query, ticks()]
        store.fetch(
            "INSERT INTO state.saved_statement (account, name, statement, saved)"
            " VALUES (?, ?, ?, ?)",
            row,
        )


def remove_statement(store: Store, who: Account, name: str) -> None:
    """Remove a saved statement, if there is one of the name."""
    store.fetch(
        "DELETE FROM state.saved_statement WHERE account = ? AND name = ?", [who.number, name]
    )


def saved_statements(store: Store, who: Account) -> list[SavedStatement]:
    """Return the saved statements of a user in the order of their names."""
    rows = store.rows(
        "SELECT name, statement AS query, saved FROM state.saved_statement"
        " WHERE account = ? ORDER BY name",
        [who.number],
    )
    return [SavedStatement(**row) for row in rows]
