"""Shared parts of statements: rows by the values of columns, lists and numbers.

Arguments `wanted` select rows by columns, each with its value or with a collection of values.
`Store.insert_rows` inserts rows.  A statement with other conditions is in the module of its table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import apsw
import numpy as np
import numpy.typing as npt

from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

ValueIn: TypeAlias = str | bytes | int | Collection[Any]
RowNumbers: TypeAlias = npt.NDArray[np.int64]

_FEW = 8  # most numbers that become single parameters
_GIVEN = "SELECT value FROM json_each(?)"

LISTED = f"({_GIVEN})"
"""SQL after IN for the values of a parameter that is a list."""


def rows_of(
    store: Store, table: str, *columns: str, order: str = "rowid", **wanted: ValueIn
) -> Iterator[dict[str, Any]]:
    """Return the rows that `wanted` selects, with some columns or all, in an `order` in SQL."""
    where, parameters = _where(wanted)
    names = named(columns or TABLES[table].names)
    return store.rows(
        f"SELECT {names} FROM state.{table} WHERE {where} ORDER BY {order}", parameters
    )


def update_rows(store: Store, table: str, changed: Mapping[str, object], **wanted: ValueIn) -> None:
    """Write the `changed` columns of the rows that `wanted` selects."""
    where, parameters = _where(wanted)
    written = ", ".join(f'"{name}" = ?' for name in changed)
    store.fetch(
        f"UPDATE state.{table} SET {written} WHERE {where}", [*changed.values(), *parameters]
    )


def delete_rows(store: Store, table: str, **wanted: ValueIn) -> None:
    """Delete the rows that `wanted` selects."""
    where, parameters = _where(wanted)
    store.fetch(f"DELETE FROM state.{table} WHERE {where}", parameters)


def delete_but_newest(store: Store, table: str, most: int, **wanted: ValueIn) -> None:
    """Delete the rows that `wanted` selects, except the `most` newest."""
    where, parameters = _where(wanted)
    last = f"SELECT rowid FROM state.{table} WHERE {where} ORDER BY rowid DESC LIMIT 1 OFFSET ?"
    store.fetch(
        f"DELETE FROM state.{table} WHERE {where} AND rowid <= ({last})",
        [*parameters, *parameters, most],
    )


def delete_prefixed(store: Store, table: str, column: str, prefix: str) -> None:
    """Delete the rows whose text in a column begins with a prefix."""
    store.fetch(f'DELETE FROM state.{table} WHERE instr("{column}", ?) = 1', [prefix])


def _where(wanted: Mapping[str, ValueIn]) -> tuple[str, list[object]]:
    """Return the SQL condition by which `wanted` selects rows, and its parameters."""
    conditions, parameters = ["true"], list[object]()
    for name, value in wanted.items():
        listed, given = _listed(value)
        conditions.append(f'"{name}" IN {listed}')
        parameters += given
    return " AND ".join(conditions), parameters


def _listed(value: Any) -> tuple[str, list[object]]:
    """Return SQL after IN for a value or the values of a collection, and its parameters."""
    if isinstance(value, (str, bytes, int)):
        return "(?)", [value]
    if all(isinstance(one, str) for one in value):
        return LISTED, [list(value)]
    numbers, given = among(value)
    return f"({numbers})", given


# -- Numbers -------------------------------------------------------------------------------


def among(numbers: Collection[int] | RowNumbers) -> tuple[str, list[object]]:
    """Return SQL for numbers within the brackets after IN, and its parameters."""
    if len(numbers) <= _FEW:
        return ", ".join("?" * len(numbers)) or "NULL", [int(number) for number in numbers]
    array = np.fromiter(numbers, np.int64, len(numbers))
    return "SELECT value FROM carray(?)", [apsw.carray(array)]


def found_numbers(store: Store, query: str, parameters: Sequence[object] = ()) -> RowNumbers:
    """Return the numbers that a query of one column finds."""
    rows = store.fetch(query, parameters)
    return np.fromiter((number for (number,) in rows), np.int64, len(rows))


def found_number(store: Store, query: str, parameters: Sequence[object] = ()) -> int | None:
    """Return the number that a query of one column finds, None without a row, and for NULL."""
    rows = store.fetch(query, parameters)
    return None if not rows or rows[0][0] is None else int(rows[0][0])


# -- Lists as values of columns ------------------------------------------------------------


def first_of(column: str) -> str:
    """Return SQL for the first value of a list."""
    return f"{column} ->> 0"


def is_empty(column: str) -> str:
    """Return SQL for whether a list has no value."""
    return f"{column} = '[]'"


def has_any(column: str) -> str:
    """Return SQL for whether a list has one of the values of a parameter."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value IN ({_GIVEN}))"


def contains(column: str) -> str:
    """Return SQL for whether a list has the value of a parameter."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value = ?)"


def any_of(column: str, condition: str) -> str:
    """Return SQL for whether a list has an item that satisfies a condition on `value`."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE {condition})"
