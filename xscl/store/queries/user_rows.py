"""The rows of one user, in all tables that have some, and starred matches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.queries.lists import any_of
from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import delete_rows
from xscl.store.store import Store

_BY_NUMBER = {
    "account": "number",
    "owned_stream": "account",
    "token": "account",
    "star": "account",
    "saved_statement": "account",
}
"""The tables with the number of their user, with the column of this."""
_BY_NAME = {"secret_address": "subscription"}
"""The tables with names of the user's objects, with their column.

Others have rows of subscriptions and feeds, which leave with these.
"""


def delete_rows_of(store: Store, account: int) -> None:
    """Delete the rows of a user whose subscriptions and feeds are removed already."""
    for table, column in _BY_NUMBER.items():
        delete_rows(store, table, **{column: account})
    for table, column in _BY_NAME.items():
        store.fetch(f"DELETE FROM state.{table} WHERE {own_condition(column, account)}")


def documents_of(store: Store, account: int) -> Iterator[dict[str, Any]]:
    """Yield the kept documents of a user's streams with their texts (XML), in parts.

    `name` is the document's name in the engine, `id` what its sender called it, `ts` in ticks.
    """
    last = 0
    while rows := list(
        store.rows(
            "SELECT doc, id AS name, given AS id, streams, ts, xml"
            " FROM state.document JOIN state.text USING (doc)"
            f" WHERE doc > ? AND {any_of('streams', own_condition('value', account))}"
            " ORDER BY doc LIMIT 500",
            [last],
        )
    ):
        last = rows[-1]["doc"]
        yield from rows


# -- Stars -------------------------------------------------------------------------------


def stars(
    store: Store, account: int, *, before: tuple[int, str] | None = None, limit: int
) -> Iterator[dict[str, Any]]:
    """Return the newest stars of an account, or those before a time (ticks) and a match.

    `view` is what the match showed, as JSON.
    """
    return store.rows(
        "SELECT match, subscription, starred, view FROM state.star"
        " WHERE account = ? AND (? OR (starred, match) < (?, ?))"
        " ORDER BY starred DESC, match DESC LIMIT ?",
        [account, before is None, *(before or (0, "")), limit],
    )
