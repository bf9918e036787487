"""Statements in SQL that users have saved under names."""

from __future__ import annotations

from xscl.client.bodies import time_of
from xscl.client.service_answers import SavedStatement
from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account, QuotaExceeded
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

MOST = 100
"""Saved statements of one user."""
LONGEST_NAME = 100
"""Characters of the name of a statement."""


def save_statement(store: Store, account: Account, name: str, query: str) -> None:
    """Save a statement, in place of one of the same name; raises WrongLabel, QuotaExceeded."""
    refuse_label(name)
    with store.transaction():
        delete_statement(store, account, name)
        if len(saved_statements(store, account)) >= MOST:
            raise QuotaExceeded(f"you have {MOST} saved statements, and may have no more")
        row = {"account": account.number, "name": name, "statement": query, "saved": ticks()}
        store.insert_rows("saved_statement", [row])


def delete_statement(store: Store, account: Account, name: str) -> None:
    """Delete a statement, if there is one of the name."""
    delete_rows(store, "saved_statement", account=account.number, name=name)


def saved_statements(store: Store, account: Account) -> list[SavedStatement]:
    """Return the saved statements of a user in the order of their names."""
    rows = rows_of(store, "saved_statement", order="name", account=account.number)
    return [
        SavedStatement(name=row["name"], query=row["statement"], saved=time_of(row["saved"]))
        for row in rows
    ]
