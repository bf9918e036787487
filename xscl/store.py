"""Everything that is kept, in one DuckDB database: a file, or memory.

One transaction for each push: a batch is there whole or not at all.  The
relations of the two stages belong to `templates.registry`; here are documents,
subscriptions, results and the record of what was consumed.  `xscl.relations`
shows all of it under the paper's names.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from templates import registry
from xscl.errors import StoreError

VERSION = 2

SCHEMA = """
CREATE SCHEMA state;
CREATE TABLE state.meta(key VARCHAR PRIMARY KEY, value BIGINT);
CREATE TABLE state.stream(name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN,
    attributes VARCHAR);
CREATE TABLE state.document(
    doc BIGINT, id VARCHAR, given VARCHAR, version INTEGER, streams VARCHAR[], ts BIGINT,
    clock BIGINT, rank BIGINT, base BIGINT, first BIGINT, hash BLOB, history BOOLEAN,
    origin VARCHAR);
CREATE TABLE state.text(doc BIGINT, xml BLOB);
CREATE TABLE state.composite(
    doc BIGINT, docs BIGINT[], nodes INTEGER[], vals VARCHAR[], start BIGINT, ts BIGINT,
    clock BIGINT, rank BIGINT, first BIGINT, version INTEGER, bases BIGINT[]);
CREATE TABLE state.composite_stream(number INTEGER, definition VARCHAR);
CREATE TABLE state.subscription(
    number INTEGER, name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER,
    outputs VARCHAR[], places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN,
    publish VARCHAR, reads VARCHAR[], ordered BOOLEAN, language VARCHAR,
    columns VARCHAR[], events VARCHAR);
CREATE TABLE state.core(snapshot BLOB);
CREATE TABLE state.late(doc BIGINT, missed VARCHAR, watermark BIGINT);
CREATE TABLE state.result(
    position BIGINT, qid INTEGER, doc1 BIGINT, doc2 BIGINT, nodes INTEGER[]);
CREATE TABLE state.ledger(query_id VARCHAR, batch_id BIGINT);
CREATE TABLE state.rejected(
    stream VARCHAR, id VARCHAR, reason VARCHAR, line INTEGER, "column" INTEGER,
    message VARCHAR, sha256 VARCHAR, beginning BLOB, clock BIGINT);
"""


class Store:
    """The connection to the database, its schema, and plain reads and writes."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.connection = _connect(self.path)
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        tables = self.fetch("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'state' LIMIT 1")
        if not tables:
            with self.transaction():
                self.connection.execute(SCHEMA + registry.SCHEMA)
                self.set_meta(version=VERSION)
        found = self.meta("version")
        if found != VERSION:
            raise StoreError(
                f"the store {self.path} has version {found}, this program reads version {VERSION}",
                hint="install the release that wrote it",
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        self.connection.execute("BEGIN TRANSACTION")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse every change within the block, also one that hides in a SELECT."""
        self.connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.connection.execute(query, list(parameters)).fetchall()

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append the rows of an Arrow table, column by column in the table's order."""
        if rows.num_rows:
            self.connection.register("inserted", rows)
            self.connection.execute(f"INSERT INTO {table} SELECT * FROM inserted")

    def arrow(self, query: str) -> pa.Table:
        """Return the answer of a query as an Arrow table."""
        return self.connection.sql(query).to_arrow_table()

    def meta(self, key: str, default: int = 0) -> int:
        rows = self.fetch("SELECT value FROM state.meta WHERE key = ?", [key])
        return int(rows[0][0]) if rows else default

    def set_meta(self, **values: int) -> None:
        """Write numbers that are kept by name."""
        rows = ", ".join("(?, ?)" for _ in values)
        self.connection.execute(
            f"INSERT INTO state.meta VALUES {rows}"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [part for item in values.items() for part in item],
        )

    def beside(self) -> Store:
        """Return this store for another thread: a connection of its own to the database."""
        other = copy.copy(self)
        other.connection = self.connection.cursor()
        if self.path is not None:
            other.connection.execute("USE store")
        return other

    def close(self) -> None:
        self.connection.close()


def _connect(path: Path | None) -> duckdb.DuckDBPyConnection:
    """Return a connection that reaches nothing but its own database.

    The file is attached under a fixed name: DuckDB names a database after its
    file, and `state.duckdb` would hide the schema `state`.
    """
    connection = duckdb.connect(":memory:")
    try:
        if path is not None:
            quoted = str(path).replace("'", "''")
            connection.execute(f"ATTACH '{quoted}' AS store; USE store")
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")
    except duckdb.Error as error:
        connection.close()
        raise StoreError(
            f"cannot open the store {path}: {str(error).splitlines()[0]}",
            hint="another process may have it open, or it is not an xscl store",
        ) from error
    return connection


_SETTINGS = (
    "enable_external_access = false",
    "python_enable_replacements = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
)
