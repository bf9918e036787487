"""The choice of the durable store while SQLite replaces DuckDB: the variable `XSCL_STORE`.

It goes with the store in DuckDB; `SwitchedStore` has what only that one needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from xscl.store.lent_tables import named
from xscl.store.sqlite_store import SqliteStore
from xscl.store.sqlite_tables import schema_of
from xscl.store.store import Store

IS_SQLITE = os.environ.get("XSCL_STORE", "") == "sqlite"
"""Whether a store is one in SQLite."""


def open_store(path: str | Path | None, *, journalled: bool = True) -> Store:
    """Open the store of an engine."""
    if not IS_SQLITE:
        return Store(path, journalled=journalled)
    return cast(Store, SwitchedStore(path))


class SwitchedStore(SqliteStore):
    """A store in SQLite under the interface of the one in DuckDB."""

    is_lost = False

    @property
    def lender(self) -> SwitchedStore:
        """What says that the database is never behind a journal."""
        return self

    is_behind = False

    def when_lost(self, call: Callable[[], None]) -> None:
        """Do nothing: no error of SQLite makes a database unusable."""

    def lose(self, error: BaseException) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: there is one log."""

    def release_purged(self) -> None:
        """Give the space of removed rows back."""
        self.shrink()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Do nothing: all commits are readable."""
        yield

    @property
    def image_path(self) -> Path | None:
        """The path of the image of stage 1."""
        return None if self.path is None else self.path.with_name(f"{self.path.name}.image")

    def remove(self, table: str, numbers: Sequence[int]) -> None:
        """Remove numbered entries of a table."""
        self.execute_many(f"DELETE FROM {table} WHERE number = ?", ((one,) for one in numbers))

    def peek(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.fetch(query, parameters)

    def rows(
        self, query: str, parameters: Sequence[object] = (), *, newest: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Return all rows of a query, each by the names of its columns."""
        return super().rows(query, parameters)

    def typed(self, table: str, columns: Mapping[str, Any]) -> pa.Table:
        """Return columns of values, by their names, as an Arrow table like a stored one."""
        schema = schema_of(table.removeprefix("state."))
        return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)

    def columns_of(self, table: str) -> str:
        """Return SQL for the names of the columns of a table, where all are read."""
        return named(schema_of(table.removeprefix("state.")).names)
