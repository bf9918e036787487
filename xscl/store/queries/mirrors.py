"""The tables of a store in Arrow, and DuckDB over them.

A *mirror* is the content of a table of rows as of a commit.  It is kept for the next question,
which then reads only the rows that were appended since, unless others were changed or removed
(`xscl.store.database.Database.changed`).  A commit is noted there before it can be seen, so
no mirror misses a change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from xscl.store.chunks import Execute
from xscl.store.queries.tables import TABLES, column_of, named, schema_of

MOST_BYTES = 256 << 20
"""Most bytes of a mirror that is kept."""
_NUMBER = "rowid"  # the column of a mirror with the internal numbers of rows
_PARTS = 64  # most batches of a mirror; more are combined
_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
)


class Mirror(NamedTuple):
    """The rows of a table as of a commit, in the order of their internal numbers (`_NUMBER`)."""

    rows: pa.Table
    commits: int


class Mirrors:
    """The kept mirrors of a database; thread-safe.

    `changed` has, by table, the last commit that changed rows, or removed them from a table that is
    not in `removed`; `removed` has the last commit that removed rows from its tables.
    """

    def __init__(self, changed: Mapping[str, int], removed: Mapping[str, int]) -> None:
        self._changed = changed
        self._removed = removed
        self._kept: dict[str, Mirror] = {}
        self._mutex = threading.Lock()

    def table(self, execute: Execute, name: str) -> pa.Table:
        """Return the rows of a table in the snapshot in which `execute` reads."""
        ((commits,),) = execute("SELECT commits FROM state.progress", ())
        kept = self._kept_for(name, commits)
        if self._removed.get(name, 0) > kept.commits:
            kept = _left(execute, name, kept)
        found = _read(execute, name, kept, commits)
        self._keep(name, found)
        return found.rows.drop_columns(_NUMBER)

    def _kept_for(self, name: str, commits: int) -> Mirror:
        """Return the kept mirror of a table, an empty one if it does not fit the snapshot."""
        with self._mutex:
            mirror = self._kept.get(name)
        if mirror is not None and self._changed[name] <= mirror.commits <= commits:
            return mirror
        return Mirror(pa.schema([(_NUMBER, pa.int64()), *TABLES[name]]).empty_table(), 0)

    def _keep(self, name: str, found: Mirror) -> None:
        """Keep the newer one of two mirrors, unless it is large or out of date."""
        with self._mutex:
            newest = max(self._kept.pop(name, found), found, key=lambda mirror: mirror.commits)
            if newest.rows.nbytes <= MOST_BYTES and newest.commits >= self._changed[name]:
                self._kept[name] = newest


def _left(execute: Execute, name: str, kept: Mirror) -> Mirror:
    """Return a mirror without the rows that were removed since its commit."""
    numbers = kept.rows[_NUMBER]
    left = execute(f"SELECT rowid FROM state.{name} WHERE rowid <= ?", (_last(kept),))
    there = np.fromiter((number for (number,) in left), np.int64, len(left))
    return kept._replace(rows=kept.rows.filter(pa.array(np.isin(numbers.to_numpy(), there))))


def _last(kept: Mirror) -> int:
    numbers = kept.rows[_NUMBER]
    return numbers[-1].as_py() if len(numbers) else -(1 << 63)


def _read(execute: Execute, name: str, kept: Mirror, commits: int) -> Mirror:
    """Return a mirror with the rows that were appended since its commit, as of `commits`."""
    schema = kept.rows.schema
    sql = f"SELECT {named(schema.names)} FROM state.{name} WHERE rowid > ? ORDER BY rowid"
    rows = execute(sql, (_last(kept),))
    if not rows:
        return kept._replace(commits=commits)
    numbers, *values = zip(*rows, strict=True)
    arrays = [
        column_of(column, one.type) for column, one in zip(values, list(schema)[1:], strict=True)
    ]
    table = pa.concat_tables(
        [kept.rows, pa.table([pa.array(numbers, pa.int64()), *arrays], schema=schema)]
    )
    if table.column(0).num_chunks > _PARTS:
        table = table.combine_chunks()
    return Mirror(table, commits)


class _Analysis:
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
        """Create a view `state.NAME` for each table, of the rows that a connection registers."""
        for name in names:
            schema = schema_of(name)
            instance.register(f"kept_{name}", schema.empty_table())
            columns = named(schema.names)
            instance.execute(f"CREATE VIEW state.{name} AS SELECT {columns} FROM kept_{name}")
            self._views.add(name)


ANALYSIS = _Analysis()
"""The instance of this process: making one takes longer than most questions."""
