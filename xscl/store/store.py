"""The store: all durable state in one DuckDB database, in a file or in memory.

A push is one transaction, so a batch is stored completely or not at all.  The relations of the
two stages belong to `templates.registry.registry`; documents, subscriptions, results and consumed
offsets are here.  `xscl.store.queries.relations` shows all under the paper's names.

One process at a time opens a store in a file (`xscl.store.store_lock`).  Before anything is
written, the whole store is read, because DuckDB verifies a block's checksum only when it reads
the block, and compared with its mark (`xscl.store.commit_watermark`).  A refused store stays
unchanged, but for the blocks of an interrupted checkpoint (`xscl.store.block_copies`).
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from feeds.faultpoints import reached
from xscl.errors import StoreError
from xscl.store.atomic_files import copy_durably
from xscl.store.block_copies import put_back
from xscl.store.commit_watermark import CommitPoint
from xscl.store.commits import LOG_BYTES_OF_A_PURGE, CheckpointPostponed, Commits
from xscl.store.database import (
    FILE,
    MemoryDatabase,
    SharedDatabase,
    connect,
    is_ended,
    is_lost,
)
from xscl.store.disk_guard import is_full
from xscl.store.journal import Record
from xscl.store.lent_tables import Lender, Statements, among, named
from xscl.store.migrations import current_version, migrate
from xscl.store.schema import COUNTED, FIRST_ROWS, SCHEMA
from xscl.store.store_errors import (
    BackupError,
    StoreClosed,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
    first_line,
    store_error,
)
from xscl.store.store_file import FilePart, StoreFile, new_id
from xscl.store.tail import BULK, NUMBERED, Appends
from xscl.store.verification import (
    SEEN,
    TABLES,
    Table,
    expect_readable,
    journalled_records,
    memory_of,
    read_all,
    release_memory,
)

_COUNT = "SELECT nextval('mark.commits')"
_COUNT_RECORDS = "SELECT max(nextval('mark.commits')) FROM range(?)"
_log = logging.getLogger(__name__)

_CELLS = "cluster_cells"  # a named number that the drivers of clusters of version 0.2 had
_HOLDER = re.compile(r"\(PID (\d+)\)")  # in DuckDB's words for a lock that another process has


class Store:
    """The connection to the database, its schema, and plain reads and writes.

    With `accept` the store is opened whatever its mark says.  With `keep_old` a copy of an earlier
    version is kept.  If `journalled`, a transaction that only appends is committed to the journal
    (`xscl.store.journal`); a journal that is there is read in any case.  After a write that has
    invalidated the database, every use raises StoreUnavailable until `reopen`.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        accept: bool = False,
        keep_old: bool = True,
        journalled: bool = True,
    ) -> None:
        self._is_journalled = journalled
        self.path = None if path is None else Path(path).resolve()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._memory: MemoryDatabase | None = None
        self._lender: Lender | None = None
        self._statements = Statements()
        self._schemas: dict[str, pa.Schema] = {}
        self._file: StoreFile | None = None
        self._own = True
        self._shared = SharedDatabase()
        self._generation = self._shared.generation
        self._is_within = False  # a transaction
        self._appends: Appends | None = None  # of a transaction that has only appended
        self._is_direct = False  # a transaction of DuckDB is open
        self._commits: Commits | None = None  # None until it is opened
        try:
            if self.path is None:
                self._memory = MemoryDatabase()
                self._connection = self._memory.connection
                self._connection.execute(SCHEMA + FIRST_ROWS)
                self._commits = Commits(None, self.lose, self.connect_again)
            else:
                self._open(StoreFile(self.path), accept, keep_old)
            self._share()
        except (duckdb.Error, OSError) as error:
            self.close()
            raise self._translated(error) from error
        except BaseException:
            self.close()
            raise

    # -- Opening ---------------------------------------------------------------------------

    def _open(self, file: StoreFile, accept: bool, keep_old: bool) -> None:
        self._file = file
        if self._commits is None:
            self._commits = Commits(file, self.lose, self.connect_again)
        self._commits.is_sound = False
        seen = file.make_ready(accept=accept)
        making = not file.path.exists()
        if not making and put_back(file.path):
            _log.warning(
                "a checkpoint of %s was interrupted; the blocks that it overwrote are restored",
                file.path,
            )
        self._connection = connect(file.path)
        file.claim.acquire()
        # Asked once: for the first such question DuckDB makes all its own views, for 16 ms.
        tables = [] if making else self.fetch(TABLES)
        if tables:
            found = self._version(file.path, tables)
            read_all(self.fetch, file.path, tables)
        else:  # it is new, or its making was broken off
            if not accept:
                file.compare(seen, None)
            self._create(new_id() if seen is None else seen.store)
            found = current_version()
        counted = self.seen()
        known, records = journalled_records(self.fetch, file.path, counted)
        now = CommitPoint(counted.store, counted.commits + len(records))
        if not accept:
            file.compare(seen, now)
        if found < current_version():
            kept = self._keep_old(file.path, found) if keep_old else None
            self._upgrade(found, kept)
            counted = now = self.seen()
        file.follow(seen, now)
        self._commits.tail.begin(file.path, counted.store, counted.commits, known, records)
        self._commits.is_sound = True

    def _share(self) -> None:
        """Allow other connections to be made from this one."""
        self._shared.opened(self._raw)
        self._generation = self._shared.generation

    @property
    def is_lost(self) -> bool:
        """Return whether the database was invalidated and has to be opened again."""
        return self._shared.is_lost

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call a function, in any thread, when the database is invalidated."""
        self._shared.on_lost = call

    def lose(self, error: BaseException) -> None:
        """Refuse every use of the database, on all connections, until it is opened again."""
        if self.path is not None and self._shared.lose():
            _log.error("the store %s has to be opened again: %s", self.path, first_line(error))
            self._shared.on_lost()

    def reopen(self) -> None:
        """Open a lost database again, as at the start; other connections follow at their next use.

        Only the owner of the first connection calls it.  Raises StoreError if it cannot be opened
        now, also while a statement still runs on another connection.
        """
        file = self._file
        if self._connection is None or file is None:
            raise StoreClosed
        self._shared.lose()
        self._generation = self._shared.generation
        assert self._commits is not None
        self._lender, self._statements = None, Statements()
        with self._commits.tail.flushing:
            try:
                self._commits.tail.close()
                self._connection.close()
                file.write_again()
                self._open(file, accept=False, keep_old=False)
                self._share()
            except (duckdb.Error, OSError) as error:
                raise self._translated(error) from error
            finally:
                if self._shared.is_lost:
                    self._generation = _NEVER

    def _create(self, store: str) -> None:
        """Create the tables of a store with an id."""
        with self.transaction():
            self.connection.execute(SCHEMA + FIRST_ROWS + COUNTED)
            self.fetch("INSERT INTO mark.store (id, journal) VALUES (?, 0)", [store])
            self.fetch(_COUNT)

    def _version(self, path: Path, tables: Sequence[Table]) -> int:
        if ("state", "meta") not in [table[:2] for table in tables]:
            raise StoreDamaged(path, "it is a database of something else")
        found = self.meta("version")
        expect_readable(path, found, tables)
        if self.meta(_CELLS):  # it has documents and matches, and no state of joins
            raise StoreError(
                f"the store {path} belongs to the driver of a cluster",
                hint="this version has none; export subscriptions and feeds with version 0.2, and"
                " import them into a new data directory",
            )
        return found

    def _keep_old(self, path: Path, found: int) -> Path:
        """Copy the unchanged database, and return the copy's path."""
        kept = path.with_name(f"{path.name}.v{found}")
        self._write_log()
        self._raw.close()
        copy_durably(path, kept)
        self._connection = connect(path)
        return kept

    def _upgrade(self, found: int, kept: Path | None) -> None:
        """Migrate a store of an earlier version to this one."""
        with self.transaction():
            migrate(self.fetch, found)
            self.fetch(_COUNT)
        if kept is not None:
            _log.warning(
                "the store %s is of version %d now; what it was, version %d, is kept in %s",
                *(self.path, current_version(), found, kept),
            )

    @property
    def image_path(self) -> Path | None:
        """The path of the image of stage 1, which shortens a restart
        (`xscl.shredding.remote.image`)."""
        return None if self.path is None else self.path.with_name(f"{self.path.name}.image")

    def seen(self) -> CommitPoint:
        """Return the id of the store and its number of commits."""
        ((store, commits),) = self.fetch(SEEN)
        return CommitPoint(store, int(commits))

    # -- Changing --------------------------------------------------------------------------

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection to the database, which has all commits that were made before.

        Where only the journal has them, they are brought.  In a transaction that has only appended
        so far, a transaction of DuckDB begins with what it has appended.  Raises StoreClosed after
        `close`, StoreUnavailable while the database is lost.
        """
        connection = self._raw
        if self._appends is not None:
            self._begin_directly(self._appends)
        elif not self._is_within:
            self.flush()
        return connection

    @property
    def _raw(self) -> duckdb.DuckDBPyConnection:
        """The connection to the database, which may lack the newest commits."""
        self.expect_open()
        assert self._connection is not None
        return self._connection

    def expect_open(self) -> None:
        """Connect again if the database was opened again; raise what `connection` raises."""
        if self._connection is None:
            raise StoreClosed
        if self._generation != self._shared.generation:
            if self._shared.is_closed:
                raise StoreClosed
            if self._shared.is_lost or self._is_within or self._own:
                raise StoreUnavailable(self.path)
            with self.translate_errors():
                self._connect()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        self.expect_open()
        commits = self._commits
        if commits is not None and (commits.tail.is_full or not self._own):
            commits.bring()
        is_made = commits is not None and (self.path is None or commits.mark is not None)
        with self._transacting(is_journalled=is_made and self._own and self._is_journalled):
            yield

    @contextmanager
    def _transacting(
        self, *, is_journalled: bool = False, records: Sequence[Record] = ()
    ) -> Iterator[None]:
        """Run a transaction that may be committed to the journal, or that brings its records."""
        with self.translate_errors(), self._on_one_connection():
            try:
                if is_journalled:
                    self._appends = Appends()
                else:
                    self._begin()
                yield
                reached("before_commit")
                if self._appends is not None and self._appends.nbytes > BULK:
                    self._begin_directly(self._appends)
                if self._appends is None:
                    self._commit(records)
                else:
                    assert self._commits is not None
                    self._commits.append(self._appends)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._appends, self._is_direct = None, False

    def _begin(self) -> None:
        self._raw.execute(self._parsed("BEGIN TRANSACTION"))
        self._is_direct = True

    def _begin_directly(self, appends: Appends) -> None:
        """Begin a transaction of DuckDB with what this transaction has appended."""
        self._appends = None
        self.flush()
        self._begin()
        appends.write(self)

    def _roll_back(self) -> None:
        if self._is_direct and self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except duckdb.Error as error:  # a failed commit has ended the transaction
                if is_lost(error):
                    self.lose(error)
        if self._lender is not None:
            self._lender.forget()

    @contextmanager
    def _on_one_connection(self) -> Iterator[None]:
        """Raise StoreUnavailable within the block if the database is opened again meanwhile."""
        self._is_within = True
        try:
            yield
        finally:
            self._is_within = False

    def flush(self) -> None:
        """Bring to the database what only the journal has; any thread may call it."""
        if self._commits is not None:
            self._commits.bring()

    def bring(self, records: Sequence[Record]) -> None:
        """Write records of the journal in one transaction, with the number of the last one."""
        self.expect_open()
        with self._transacting(records=records):
            Appends.of(record.payload for record in records).write(self)
            if self.path is not None:
                self.fetch("UPDATE mark.store SET journal = ?", [records[-1].number])
        self.lender.release()

    def _commit(self, records: Sequence[Record]) -> None:
        """Commit the transaction of DuckDB."""
        connection = self._raw

        def count() -> int:
            if len(records) > 1:
                counted = connection.execute(self._parsed(_COUNT_RECORDS), [len(records)])
            else:
                counted = self.lender.execute_planned("counted", _COUNT)
            ((commits,),) = counted.fetchall()
            return int(commits)

        def commit() -> None:
            connection.execute(self._parsed("COMMIT"))

        assert self._commits is not None
        if self._commits.mark is None:
            self._commits.commit_unmarked(commit, records)
        else:
            self._commits.commit(count, commit, records)
            self._commits.checkpoint_if_due(self._checkpoint)

    def release_purged(self) -> None:
        """Release what DuckDB keeps of removed rows: in a file they are in the log until then."""
        if self._commits is not None and self._commits.mark is not None:
            self._commits.checkpoint_if_due(self._checkpoint, LOG_BYTES_OF_A_PURGE)
        try:  # a reader beside this one has a gigabyte: the limit holds for it, too
            release_memory(self.fetch, memory_of(self.fetch) + (1 << 30))
        except StoreError as error:  # the removal is durable and may not be reported as failed
            _log.warning("no memory of %s was released: %s", self.path, first_line(error))

    def _checkpoint(self) -> None:
        """Make a checkpoint; raises CheckpointPostponed, and errors that invalidate the database.

        DuckDB ends a statement that Ctrl-C has interrupted with a RuntimeError, here after the
        checkpoint.
        """
        try:
            self._write_log()
        except (OSError, StoreError, duckdb.TransactionException) as error:
            raise CheckpointPostponed(first_line(error)) from error
        except RuntimeError as error:
            raise KeyboardInterrupt from error

    def _write_log(self) -> None:
        """Write the log to the database; raises OSError, StoreError and errors of DuckDB."""
        assert self._file is not None
        blocks = self._raw.execute(f"SELECT block_id FROM pragma_metadata_info('{FILE}')")
        self._file.copy_blocks([number for (number,) in blocks.fetchall()])
        self._raw.execute("CHECKPOINT")
        self._file.forget_log()

    def lend(self, name: str, rows: pa.Table) -> None:
        """Register an Arrow table under a name for later queries."""
        self.lender.lend(name, rows)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append the rows of an Arrow table, by the names of their columns."""
        self.append(table, rows.select(self._schema(table).names))

    def append(self, table: str, rows: pa.Table) -> None:
        """Append the rows of an Arrow table, column by column in the order of the table."""
        self.lender.insert(table, rows)

    def remove(self, table: str, numbers: Sequence[int]) -> None:
        """Remove numbered entries of a table (`xscl.store.tail.NUMBERED`)."""
        if self._appends is not None:
            self._appends.remove(table, numbers)
        elif numbers:
            listed, parameters = among(numbers)
            self.fetch(f"DELETE FROM {table} WHERE {NUMBERED[table]} IN ({listed})", parameters)

    def insert_rows(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Append rows of Python values by the names of columns, all of the table."""
        columns: dict[str, list[object]] = {name: [] for name in self._schema(table).names}
        for row in rows:
            for name, column in columns.items():
                column.append(row[name])
        self.insert(table, self.typed(table, columns))

    def typed(self, table: str, columns: Mapping[str, Any]) -> pa.Table:
        """Return columns of values, by their names, as an Arrow table like a stored one."""
        schema = self._schema(table)
        return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)

    def columns_of(self, table: str) -> str:
        """Return SQL for the names of the columns of a table, where all are read."""
        return named(self._schema(table).names)

    def _schema(self, table: str) -> pa.Schema:
        if table not in self._schemas:
            empty = self._raw.sql(f"FROM {table} LIMIT 0").to_arrow_table()
            self._schemas[table] = empty.schema
        return self._schemas[table]

    @property
    def lender(self) -> Lender:
        """The lender of Arrow tables on this connection; a connection has only one."""
        if self._lender is None:
            self._lender = _AppendingLender(self)
        self.expect_open()
        return self._lender

    def set_progress(self, **values: int) -> None:
        """Write some numbers of a push: columns of the single row of `progress`."""
        if self._appends is not None:
            self._appends.set_progress(**values)
            return
        written = ", ".join(f"{name} = ?" for name in values)
        update = self._parsed(f"UPDATE state.progress SET {written}")
        self.connection.execute(update, [int(value) for value in values.values()])

    def _parsed(self, statement: str) -> duckdb.Statement | str:
        return self._statements.parsed(self._raw, statement)

    def set_meta(self, **values: int) -> None:
        """Write named numbers that rarely change."""
        for item in values.items():
            self.connection.execute("DELETE FROM state.meta WHERE key = ?", item[:1])
            self.connection.execute("INSERT INTO state.meta (key, value) VALUES (?, ?)", item)

    # -- Reading ---------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse every change within the block, also one inside a SELECT.

        Reads see the snapshot of the first read.  What the disk has no room for the owner writes
        there, too, and rolls it back.  Until then nobody brings it to the database, for the rows of
        two transactions would be in conflict.
        """
        with ExitStack() as stack:
            lacking = self._lacking(stack)
            connection = self._raw
            with self._on_one_connection(), self.lender.rolled_back():
                with self.translate_errors():
                    begun = f"BEGIN TRANSACTION{'' if lacking else ' READ ONLY'}"
                    connection.execute(self._parsed(begun))
                try:
                    if lacking:
                        lacking.write(self)
                    yield
                finally:
                    with self.translate_errors():
                        connection.execute(self._parsed("ROLLBACK"))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Make all commits readable in the block, which writes nothing, also on a full disk."""
        with ExitStack() as stack:
            if self._lacking(stack):
                stack.close()
                stack.enter_context(self.reading())
            yield

    def _lacking(self, stack: ExitStack) -> Appends:
        """Return the rows that the database lacks and has no room for; it stays so until the exit.

        Only the connection of the owner writes them.
        """
        try:
            self.flush()
        except StoreError as error:
            if self._commits is None or not self._own or not is_full(error):
                raise
            stack.enter_context(self._commits.tail.flushing)
            return Appends.of(record.payload for record in self._commits.tail.records)
        return Appends()

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.translate_errors():
            connection = self.connection
            return connection.execute(self._parsed(query), list(parameters)).fetchall()

    def rows(
        self, query: str, parameters: Sequence[object] = (), *, newest: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Return all rows of a query, which runs now, each by the names of its columns.

        Unless they are the `newest`, those of the newest commits may lack (see `peek`).
        """
        with self.translate_errors():
            connection = self.connection if newest else self._raw
            answer = connection.execute(self._parsed(query), list(parameters))
            values, names = answer.fetchall(), [column[0] for column in answer.description]
        return (dict(zip(names, row, strict=True)) for row in values)

    def row(self, query: str) -> dict[str, Any]:
        """Return the single row of a query, by the names of its columns."""
        (found,) = self.rows(query)
        return found

    def peek(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, without those of the newest commits.

        For rows that are asked for by their numbers: if one is missing, `fetch` finds it.
        """
        with self.translate_errors():
            return self._raw.execute(self._parsed(query), list(parameters)).fetchall()

    def arrow(self, query: str) -> pa.Table:
        """Return the answer of a query as an Arrow table."""
        with self.translate_errors():
            return self.answer(query)

    def answer(self, query: str) -> pa.Table:
        """Return the answer of a user's query; errors are DuckDB's own."""
        return self.connection.sql(query).to_arrow_table()

    def progress(self, name: str) -> int:
        """Return one number of the last push."""
        (value,) = self.numbers(name)
        return value

    def numbers(self, *names: str) -> tuple[int, ...]:
        """Return some numbers of the last push, by one statement."""
        (values,) = self.fetch(f"SELECT {', '.join(names)} FROM state.progress")
        return tuple(map(int, values))

    def meta(self, key: str) -> int:
        """Return a named number, 0 if there is none."""
        rows = self.fetch("SELECT value FROM state.meta WHERE key = ?", [key])
        return int(rows[0][0]) if rows else 0

    # -- Errors ----------------------------------------------------------------------------

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Convert errors of DuckDB to errors of the store."""
        try:
            yield
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        if self.path is not None and (holder := _HOLDER.search(str(error))):
            return StoreInUse(self.path, int(holder[1]))
        is_opening = self._shared.is_lost and self._generation == self._shared.generation
        if self.path is not None and is_lost(error) and not is_opening:
            self.lose(error)
            return StoreUnavailable(self.path, first_line(error))
        if is_ended(error) and self._generation != self._shared.generation:
            return StoreClosed() if self._shared.is_closed else StoreUnavailable(self.path)
        answer = store_error(self.path, error)
        if isinstance(answer, StoreDamaged) and self._commits is not None:
            self._commits.is_sound = False
        return answer

    # -- Beside, copied, closed ------------------------------------------------------------

    def connect_again(self) -> Store:
        """Return the store on a new connection, for another thread."""
        other = copy.copy(self)
        other._own = False
        other._schemas, other._is_within = {}, False
        other._appends, other._is_direct = None, False
        if self._connection is None or self._shared.is_closed:
            raise StoreClosed
        if self._shared.is_lost:
            raise StoreUnavailable(self.path)
        with self.translate_errors():
            other._connect()
        return other

    def _connect(self) -> None:
        """Replace the connection by a new one of the current generation."""
        self._lender, self._statements = None, Statements()
        self._connection, self._generation = self._shared.connect()
        self._connection.execute(f"USE {FILE}")

    @contextmanager
    def frozen_files(
        self, between: Callable[[Store], None] = lambda store: None
    ) -> Iterator[tuple[CommitPoint, tuple[FilePart, ...]]]:
        """Yield the files as of a moment between two commits; later commits may follow.

        A commit appends to the log, and only a checkpoint writes the log to the database; none runs
        within the block.  `between` is called before, while no commit runs, with a connection that
        sees exactly the content of the files.
        """
        file = self._file
        if file is None or file.mark is None:
            raise BackupError("a store in memory has no files that could be copied")
        assert self._commits is not None
        with file.resting, closing(self.connect_again()) as other, ExitStack() as stack:
            with self._commits.tail.flushing, file.mark.lock:
                self.flush()  # nothing follows until the lock is free
                seen, parts = other.seen(), stack.enter_context(file.parts())
                between(other)
            yield seen, parts

    def close(self) -> None:
        """Close the connection; later calls raise StoreClosed."""
        reached("closing")
        if self._own and self._commits is not None:
            self._finish(self._commits)
        mark = self._file.mark if self._own and self._file is not None else None
        with nullcontext() if mark is None else mark.lock:  # no checkpoint reads a released file
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            if self._own:
                self._release()

    def _release(self) -> None:
        """Release the file, or the instance of DuckDB in memory."""
        self._shared.close()
        if self._memory is not None:
            self._memory.release()
            self._memory = None
        if self._file is not None:
            self._file.release()
            self._file = None

    def _finish(self, commits: Commits) -> None:
        """Bring journal and log to the database; if that fails, the next start has them."""
        if self.path is not None and self._connection is not None and not self._shared.is_lost:
            try:
                commits.bring()
            except StoreError as error:
                _log.warning("the journal of %s waits for the next start: %s", self.path, error)
            else:
                commits.checkpoint_at_end(self._checkpoint)
        commits.close()


class _AppendingLender(Lender):
    """The lender of a store's connection: within a transaction that appends, rows are collected."""

    def __init__(self, store: Store) -> None:
        super().__init__(store._raw)
        self._store = store

    @property
    def is_behind(self) -> bool:
        """Return whether the database lacks rows: those of this transaction or of the journal."""
        store = self._store
        commits = store._commits
        return bool(store._appends) or bool(commits and commits.tail.records)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table `state.*`, column by column in its order."""
        if self._store._appends is not None:
            self._store._appends.insert(table, rows)
        else:
            super().insert(table, rows)


_NEVER = -2
"""The generation of a connection that cannot be used until the database is opened again."""
