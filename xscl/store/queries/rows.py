"""Rows of a table by the values of columns: read, changed and deleted.

A column is to have a value, or one of those of a list, an array or another collection.
`Store.insert_rows` inserts rows.  A statement with other conditions is in the module of its table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

from xscl.store.queries.lists import LISTED
from xscl.store.queries.numbers import among
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

ValueIn: TypeAlias = str | bytes | int | Collection[Any]


def rows_of(
    store: Store, table: str, *columns: str, order: str = "rowid", **wanted: ValueIn
) -> Iterator[dict[str, Any]]:
    """Return some columns, or all, of the rows with some values, in the order of columns."""
    where, parameters = _where(wanted)
    names = named(columns or TABLES[table].names)
    return store.rows(
        f"SELECT {names} FROM state.{table} WHERE {where} ORDER BY {order}", parameters
    )


def update_rows(store: Store, table: str, changed: Mapping[str, object], **wanted: ValueIn) -> None:
    """Write the changed columns of the rows with some values."""
    where, parameters = _where(wanted)
    written = ", ".join(f'"{name}" = ?' for name in changed)
    store.fetch(
        f"UPDATE state.{table} SET {written} WHERE {where}", [*changed.values(), *parameters]
    )


def delete_rows(store: Store, table: str, **wanted: ValueIn) -> None:
    """Delete the rows with some values."""
    where, parameters = _where(wanted)
    store.fetch(f"DELETE FROM state.{table} WHERE {where}", parameters)


def delete_but_newest(store: Store, table: str, most: int, **wanted: ValueIn) -> None:
    """Delete the rows with some values, but the newest ones."""
    where, parameters = _where(wanted)
    last = f"SELECT rowid FROM state.{table} WHERE {where} ORDER BY rowid DESC LIMIT 1 OFFSET ?"
    store.fetch(
        f"DELETE FROM state.{table} WHERE {where} AND rowid <= ({last})",
        [*parameters, *parameters, most],
    )


def delete_prefixed(store: Store, table: str, column: str, prefix: str) -> None:
    """Delete the rows of which a text begins with a prefix."""
    store.fetch(f'DELETE FROM state.{table} WHERE instr("{column}", ?) = 1', [prefix])


def _where(wanted: Mapping[str, ValueIn]) -> tuple[str, list[object]]:
    """Return the condition that columns have values, and its parameters."""
    conditions, parameters = ["true"], list[object]()
    for name, value in wanted.items():
        listed, given = _listed(value)
        conditions.append(f'"{name}" IN {listed}')
        parameters += given
    return " AND ".join(conditions), parameters


def _listed(value: Any) -> tuple[str, list[object]]:
    """Return SQL for a value or those of a collection, after IN, and its parameters."""
    if isinstance(value, (str, bytes, int)):
        return "(?)", [value]
    if all(isinstance(one, str) for one in value):
        return LISTED, [list(value)]
    numbers, given = among(value)
    return f"({numbers})", given
