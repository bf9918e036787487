"""The store: all durable state in one DuckDB database, in a file or in memory.

A push is one transaction, so a batch is stored completely or not at all.  The relations of the
two stages belong to `templates.registry.registry`; documents, subscriptions, results and consumed
offsets are here.  `xscl.inspection.relations` shows all under the paper's names.

One process at a time opens a store in a file (`xscl.store.store_lock`).  Before anything is
written, the whole store is read, because DuckDB verifies a block's checksum only when it reads
the block, and compared with its mark (`xscl.store.commit_watermark`).  A refused store stays
unchanged.
"""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias, cast

import duckdb
import pyarrow as pa

from feeds.faultpoints import reached
from templates.columns.arrow_tables import Lender
from templates.model.relations import INFINITE
from templates.registry import registry
from xscl.errors import StoreError
from xscl.store.atomic_files import copy_durably
from xscl.store.commit_watermark import CommitPoint
from xscl.store.database import (
    FILE,
    THREADS,
    MemoryDatabase,
    SharedDatabase,
    connect,
    is_ended,
    is_lost,
)
from xscl.store.journal import Record, read_journal
from xscl.store.migrations import FIRST, LAST_TABLE, current_version, is_readable, migrate
from xscl.store.store_errors import (
    BackupError,
    StoreClosed,
    StoreDamaged,
    StoreInUse,
    StoreUnavailable,
    WrongVersion,
    store_error,
)
from xscl.store.store_file import FilePart, StoreFile, new_id
from xscl.store.tail import BULK, NUMBERED, Appends, Tail

SCHEMA = """
CREATE SCHEMA state;
CREATE TABLE state.meta(key VARCHAR, value BIGINT);
CREATE TABLE state.progress(
    position BIGINT, told BIGINT, clock BIGINT, next_doc BIGINT, segment BIGINT,
    texts_from BIGINT, matches_from BIGINT, documents_from BIGINT, documents_forgotten BIGINT,
    text_bytes BIGINT);
CREATE TABLE state.stream(name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN,
    attributes VARCHAR);
CREATE TABLE state.document(
    doc BIGINT, id VARCHAR, given VARCHAR, version INTEGER, streams VARCHAR[], ts BIGINT,
    clock BIGINT, rank BIGINT, base BIGINT, first BIGINT, hash BLOB, history BOOLEAN,
    origin VARCHAR, arrived BIGINT);
CREATE TABLE state.text(doc BIGINT, xml BLOB);
CREATE TABLE state.composite(
    doc BIGINT, docs BIGINT[], nodes INTEGER[], vals VARCHAR[], start BIGINT, ts BIGINT,
    clock BIGINT, rank BIGINT, first BIGINT, version INTEGER, bases BIGINT[]);
CREATE TABLE state.composite_stream(number INTEGER, definition VARCHAR);
CREATE TABLE state.subscription(
    number INTEGER, name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER,
    outputs VARCHAR[], places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN,
    publish VARCHAR, reads VARCHAR[], ordered BOOLEAN, language VARCHAR,
    columns VARCHAR[], events VARCHAR, key VARCHAR, version INTEGER, after BIGINT, until BIGINT,
    bound_to BIGINT, backfilled BIGINT, live BIGINT[]);
CREATE TABLE state.retired(
    number INTEGER, name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER,
    outputs VARCHAR[], places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN,
    publish VARCHAR, reads VARCHAR[], ordered BOOLEAN, language VARCHAR,
    columns VARCHAR[], events VARCHAR, key VARCHAR, version INTEGER, after BIGINT, until BIGINT,
    bound_to BIGINT, backfilled BIGINT, live BIGINT[]);
CREATE TABLE state.backfill(
    subscription INTEGER, key VARCHAR, doc BIGINT, clock BIGINT, most BIGINT,
    acknowledged BOOLEAN);
CREATE TABLE state.core(number BIGINT, entry BLOB);
CREATE TABLE state.late(doc BIGINT, missed VARCHAR, watermark BIGINT, lateness BIGINT);
CREATE TABLE state.result(
    position BIGINT, qid INTEGER, doc1 BIGINT, doc2 BIGINT, nodes INTEGER[]);
CREATE TABLE state.cut(qid INTEGER, doc BIGINT, id VARCHAR);
CREATE TABLE state.ledger(query_id VARCHAR, batch_id BIGINT);
CREATE TABLE state.rejected(
    stream VARCHAR, id VARCHAR, reason VARCHAR, line INTEGER, "column" INTEGER,
    message VARCHAR, sha256 VARCHAR, beginning BLOB, clock BIGINT);
CREATE TABLE state.account(number INTEGER, name VARCHAR, quota VARCHAR, created BIGINT);
CREATE TABLE state.token(
    id VARCHAR, account INTEGER, label VARCHAR, hash BLOB, created BIGINT, expires BIGINT,
    session BOOLEAN, parent VARCHAR);
CREATE TABLE state.owned_stream(account INTEGER, name VARCHAR);
CREATE TABLE state.endpoint(
    id VARCHAR, subscription VARCHAR, kind VARCHAR, config VARCHAR, state VARCHAR,
    position BIGINT, failures INTEGER, next_try BIGINT, note VARCHAR, created BIGINT);
CREATE TABLE state.dead_letter(
    endpoint VARCHAR, message VARCHAR, position BIGINT, last BIGINT, died BIGINT,
    attempts INTEGER, reason VARCHAR, next_try BIGINT);
CREATE TABLE state.secret_address(
    hash BLOB, id VARCHAR, subscription VARCHAR, label VARCHAR, created BIGINT);
CREATE TABLE state.star(
    account INTEGER, match VARCHAR, subscription VARCHAR, starred BIGINT, view VARCHAR);
CREATE TABLE state.subscription_tag(subscription VARCHAR, tag VARCHAR);
CREATE TABLE state.saved_statement(
    account INTEGER, name VARCHAR, statement VARCHAR, saved BIGINT);
"""

_COUNTED = """
CREATE SCHEMA mark;
CREATE SEQUENCE mark.commits;
CREATE TABLE mark.store(id VARCHAR, journal BIGINT);
"""
"""What the file beside the store is compared with (`xscl.store.commit_watermark`).

The count is a sequence, because concurrent transactions would conflict over a row; it is taken
right before the commit, in the order of commits.  `journal` is the number of the last record of the
journal (`xscl.store.journal`) whose rows are here.  All of it is apart from `state`, which says
what was pushed, not when.
"""

_FIRST_ROWS = f"""
INSERT INTO state.progress VALUES (0, -1, {-INFINITE >> 1}, 1, 0, 0, 0, 0, 0, 0);
INSERT INTO state.meta VALUES ('version', {current_version()});
"""

_COUNT = "SELECT nextval('mark.commits')"
_COUNT_RECORDS = "SELECT max(nextval('mark.commits')) FROM range(?)"
SEEN = (
    "SELECT id, (SELECT last_value FROM duckdb_sequences() WHERE schema_name = 'mark')"
    " FROM mark.store"
)
"""The statement that reads the id of a store and its number of commits."""

READ_WHOLE = 1 << 26
"""Bytes of a database up to which opening it reads the texts, too."""

_log = logging.getLogger(__name__)

_HOLDER = re.compile(r"\(PID (\d+)\)")  # in DuckDB's words for a lock that another process has


class Store:
    """The connection to the database, its schema, and plain reads and writes.

    With `accept` the store is opened whatever its mark says.  With `keep_old` a copy of an earlier
    version is kept.  If `journalled`, a transaction that only appends is committed to the journal
    (`xscl.store.journal`), else to the database; a journal that is there is read in both cases.
    After a write that has invalidated the database, every use raises
    StoreUnavailable until `reopen`; a transaction never continues on another connection.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        accept: bool = False,
        keep_old: bool = True,
        journalled: bool = False,
    ) -> None:
        self._is_journalled = journalled
        self.path = None if path is None else Path(path).resolve()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._memory: MemoryDatabase | None = None
        self._lender: Lender | None = None
        self._statements: dict[str, duckdb.Statement] = {}
        self._schemas: dict[str, pa.Schema] = {}
        self._file: StoreFile | None = None
        self._own = True
        self._shared = SharedDatabase()
        self._generation = self._shared.generation
        self._is_within = False  # a transaction
        self._appends: Appends | None = None  # of a transaction that has only appended
        self._is_direct = False  # a transaction of DuckDB is open
        self._tail = None if path is None else Tail()
        self._flusher: list[Store] = []  # at most one, shared by all connections
        try:
            if self.path is None:
                self._memory = MemoryDatabase()
                self._connection = self._memory.connection
                self._connection.execute(SCHEMA + registry.SCHEMA + _FIRST_ROWS)
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
        assert self._tail is not None
        seen = file.make_ready(accept=accept)
        making = not file.path.exists()
        self._connection = connect(file.path)
        file.claim.acquire()
        # Asked once: for the first such question DuckDB makes all its own views, for 16 ms.
        tables = [] if making else self.fetch(_TABLES)
        if tables:
            found = self._version(file.path, tables)
            self._read_all(file.path, tables)
        else:  # it is new, or its making was broken off
            if not accept:
                file.compare(seen, None)
            self._create(new_id() if seen is None else seen.store)
            found = current_version()
        counted = self.seen()
        known, records = _journalled(self.fetch, file.path, counted)
        now = CommitPoint(counted.store, counted.commits + len(records))
        if not accept:
            file.compare(seen, now)
        if found < current_version():
            kept = self._keep_old(file.path, found) if keep_old else None
            self._upgrade(found, kept)
            counted = now = self.seen()
        file.follow(seen, now)
        self._tail.begin(file.path, counted.store, counted.commits, known, records)
        self._raw.execute("PRAGMA enable_checkpoint_on_shutdown")

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
            _log.error("the store %s has to be opened again: %s", self.path, _line(error))
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
        assert self._tail is not None
        self._lender, self._statements = None, {}
        with self._tail.flushing:
            self._tail.close()
            try:
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
            self.connection.execute(SCHEMA + registry.SCHEMA + _FIRST_ROWS + _COUNTED)
            self.fetch("INSERT INTO mark.store VALUES (?, 0)", [store])
            self.fetch(_COUNT)

    def _version(self, path: Path, tables: Sequence[_Table]) -> int:
        if ("state", "meta") not in [table[:2] for table in tables]:
            raise StoreDamaged(path, "it is a database of something else")
        found = self.meta("version")
        _expect_readable(path, found, tables)
        return found

    def _read_all(self, path: Path, tables: Sequence[_Table]) -> None:
        """Read every block, so that a damaged one is found before anything relies on it.

        This takes about 4 s for 1 GB.  In a large store texts are skipped: they are most of it, and
        no join depends on them.  A damaged text is reported when it is read.
        """
        size = path.stat().st_size
        large = size > READ_WHOLE
        ((used,),) = self.fetch("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
        if large:
            self.fetch("RESET threads")  # one for each processor
        self.fetch(_reading(tables, size))
        if large:
            self.fetch(f"SET threads = {THREADS}")
        # Blocks that were read stay in memory up to its limit: give them back.
        self.fetch(f"SET memory_limit = '{(int(used) >> 20) + 32} MiB'")
        self.fetch("RESET memory_limit")

    def _keep_old(self, path: Path, found: int) -> Path:
        """Copy the unchanged database, and return the copy's path."""
        kept = path.with_name(f"{path.name}.v{found}")
        self._raw.execute("PRAGMA enable_checkpoint_on_shutdown")
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

    @property
    def current(self) -> duckdb.DuckDBPyConnection:
        """The connection for parts that keep it: each use is one of `connection`."""
        return cast(duckdb.DuckDBPyConnection, CurrentConnection(self))

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
    def transaction(self, committed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Commit what the block writes, or nothing of it.

        `committed` is called right after COMMIT; writing the mark can still raise.
        """
        self.expect_open()
        tail = self._tail
        is_open = self._own and self._file is not None and self._file.mark is not None
        if tail is not None and (tail.is_full or not self._own):
            self.flush()
        with self._transacting(committed, is_journalled=is_open and self._is_journalled):
            yield

    @contextmanager
    def _transacting(
        self,
        committed: Callable[[], None] = lambda: None,
        *,
        is_journalled: bool = False,
        records: Sequence[Record] = (),
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
                    self._commit(committed, records)
                else:
                    self._append(self._appends, committed)
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

    def _append(self, appends: Appends, committed: Callable[[], None]) -> None:
        """Commit to the journal, and advance the mark."""
        tail, mark = self._tail, None if self._file is None else self._file.mark
        assert tail is not None
        assert mark is not None
        payload = appends.encode() if appends else b""
        with mark.lock:
            try:
                if payload:
                    tail.append(payload)
                committed()
                reached("after_commit")
                if payload:
                    mark.write(tail.commits)
            except OSError as error:
                if tail.is_broken:
                    self.lose(error)
                raise self._translated(error) from error
            reached("marked")

    def flush(self) -> None:
        """Bring to the database what only the journal has; any thread may call it."""
        tail = self._tail
        if tail is None or not tail.records:
            return
        with tail.flushing:
            if records := tail.records:
                if not self._flusher:
                    self._flusher.append(self.connect_again())
                self._flusher[0]._bring(records)

    def _bring(self, records: Sequence[Record]) -> None:
        """Write records of the journal in one transaction, with the number of the last one."""
        self.expect_open()
        with self._transacting(records=records):
            Appends.of(record.payload for record in records).write(self)
            self.fetch("UPDATE mark.store SET journal = ?", [records[-1].number])
        self.lender.release()

    def _commit(self, committed: Callable[[], None], records: Sequence[Record]) -> None:
        """Commit, and advance the mark, which counts the records of the journal already."""
        connection = self._raw
        file = self._file
        mark = None if file is None else file.mark
        if file is None or mark is None or self._tail is None:
            connection.execute(self._parsed("COMMIT"))
            committed()
            reached("after_commit")
            return
        with mark.lock:
            if records:
                counted = connection.execute(_COUNT_RECORDS, [len(records)])
            else:
                counted = self.lender.execute_planned("counted", _COUNT)
            ((commits,),) = counted.fetchall()
            size = file.log_size()
            try:
                connection.execute(self._parsed("COMMIT"))
            except duckdb.Error as error:
                if file.log_size() != size:  # later commits would follow a damaged entry
                    self.lose(error)
                raise
            self._tail.note_commit(commits, records)
            committed()
            reached("after_commit")
            try:
                file.forget_log()
                if not records:
                    mark.write(self._tail.commits)
            except OSError as error:
                raise self._translated(error) from error
            reached("marked")

    def lend(self, name: str, rows: pa.Table) -> None:
        """Register an Arrow table under a name for later queries."""
        self.lender.lend(name, rows)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append the rows of an Arrow table, column by column in the table's order."""
        self.lender.insert(table, rows)

    def remove(self, table: str, numbers: Sequence[int]) -> None:
        """Remove numbered entries of a table (`xscl.store.tail.NUMBERED`)."""
        if self._appends is not None:
            self._appends.remove(table, numbers)
        elif numbers:
            self.lend("gone", pa.table({"number": pa.array(numbers, pa.int64())}))
            self.fetch(f"DELETE FROM {table} WHERE {NUMBERED[table]} IN (SELECT number FROM gone)")

    def insert_rows(self, table: str, rows: Iterable[Sequence[object]]) -> None:
        """Append rows of Python values, each in the order of the table's columns."""
        columns = list(zip(*rows, strict=True))
        if columns:
            self.insert(table, self.typed(table, columns))

    def typed(self, table: str, columns: Iterable[Any]) -> pa.Table:
        """Return columns of values as an Arrow table with the names and types of a stored one."""
        if table not in self._schemas:
            empty = self._raw.sql(f"FROM {table} LIMIT 0").to_arrow_table()
            self._schemas[table] = empty.schema
        schema = self._schemas[table]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return pa.table(arrays, schema=schema)

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

    def _parsed(self, statement: str) -> duckdb.Statement:
        """Return a statement that every push executes, parsed once."""
        parsed = self._statements.get(statement)
        if parsed is None:
            (parsed,) = self._raw.extract_statements(statement)
            self._statements[statement] = parsed
        return parsed

    def set_meta(self, **values: int) -> None:
        """Write named numbers that rarely change."""
        for item in values.items():
            self.connection.execute("DELETE FROM state.meta WHERE key = ?", item[:1])
            self.connection.execute("INSERT INTO state.meta VALUES (?, ?)", item)

    # -- Reading ---------------------------------------------------------------------------

    @contextmanager
    def reading(self, begin: Callable[[], None] | None = None) -> Iterator[None]:
        """Refuse every change within the block, also one inside a SELECT.

        Reads see the snapshot of the first read, and the writes of `begin`.  With `begin` the
        changes are rolled back, except those of sequences (see `refuse_changes`).
        """
        connection = self.connection
        with self._on_one_connection():
            with self.translate_errors():
                connection.execute(f"BEGIN TRANSACTION{' READ ONLY' if begin is None else ''}")
            try:
                if begin is not None:
                    begin()
                yield
            finally:
                with self.translate_errors():
                    connection.execute("ROLLBACK")

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self.translate_errors():
            return self.connection.execute(query, list(parameters)).fetchall()

    def peek(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, without those of the newest commits.

        For rows that are asked for by their numbers: if one is missing, `fetch` finds it.
        """
        with self.translate_errors():
            return self._raw.execute(query, list(parameters)).fetchall()

    def arrow(self, query: str) -> pa.Table:
        """Return the answer of a query as an Arrow table."""
        with self.translate_errors():
            return self.answer(query)

    def answer(self, query: str) -> pa.Table:
        """Return the answer of a user's query; errors are DuckDB's own."""
        return self.connection.sql(query).to_arrow_table()

    def refuse_changes(self, query: str) -> None:
        """Raise duckdb.Error if a user's query would change anything; only within `reading`.

        Planning the query is enough.
        """
        self.connection.sql(query).explain()

    def has(self, table: str) -> bool:
        """Return True if the optional table `state.*` exists."""
        return bool(
            self.fetch(
                "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database()"
                " AND schema_name = 'state' AND table_name = ?",
                [table],
            )
        )

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
            return StoreUnavailable(self.path, _line(error))
        if is_ended(error) and self._generation != self._shared.generation:
            return StoreClosed() if self._shared.is_closed else StoreUnavailable(self.path)
        answer = store_error(self.path, error)
        if isinstance(answer, StoreDamaged) and self._connection is not None:
            with suppress(duckdb.Error):  # the damage is what to report
                self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
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
        self._lender, self._statements = None, {}
        self._connection, self._generation = self._shared.connect()
        self._connection.execute(f"USE {FILE}")

    @contextmanager
    def frozen_files(
        self, between: Callable[[Store], None] = lambda store: None
    ) -> Iterator[tuple[CommitPoint, tuple[FilePart, ...]]]:
        """Yield the files as of a moment between two commits; later commits may follow.

        A commit appends to the log, and only a checkpoint writes the log to the database, so no
        checkpoint runs within the block.  `between` is called before, while no commit runs, with a
        connection that sees exactly the content of the files.
        """
        file = self._file
        if file is None or file.mark is None:
            raise BackupError("a store in memory has no files that could be copied")
        assert self._tail is not None
        with file.resting, closing(self.connect_again()) as other:
            ((before,),) = other.fetch("SELECT current_setting('checkpoint_threshold')")
            other.fetch("SET checkpoint_threshold = '1000 TiB'")
            try:
                with ExitStack() as stack:
                    with self._tail.flushing, file.mark.lock:
                        self.flush()  # nothing follows until the lock is free
                        seen, parts = other.seen(), stack.enter_context(file.parts())
                        between(other)
                    yield seen, parts
            finally:
                other.fetch(f"SET checkpoint_threshold = '{before}'")

    def close(self) -> None:
        """Close the connection; later calls raise StoreClosed."""
        reached("closing")
        if self._own and self._tail is not None:
            self._close_journal(self._tail)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._own:
            self._shared.close()
            if self._memory is not None:
                self._memory.release()
                self._memory = None
            if self._file is not None:
                self._file.release()
                self._file = None

    def _close_journal(self, tail: Tail) -> None:
        """Bring the journal to the database; if that fails, the next start does."""
        with tail.flushing:
            if self._connection is not None and not self._shared.is_lost:
                try:
                    self.flush()
                except StoreError as error:
                    _log.warning("the journal of %s waits for the next start: %s", self.path, error)
            while self._flusher:
                self._flusher.pop().close()
            tail.close()


class _AppendingLender(Lender):
    """The lender of a store's connection: within a transaction that appends, rows are collected."""

    def __init__(self, store: Store) -> None:
        super().__init__(store._raw)
        self._store = store

    @property
    def is_behind(self) -> bool:
        """Return whether the database lacks rows: those of this transaction or of the journal."""
        store = self._store
        return store._appends is not None or bool(store._tail and store._tail.records)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table `state.*`, column by column in its order."""
        if self._store._appends is not None:
            self._store._appends.insert(table, rows)
        else:
            super().insert(table, rows)


class CurrentConnection:
    """The connection of a store for parts that keep it: each use is one of `Store.connection`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.connection, name)


_JOURNAL_COLUMN = (
    "SELECT 1 FROM duckdb_columns() WHERE database_name = current_database()"
    " AND (schema_name, table_name, column_name) = ('mark', 'store', 'journal')"
)

_NEVER = -2
"""The generation of a connection that cannot be used until the database is opened again."""


def _line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).splitlines()), type(error).__name__)


_Table: TypeAlias = tuple[str, str, int]
"""Of a table: its schema, its name, its rows with those that were deleted."""

_TABLES = "SELECT schema_name, table_name, estimated_size FROM duckdb_tables() WHERE NOT temporary"


def _reading(tables: Iterable[_Table], size: int) -> str:
    """Return the statements that read all blocks of some tables in a database of so many bytes.

    One statement for each would cost more than reading a small store.
    """
    few = {"text": "doc"} if size > READ_WHOLE else {}
    return " UNION ALL ".join(
        f'SELECT bit_xor(hash({few.get(table, "rows")})) FROM "{schema}"."{table}" rows'
        for schema, table, rows in tables
        if rows
    )


def _expect_readable(path: Path, version: int, tables: Iterable[_Table]) -> None:
    """Raise WrongVersion unless this release reads stores of a version with some tables."""
    is_early = version == FIRST and LAST_TABLE not in (table[:2] for table in tables)
    if is_early or not is_readable(version):
        raise WrongVersion(path, version)


def _journalled(
    fetch: Callable[[str], list[tuple[Any, ...]]], path: Path, counted: CommitPoint
) -> tuple[int, list[Record]]:
    """Return how many records of the journal a database has, and those that it lacks.

    A record is of no use to a database that lacks commits from before it.  Stores of earlier
    versions have no journal.
    """
    if not fetch(_JOURNAL_COLUMN):
        return 0, []
    ((known,),) = fetch("SELECT journal FROM mark.store")
    records = read_journal(path, counted.store, int(known))
    return int(known), list(takewhile(lambda one: one.after <= counted.commits, records))


@contextmanager
def read_only(path: Path) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Yield a function that returns the rows of a query of a database, and changes nothing.

    No process may have the database open.  Errors of DuckDB in the block become StoreErrors.
    """
    quoted = str(path).replace("'", "''")
    with closing(duckdb.connect(":memory:")) as connection:
        try:
            connection.execute(f"ATTACH '{quoted}' AS {FILE} (READ_ONLY); USE {FILE}")
            yield lambda query: connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise store_error(path, error) from error


def inspect(path: Path) -> tuple[int, CommitPoint]:
    """Return the version of a store and its commit count, after reading all of its database.

    Writes nothing.  Raises WrongVersion for a store of another release, and another StoreError if
    it cannot be read.  No process may have it open.
    """
    with read_only(path) as fetch:
        ((version,),) = fetch("SELECT value FROM state.meta WHERE key = 'version'")
        tables = fetch(_TABLES)
        _expect_readable(path, version, tables)
        ((store, commits),) = fetch(SEEN)
        _, records = _journalled(fetch, path, CommitPoint(store, int(commits)))
        fetch(_reading(tables, path.stat().st_size))
    return int(version), CommitPoint(store, int(commits) + len(records))
