"""The tables of an export of registrations, which it names as they are called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from xscl.store.queries.tables import TABLES
from xscl.store.store import Store

StoredRow: TypeAlias = dict[str, Any]
"""The values of a row by their columns."""

_KEYS: Mapping[str, tuple[str, ...]] = {
    **{"account": ("number",), "owned_stream": ("account", "name"), "stream": ("name",)},
    **{"subscription_tag": ("subscription", "tag"), "saved_statement": ("account", "name")},
}
"""The columns that distinguish the rows of a table, where these are not its `id`."""


def insert_missing(store: Store, table: str, rows: Sequence[Mapping[str, object]]) -> int:
    """Insert the rows of a table that are not there; return their number."""
    key = _KEYS.get(table, ("id",))
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


def long_text(store: Store, table: str, column: str, most: int) -> tuple[str, int] | None:
    """Return the beginning and the length of a text with more characters in a column, if any."""
    rows = store.rows(
        f"SELECT substr({column}, 1, 100) AS beginning, length({column}) AS size"
        f" FROM state.{table} WHERE length({column}) > ? LIMIT 1",
        [most],
    )
    return next(((row["beginning"], row["size"]) for row in rows), None)
