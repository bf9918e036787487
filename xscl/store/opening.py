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

from xscl.store import sqlite_file, store_file
from xscl.store.block_copies import copies_path
from xscl.store.commit_watermark import (
    CommitPoint,
    read_watermark,
    watermark_path,
    write_watermark,
)
from xscl.store.journal import journal_path
from xscl.store.lent_tables import named
from xscl.store.migrations import current_version
from xscl.store.sqlite_store import SqliteStore
from xscl.store.sqlite_tables import VERSION, schema_of
from xscl.store.store import Store
from xscl.store.store_lock import StoreMark, lock_path, marked, write_mark

IS_SQLITE = os.environ.get("XSCL_STORE", "") == "sqlite"
"""Whether a store is one in SQLite."""


def schema_version() -> int:
    """Return the version of the tables that this program writes."""
    return VERSION if IS_SQLITE else current_version()


def open_store(
    path: str | Path | None, *, journalled: bool = True, accept: bool = False, keep_old: bool = True
) -> Store:
    """Open the store of an engine; with `accept` whatever its mark says."""
    if not IS_SQLITE:
        return Store(path, journalled=journalled, accept=accept, keep_old=keep_old)
    return cast(Store, SwitchedStore(path, accept=accept))


def read_mark(database: Path) -> StoreMark | None:
    """Return what a database should have, None if nothing or nothing readable says it."""
    if IS_SQLITE:
        return marked(database)
    found = read_watermark(database)
    return None if found is None else StoreMark(found.store, found.commits)


def set_mark(database: Path, store: str, commits: int) -> None:
    """Write durably what a database that is not open should have."""
    if IS_SQLITE:
        write_mark(database, StoreMark(store, commits))
    else:
        write_watermark(database, CommitPoint(store, commits))


def mark_path(database: Path) -> Path:
    """Return the path of the file with the mark."""
    return lock_path(database) if IS_SQLITE else watermark_path(database)


def paths_beside(database: Path) -> tuple[Path, ...]:
    """Return the paths of what belongs to a database, but for its mark; the log is the first."""
    if IS_SQLITE:
        return (sqlite_file.log_path(database),)
    return store_file.log_path(database), journal_path(database), copies_path(database)


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
