"""The store: all durable state in one database of SQLite, in a file or in memory.

A push is one transaction, so a batch is stored completely or not at all.  Tables of rows
(`xscl.store.queries.tables`) are read and written with SQL, under the names `state.NAME`.  The
large relations are chunks of Arrow, which `append`, `scan`, `batches` and `drop` serve.  For
analysis `duck` makes both readable in DuckDB.

Each thread has a store of its own (`connect_again`) over one shared database: outside of a
transaction the first one reads on the connection that writes, all others on connections of
their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import apsw
import duckdb
import pyarrow as pa

from xscl.errors import StoreError
from xscl.store.chunks import Chunks, Dead
from xscl.store.database import Database, Reader
from xscl.store.queries.mirrors import ANALYSIS, Mirrors
from xscl.store.queries.tables import (
    RELATIONS,
    TABLES,
    ColumnValues,
    Shape,
    changes_of,
    column_of,
    encoded,
    insertion,
    stored_column,
    values_of,
)
from xscl.store.store_file import seen
from xscl.store.store_lock import StoreMark

_log = logging.getLogger(__name__)
_SHAPES = 1_000  # most statements whose columns are remembered
_REWRITE = "rewrite"  # the key in `state.meta` while a rewrite is to be done


class Store:
    """A thread's access to the database of a store; raises StoreError.

    With `accept` a file is opened whatever its mark says (`xscl.store.store_file`).
    """

    def __init__(self, path: str | Path | None, *, accept: bool = False) -> None:
        self.path = None if path is None else Path(path).resolve()
        self._database = Database(self.path, accept=accept)
        self._mirrors = self._new_mirrors()
        self._shapes: dict[str, Shape] = {}
        self._chunks: Chunks | None = None  # of the snapshot, within `reading`
        self._reader: Reader | None = None
        self._is_first = True
        if self.meta(_REWRITE):  # a rewrite was broken off
            self.rewrite()

    def connect_again(self) -> Self:
        """Return another store of the same database, for another thread."""
        self._database.expect_open()
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._is_first, other._chunks, other._reader = False, None, None
        return other

    # -- Changing --------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        assert self._chunks is None, "a reading changes nothing"
        with self._database.transaction():
            yield

    @property
    def _is_within(self) -> bool:
        """True if this thread is within a transaction."""
        return self._database.writing == threading.get_ident()

    def _changing(self) -> AbstractContextManager[None]:
        """Return a context: a transaction, or nothing within one that has begun."""
        return nullcontext() if self._is_within else self.transaction()

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows to a large relation; their columns are matched by name."""
        with self._changing():
            self._database.chunks.append(relation, rows)

    def drop(self, relation: str, upto: int | None = None, dead: Dead | None = None) -> int:
        """Remove the rows whose order column is at most `upto` and that `dead` selects.

        None selects all.  Return the number of removed rows.
        """
        with self._changing():
            return self._database.chunks.drop(relation, upto, dead)

    def insert(
        self, table: str, columns: Mapping[str, ColumnValues], *, replace: bool = False
    ) -> None:
        """Append rows to a table, given as columns by name: Python values, or arrays of NumPy.

        With `replace` they replace rows of the same key.
        """
        name = table.removeprefix("state.")
        schema = TABLES[name]
        values = (stored_column(one, schema.field(column).type) for column, one in columns.items())
        sql = insertion(name, tuple(columns), replace=replace)
        self.execute_many(sql, zip(*values, strict=True))

    def insert_rows(
        self, table: str, rows: Iterable[Mapping[str, object]], *, replace: bool = False
    ) -> None:
        """Append rows to a table; each maps all columns of the table to Python values.

        With `replace` they replace rows of the same key.
        """
        each, names = list(rows), TABLES[table.removeprefix("state.")].names
        self.insert(table, {name: [row[name] for row in each] for name in names}, replace=replace)

    def execute_many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement once for each row of parameters."""
        with self._changing():
            self._database.note_changes(sql)
            self._database.writer.executemany(sql, rows)

    def set_progress(self, **values: int) -> None:
        """Write some numbers of a push: columns of the single row of `progress`."""
        written = ", ".join(f"{name} = ?" for name in values)
        self.execute_many(f"UPDATE state.progress SET {written}", [[*map(int, values.values())]])

    def set_meta(self, **values: int) -> None:
        """Write numbers that rarely change to the table `meta`, by their keys."""
        sql = "INSERT OR REPLACE INTO state.meta (key, value) VALUES (?, ?)"
        self.execute_many(sql, values.items())

    def shrink(self) -> None:
        """Give the space of removed rows back to the file system."""
        self._database.shrink()

    def plan_rewrite(self) -> None:
        """Note durably that `rewrite` follows: after a kill the next start does it."""
        self.set_meta(**{_REWRITE: 1})

    def rewrite(self) -> bool:
        """Rewrite the file, so that no byte of removed rows is left in it, or in its log.

        Changes wait meanwhile (6 s a GB); the log and a temporary file each take the file's size.
        It waits for readers, which are ended after `xscl.store.database.READING` seconds.  Return
        False if a reader still needs the log then, or the disk is full: the next start repeats it.
        """
        database, why = self._database, "it is read"
        try:
            database.vacuum()
            is_done = self.path is None or database.clear_log()
        except StoreError as error:
            is_done, why = False, error.message
        if not is_done:
            _log.warning("removed rows stay in %s until its next start: %s", self.path, why)
        elif self.meta(_REWRITE):
            self.fetch("DELETE FROM state.meta WHERE key = ?", (_REWRITE,))
        return is_done

    # -- Reading ---------------------------------------------------------------------------

    @property
    def _is_on_writer(self) -> bool:
        """True if this thread uses the connection that writes now."""
        reads_apart = self._chunks is not None or not self._is_first
        return self._is_within or self.path is None or not reads_apart

    @contextmanager
    def connected(self) -> Iterator[apsw.Connection]:
        """Use the connection of this thread in the block, for one statement or a few."""
        database = self._database
        with database.translated():
            if self._is_on_writer:
                with database.lock:
                    database.expect_open()
                    yield database.writer
            else:
                with self._reader_here().running():
                    yield self._reader_here().connection

    def _reader_here(self) -> Reader:
        if self._reader is None:
            self._reader = self._database.reader()
        return self._reader

    @contextmanager
    def reading(
        self, *, unlimited: bool = False, begin: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """See one snapshot in the block, and refuse every change.

        The reading is ended after `xscl.store.database.READING` seconds (ReadTooLong).  An
        `unlimited` one first waits until no other unlimited one runs, and is ended when the log is
        large.  `begin` is called at the instant of the snapshot, while nothing is committed.
        """
        if self._chunks is not None or self._is_within:
            yield
            return
        reader = None if self.path is None else self._reader_here()
        with self._database.snapshot(reader, unlimited=unlimited, begin=begin) as self._chunks:
            try:
                yield
            finally:
                self._chunks = None

    def scan(self, relation: str, since: int | None = None, until: int | None = None) -> pa.Table:
        """Return the rows with `since` <= order column <= `until`, in the order of appends."""
        found = self.batches(relation, since, until)
        return pa.Table.from_batches(found, schema=RELATIONS[relation].schema)

    def batches(
        self,
        relation: str,
        since: int | None = None,
        until: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a relation that `scan` returns, in batches that are read one by one.

        With `newest_first` the last batch comes first; within a batch the order is the same.
        """
        with self._reading_chunks() as chunks:
            yield from chunks.batches(relation, since, until, newest_first=newest_first)

    @contextmanager
    def _reading_chunks(self) -> Iterator[Chunks]:
        if self._is_within:
            yield self._database.chunks
            return
        with self.reading(), self._database.translated():
            assert self._chunks is not None
            yield self._chunks

    def mirror(self, table: str) -> pa.Table:
        """Return a table `state.*` or a relation in Arrow, with the types that users see."""
        name = table.removeprefix("state.")
        if name in RELATIONS:
            return self.scan(name)
        with self._reading_chunks():
            mirrors = self._new_mirrors() if self._is_within else self._mirrors
            return mirrors.table(self._raw, name)

    def _new_mirrors(self) -> Mirrors:
        return Mirrors(self._database.changed, self._database.removed)

    def duck(
        self,
        *names: str,
        lent: Mapping[str, pa.Table] = MappingProxyType({}),
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection of DuckDB with tables and relations as `state.NAME`, of one commit.

        `lent` are further tables, by name.  The caller closes the connection.
        """
        tables = dict(lent)
        with self.reading():
            tables |= {name: self.mirror(name) for name in names}
        return ANALYSIS.connect(tables)

    def _raw(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query, with values as SQLite stores them."""
        with self.connected() as connection:
            found: list[tuple[Any, ...]] = connection.execute(sql, parameters).fetchall()
            return found

    def _answer(self, sql: str, parameters: Sequence[object]) -> tuple[Shape, list[Any]]:
        """Return columns and rows of a statement, with values as SQLite stores them."""
        bound = [encoded(parameter) for parameter in parameters]
        changed = changes_of(sql)
        # Within a reading the connection refuses the change.
        changing = self._changing() if changed and self._chunks is None else nullcontext()
        with changing, self.connected() as connection:
            self._database.note_changes(sql)
            shape = self._shapes.get(sql)
            if shape is not None:
                return shape, connection.execute(sql, bound).fetchall()
            described: list[Shape] = []
            cursor = connection.cursor()

            def describe(now: apsw.Cursor, *_: object) -> bool:
                described.append(Shape.of(now.description_full))
                return True

            # The columns are unknown after `execute`: an answer without rows is complete then.
            cursor.exec_trace = describe
            rows = cursor.execute(sql, bound).fetchall()
            (shape,) = described
            if not shape.names:
                return _COUNT, [(connection.changes(),)] if changed else []
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[sql] = shape
            return shape, rows

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, or of a change the number of changed rows.

        Values of stored columns are decoded to their types; computed ones are as SQLite has them.
        """
        shape, rows = self._answer(sql, parameters)
        return shape.decoded(rows)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[dict[str, Any]]:
        """Return all rows of a query as mappings by column; the query runs at the call."""
        shape, rows = self._answer(sql, parameters)
        return (dict(zip(shape.names, row, strict=True)) for row in shape.decoded(rows))

    def columns(self, sql: str, parameters: Sequence[object] = ()) -> dict[str, Sequence[Any]]:
        """Return the columns of an answer by name; values that are lists are shared tuples."""
        shape, rows = self._answer(sql, parameters)
        values = zip(*rows, strict=True) if rows else ((),) * len(shape.names)
        return dict(zip(shape.names, map(values_of, values, shape.types), strict=True))

    def arrow(self, sql: str, parameters: Sequence[object] = ()) -> pa.Table:
        """Return the answer of a query as an Arrow table."""
        shape, rows = self._answer(sql, parameters)
        columns = zip(*rows, strict=True) if rows else ((),) * len(shape.names)
        arrays = map(column_of, columns, shape.types)
        return pa.Table.from_arrays(list(arrays), names=list(shape.names))

    def progress(self, name: str) -> int:
        """Return one number of the last push: a column of `progress`."""
        (value,) = self.numbers(name)
        return value

    def numbers(self, *names: str) -> tuple[int, ...]:
        """Return some columns of `progress`, in the order of `names`, by one statement."""
        (values,) = self.fetch(f"SELECT {', '.join(names)} FROM state.progress")
        return values

    def meta(self, key: str) -> int:
        """Return a number of the table `meta` by its key, 0 if there is none."""
        rows = self.fetch("SELECT value FROM state.meta WHERE key = ?", (key,))
        return int(rows[0][0]) if rows else 0

    def seen(self) -> StoreMark:
        """Return the id of the store and its number of commits."""
        with self.connected() as connection:
            return seen(connection)

    def read_all(self) -> StoreMark:
        """Return the same as `seen`, after comparing all chunks with their checksums."""
        with self.reading(unlimited=True), self._reading_chunks() as chunks:
            chunks.verify()
            return self.seen()

    # -- Closed ----------------------------------------------------------------------------

    def expect_open(self) -> None:
        """Raise StoreClosed after `close`."""
        self._database.expect_open()

    def expect_reading(self) -> None:
        """Raise InterruptError if this reading was ended; call it between the steps of a copy."""
        self._reader_here().expect_time()

    def close(self) -> None:
        """Close the connection of this thread; the first store closes all."""
        if self._is_first:
            self._database.close()
        elif self._reader is not None:
            self._reader.close()


_COUNT = Shape(("Count",), (None,), ())
