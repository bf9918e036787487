"""Rows of a user in each table: one declaration for export, import, account data and erasure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import any_of, delete_rows, rows_of
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

StoredRow: TypeAlias = dict[str, Any]
"""The values of a row by their columns."""


class OwnedTable(NamedTuple):
    """A table with rows of users.

    `number` is the column with the number of the user, or `name` that with an engine name of one of
    the user's objects.  `shown` are the columns that the user sees, `exported` those of an export,
    `key` those that tell its rows apart.
    """

    shown: tuple[str, ...]
    exported: tuple[str, ...] = ()
    number: str = ""
    name: str = ""
    key: tuple[str, ...] = ("id",)


_QUERY = ("name", "query", "updates", "language", "stories")
_FEED = ("url", "stream", "tags", "every", "added", "title", "given_title")
_TAG = ("subscription", "tag")
_NAMED = ("account", "name")
_WHOLE = (
    *("account", "token", "owned_stream", "stream", "endpoint", "secret_address"),
    *("subscription_tag", "saved_statement", "preference"),
)
"""Tables of which an export has all columns."""

_DECLARED = {
    "account": OwnedTable(number="number", shown=("name", "quota", "created"), key=("number",)),
    "token": OwnedTable(number="account", shown=("id", "label", "created")),
    "owned_stream": OwnedTable(number="account", shown=("name",), key=_NAMED),
    "stream": OwnedTable(name="name", shown=tuple(TABLES["stream"].names), key=("name",)),
    "subscription": OwnedTable(
        name="name", shown=(*_QUERY, "version"), exported=("number", *_QUERY)
    ),
    "retired": OwnedTable(name="name", shown=(*_QUERY, "version")),
    "story": OwnedTable(name="key", shown=("id", "key", "began", "last")),
    "feed": OwnedTable(name="key", shown=_FEED, exported=("key", *_FEED, "site_url", "gone")),
    "endpoint": OwnedTable(
        name="subscription",
        shown=("id", "subscription", "kind", "config", "state", "created"),
    ),
    "secret_address": OwnedTable(
        name="subscription", shown=("id", "subscription", "label", "created")
    ),
    "subscription_tag": OwnedTable(name="subscription", shown=_TAG, key=_TAG),
    "saved_statement": OwnedTable(
        number="account", shown=("name", "statement", "saved"), key=_NAMED
    ),
    "preference": OwnedTable(number="account", shown=("name", "value"), key=_NAMED),
    "read_mark": OwnedTable(number="account", shown=("item", "read")),
    "star": OwnedTable(number="account", shown=("match", "subscription", "starred", "view")),
}

OWNED: Mapping[str, OwnedTable] = {
    table: one._replace(exported=tuple(TABLES[table].names)) if table in _WHOLE else one
    for table, one in _DECLARED.items()
}

_SELECTED = {"token": "NOT session"}
"""The conditions on the rows of users, for tables that have other rows, too."""
_LEFT = ("secret_address",)
"""Tables whose rows stay when the subscriptions and feeds that they name are removed."""


def rows_of_user(store: Store, table: str, account: int) -> Iterator[StoredRow]:
    """Return a user's rows of a table with the columns that he sees, and the engine's names."""
    owned = OWNED[table]
    mine = f"{owned.number} = {account}" if owned.number else own_condition(owned.name, account)
    where = f"{mine} AND {_SELECTED.get(table, 'true')}"
    columns = named(owned.shown)
    return store.rows(f"SELECT {columns} FROM state.{table} WHERE {where} ORDER BY rowid", [])


def exported_rows(store: Store, table: str, *more: str) -> list[StoredRow]:
    """Return the rows of all users in a table, with the columns of an export and some more."""
    columns = OWNED[table].exported
    rows = rows_of(store, table, *dict.fromkeys((*columns, *more)), order=named(columns))
    return [row for row in rows if not row.get("session")]


def delete_rows_of(store: Store, account: int) -> None:
    """Delete the rows of a user whose subscriptions and feeds are removed already."""
    for table, owned in OWNED.items():
        if owned.number:
            delete_rows(store, table, **{owned.number: account})
    for table in _LEFT:
        mine = own_condition(OWNED[table].name, account)
        store.fetch(f"DELETE FROM state.{table} WHERE {mine}")


def documents_of(store: Store, account: int) -> Iterator[StoredRow]:
    """Yield the kept documents of a user's streams with their texts (XML), read 500 at a time.

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


# -- Import --------------------------------------------------------------------------------


def insert_missing(store: Store, table: str, rows: Sequence[Mapping[str, object]]) -> int:
    """Insert the rows whose keys the table lacks; return their number."""
    key = OWNED[table].key
    there = set(store.fetch(f"SELECT {', '.join(key)} FROM state.{table}"))
    new = [row for row in rows if tuple(row[name] for name in key) not in there]
    store.insert_rows(f"state.{table}", new)
    return len(new)


def expect_types(table: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Raise ValueError for a value in rows of a table that its column cannot have."""
    for field in TABLES[table]:
        values = [row[field.name] for row in rows if field.name in row]
        try:
            is_same = pa.array(values, field.type).to_pylist() == values  # 1.5 would become 1
        except (ValueError, TypeError, OverflowError):
            is_same = False
        if not is_same:
            raise ValueError(
                f"the column {field.name} of {table} has a value that is no {field.type}"
            )


# -- Marks -------------------------------------------------------------------------------


def read_marks(
    store: Store, account: int, *, after: str = "", limit: int
) -> Iterator[dict[str, Any]]:
    """Return an account's marks for items after one, in order of item; `read` is in ticks."""
    return store.rows(
        "SELECT item, read FROM state.read_mark WHERE account = ? AND item > ?"
        " ORDER BY item LIMIT ?",
        [account, after, limit],
    )


# -- Stars -------------------------------------------------------------------------------


def stars(
    store: Store, account: int, *, before: tuple[int, str] | None = None, limit: int
) -> Iterator[dict[str, Any]]:
    """Return an account's stars before a place (time in ticks, match), the newest first.

    `view` is what the match showed, as JSON.
    """
    return store.rows(
        "SELECT match, subscription, starred, view FROM state.star"
        " WHERE account = ? AND (? OR (starred, match) < (?, ?))"
        " ORDER BY starred DESC, match DESC LIMIT ?",
        [account, before is None, *(before or (0, "")), limit],
    )
