"""The tables of a store in Arrow, and DuckDB over them.

A *mirror* is the content of a table of rows as of a commit.  It is kept for the next question,
which then reads only the rows that were appended since, unless others were changed or removed
(`xscl.store.sqlite_database.Database.changed`).  A commit is noted there before it can be seen, so
no mirror misses a change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import duckdb
import pyarrow as pa

from xscl.store.chunks import Execute
from xscl.store.sqlite_tables import TABLES, column_of, schema_of

MOST_BYTES = 256 << 20
"""Bytes of a mirror that is kept."""
_PARTS = 64  # of a mirror, after which they become one
_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
)


class Mirror(NamedTuple):
    """The content of a table as of a commit; `last` is the largest of its internal row numbers."""

    rows: pa.Table
    commits: int
    last: int


class Mirrors:
    """The kept mirrors of a database; thread-safe.

    `changed` has, by table, the last commit that changed or removed rows.
    """

    def __init__(self, changed: Mapping[str, int]) -> None:
        self._changed = changed
        self._kept: dict[str, Mirror] = {}
        self._mutex = threading.Lock()

    def table(self, execute: Execute, name: str) -> pa.Table:
        """Return the rows of a table that a snapshot has; `execute` reads it."""
        ((commits,),) = execute("SELECT commits FROM state.progress", ())
        kept = self._kept.get(name)
        if kept is None or not self._changed[name] <= kept.commits <= commits:
            kept = Mirror(TABLES[name].empty_table(), commits, -(1 << 63))
        found = _read(execute, name, kept, commits)
        with self._mutex:
            newest = self._kept.get(name)
            if newest is None or newest.commits <= commits:
                self._kept.pop(name, None)
                if found.rows.nbytes <= MOST_BYTES:
                    self._kept[name] = found
        return found.rows


def _read(execute: Execute, name: str, kept: Mirror, commits: int) -> Mirror:
    """Return a mirror with the rows that follow those of another one."""
    schema = TABLES[name]
    columns = ", ".join(f'"{column}"' for column in schema.names)
    sql = f"SELECT rowid, {columns} FROM state.{name} WHERE rowid > ? ORDER BY rowid"
    rows = execute(sql, (kept.last,))
    if not rows:
        return kept._replace(commits=commits)
    numbers, *values = zip(*rows, strict=True)
    arrays = [column_of(column, one.type) for column, one in zip(values, schema, strict=True)]
    table = pa.concat_tables([kept.rows, pa.table(arrays, schema=schema)])
    if table.column(0).num_chunks > _PARTS:
        table = table.combine_chunks()
    return Mirror(table, commits, numbers[-1])


class Analysis:
    """An instance of DuckDB without a database, made at the first use; thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._views: set[str] = set()

    def connect(self, tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
        """Return a connection that has tables as `state.NAME`; the caller closes it."""
        with self._mutex:
            if self._instance is None:
                self._instance = duckdb.connect(":memory:", config={"threads": 1})
                for setting in _SETTINGS:
                    self._instance.execute(f"SET {setting}")
                self._instance.execute("CREATE SCHEMA state")
            self._create_views(self._instance, tables.keys() - self._views)
            connection = self._instance.cursor()
        for name, rows in tables.items():
            connection.register(f"kept_{name}", rows)
        return connection

    def _create_views(self, instance: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
        """Create views of what a connection registers under the names of tables."""
        for name in names:
            schema = schema_of(name)
            instance.register(f"kept_{name}", schema.empty_table())
            columns = ", ".join(f'"{column}"' for column in schema.names)
            instance.execute(f"CREATE VIEW state.{name} AS SELECT {columns} FROM kept_{name}")
            self._views.add(name)

    def close(self) -> None:
        """Close the instance; connections that were made from it end, too."""
        with self._mutex:
            instance, self._instance, self._views = self._instance, None, set()
            if instance is not None:
                instance.close()
