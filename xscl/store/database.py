"""The database of a store: one connection that writes, and one for each thread that reads.

All transactions are of the connection that writes, under one lock.  A reader sees a snapshot.
While it keeps one, a checkpoint cannot begin the log anew, which then grows with each commit.  So a
reader is ended after `READING` seconds; one at a time, for a backup or an export, may read until
the log has `LARGEST_LOG` bytes.

A checkpoint is due when the log has grown by `CHECKPOINT` bytes (PASSIVE: it waits for nobody).
From `RESTART` bytes on it waits for readers, `WAITING` milliseconds: where readers overlap all the
time, no PASSIVE one ever finds the log unused.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any

import apsw

from feeds.faultpoints import reached
from xscl.errors import StoreError
from xscl.store.chunks import Chunks, ChunkWriter
from xscl.store.queries.tables import ASCENDING, TABLES, changes_of
from xscl.store.store_errors import (
    ReadTooLong,
    StoreClosed,
    StoreDamaged,
    StoreNeedsMemory,
    StoreUnavailable,
    first_line,
)
from xscl.store.store_file import WRITING, StoreFile, connect, seen

READING = 30.0
"""Seconds for which a reader may keep a snapshot."""
CHECKPOINT, RESTART = 16 << 20, 64 << 20
"""Bytes that the log grows until a checkpoint is due; its size from which one waits for readers."""
LARGEST_LOG = 1 << 30
"""Bytes of the log from which on every reader is ended."""
WAITING = 100
"""Milliseconds for which a checkpoint waits for readers."""

_UNREADABLE = (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ)
_FRAME = 4096 + 24  # bytes of a page in the log
_PORTION = 500  # pages that `shrink` gives back in one step
_LOOK = 100_000  # steps of SQLite's machine after which a reader looks at the clock
_log = logging.getLogger(__name__)


class Reader:
    """A connection that reads, for one thread, and that another thread may end."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.connection = connect(database.path)
        self.connection.set_progress_handler(self._is_late, _LOOK)
        self._mutex = threading.RLock()  # held while a statement runs
        self._since: float | None = None  # when the snapshot or statement began
        self._is_unlimited = False
        self._is_ended = False

    @contextmanager
    def snapshot(self, *, unlimited: bool = False) -> Iterator[None]:
        """Keep one snapshot during the block."""
        self._is_ended, self._is_unlimited = False, unlimited
        self._since = time.monotonic()
        try:
            self.execute("BEGIN")
            self.execute("SELECT commits FROM state.progress")  # the first read takes the snapshot
            yield
        finally:
            with self._mutex:
                self._since = None
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; raises ReadTooLong."""
        with self.running():
            found: list[tuple[Any, ...]] = self.connection.execute(sql, parameters).fetchall()
            return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """Use the connection in the block; raises ReadTooLong."""
        with self._mutex:
            is_alone = self._since is None
            if is_alone:
                self._since, self._is_ended = time.monotonic(), False
            try:
                self.expect_time()
                yield
            except apsw.InterruptError as error:
                large = f"the log had {LARGEST_LOG >> 20} MB of later changes"
                why = large if self._is_unlimited else f"it took longer than {READING:g} s"
                raise ReadTooLong(self._database.path, why) from error
            finally:
                if is_alone:
                    self._since = None

    def expect_time(self) -> None:
        """Raise InterruptError if the reader is ended or late; called between steps of a copy."""
        if self._is_late():
            raise apsw.InterruptError

    def _is_late(self) -> bool:
        since = self._since
        late = since is not None and not self._is_unlimited and time.monotonic() > since + READING
        return self._is_ended or late

    def end_if_late(self, *, every: bool = False) -> None:
        """End the snapshot if it is late, or with `every` in any case; other threads call this."""
        if self._since is None or not (every or self._is_late()):
            return
        self._is_ended = True
        self.connection.interrupt()
        if self._mutex.acquire(timeout=WAITING / 1_000):  # an interrupt does not end a backup
            try:
                if self._is_ended and self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            finally:
                self._mutex.release()

    def close(self) -> None:
        """Close the connection."""
        with self._mutex:
            self.connection.close()


class Database:
    """The shared part of the stores of one file, or of one database in memory.

    `changed` has, by table, the number of the last commit that changed or removed rows of it.
    For the tables in `ASCENDING`, `removed` has that of the last commit that removed rows.
    """

    def __init__(self, path: Path | None, *, accept: bool = False) -> None:
        self.path = path
        self.lock = threading.RLock()
        with translated(path, kinds=(apsw.Error, OSError)):
            self._file = None if path is None else StoreFile(path, accept=accept)
        self.writer = connect(None) if self._file is None else self._file.connection
        self.writing: int | None = None  # the thread that is within a transaction
        self._process = os.getpid()
        self._is_closed = False
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self._mutex = threading.Lock()  # guards the list of readers
        self._unlimited = threading.Lock()
        self._frames = self._checkpointed = 0  # frames of the log now, at the last checkpoint
        self.writer.set_wal_hook(self._note_log)
        try:
            with self.translated():
                self.commits = seen(self.writer).commits
                self._version = self._other_commits()
        except BaseException:
            self.close()
            raise
        self.changed: dict[str, int] = dict.fromkeys(TABLES, self.commits)
        self.removed: dict[str, int] = dict.fromkeys(ASCENDING, self.commits)
        self.chunks = ChunkWriter(self.writer)

    def expect_open(self) -> None:
        """Raise StoreClosed after `close`, and in a forked process."""
        if self._is_closed or os.getpid() != self._process:
            raise StoreClosed

    def translated(self) -> AbstractContextManager[None]:
        """Raise errors of SQLite in a block as errors of the store."""
        return translated(self.path, None if self._is_closed else self.writer)

    # -- Writing ---------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what the block writes, or nothing of it."""
        with self.lock, self.translated():
            self.expect_open()
            self.writer.execute("BEGIN IMMEDIATE")
            self.writing = threading.get_ident()
            try:
                if self._file is not None and not self._file.lock.is_in_place():
                    why = "the file was removed or replaced while it was open"
                    raise StoreUnavailable(self.path, why)
                if self._other_commits() != self._version:
                    raise StoreError(
                        f"another connection has written to the store {self.path}",
                        hint="only xscl may open this file, in one process",
                    )
                yield
                reached("before_commit")
                self._commit()
            except BaseException:
                self.chunks.forget()
                if self.writer.in_transaction:
                    self.writer.execute("ROLLBACK")
                with suppress(apsw.Error):  # Ctrl-C may come right after the commit
                    self.commits = seen(self.writer).commits
                raise
            finally:
                self.writing = None
            self.commits += 1
            reached("after_commit")
            if self._file is not None:
                self._file.note(self._file.mark._replace(commits=self.commits))
                reached("marked")
                self._checkpoint_if_due()

    def _commit(self) -> None:
        self.writer.execute("UPDATE state.progress SET commits = ?", (self.commits + 1,))
        self.writer.execute("COMMIT")

    def note_changes(self, sql: str) -> None:
        """Note the tables whose rows a statement of this transaction changes or removes."""
        for table, how in changes_of(sql):
            if how != "INSERT":
                noted = self.removed if how == "DELETE" and table in self.removed else self.changed
                noted[table] = self.commits + 1

    def _other_commits(self) -> int:
        """Return a number that changes with commits of other connections only."""
        return int(self.writer.execute("PRAGMA state.data_version").get)

    # -- Checkpoints -----------------------------------------------------------------------

    def _note_log(self, connection: apsw.Connection, schema: str, frames: int) -> int:
        if frames < self._frames:  # the log has begun anew
            self._checkpointed = 0
        self._frames = frames
        return 0

    def _checkpoint_if_due(self) -> None:
        """Make a checkpoint if the log is long; the commits are durable, so no error is raised."""
        if (self._frames - self._checkpointed) * _FRAME < CHECKPOINT:
            return
        self._checkpointed = self._frames
        size = self._frames * _FRAME
        if size >= RESTART:
            self._end_readers(every=size >= LARGEST_LOG)
        try:
            is_done = self.checkpoint(
                apsw.SQLITE_CHECKPOINT_RESTART
                if size >= RESTART
                else apsw.SQLITE_CHECKPOINT_PASSIVE
            )
        except (apsw.Error, OSError) as error:
            _log.warning("no checkpoint of %s: %s", self.path, first_line(error))
        else:
            if size >= 4 * RESTART and not is_done:
                _log.warning("readers keep the log of %s at %d MB", self.path, size >> 20)

    def checkpoint(self, mode: int) -> bool:
        """Write the log to the database in a mode of SQLite; return True if all was written."""
        assert self._file is not None
        with self.lock:
            self.writer.set_busy_timeout(WAITING)
            try:
                frames, written = self.writer.wal_checkpoint("state", mode)
            except apsw.BusyError:
                return False
            finally:
                self.writer.set_busy_timeout(1_000)
            if frames == written:
                self._file.note(self._file.mark._replace(base=self.commits), durably=True)
            return bool(frames == written)

    def clear_log(self) -> bool:
        """Write the log to the database, and empty it; return False if a reader does not end."""
        until = time.monotonic() + READING
        with self.translated():
            while not self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE):
                if time.monotonic() > until:
                    self._end_readers(every=True)
                    return self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
                time.sleep(WAITING / 1_000)
        return True

    def shrink(self) -> None:
        """Give unused pages back to the file system, in steps between which others can write."""
        left = 1 << 62
        while True:
            with self.lock, self.translated():
                self.expect_open()
                before, left = left, int(self.writer.execute("PRAGMA state.freelist_count").get)
                if not 0 < left < before:  # in memory unused pages stay
                    return
                # Each row that is read frees a page.
                self.writer.execute(f"PRAGMA state.incremental_vacuum({_PORTION})").fetchall()
                self._checkpoint_if_due()

    def vacuum(self) -> None:
        """Write all pages anew, through a temporary file: the store may be larger than memory."""
        with self.lock, self.translated():
            self.changed |= dict.fromkeys(TABLES, self.commits + 1)  # rowids change
            if self.path is None:
                self.writer.execute("VACUUM state")
                return
            with closing(connect(self.path, (*WRITING, "cache_size = -4000"))) as connection:
                connection.execute("PRAGMA temp_store = FILE")
                connection.pragma("temp_store_directory", str(self.path.parent))
                connection.execute("VACUUM state")
            self._version = self._other_commits()

    def _end_readers(self, *, every: bool) -> None:
        with self._mutex:
            readers = list(self._readers)
        for reader in readers:
            reader.end_if_late(every=every)

    # -- Reading ---------------------------------------------------------------------------

    def reader(self) -> Reader:
        """Return a new connection that reads."""
        with self._mutex, self.translated():
            self.expect_open()
            made = Reader(self)
            self._readers.add(made)
            return made

    @contextmanager
    def snapshot(
        self,
        reader: Reader | None,
        *,
        unlimited: bool = False,
        begin: Callable[[], None] | None = None,
    ) -> Iterator[Chunks]:
        """Keep one snapshot of a reader during the block.

        An `unlimited` one waits for other unlimited ones.  In memory (reader None) there is one
        connection, which no other thread uses meanwhile.  `begin` is called when the snapshot was
        taken, before the next commit.
        """
        if reader is None:
            with self.lock, self.translated():
                if begin is not None:
                    begin()
                self.writer.execute("PRAGMA state.query_only = ON")
                try:
                    yield self.chunks
                finally:
                    self.writer.execute("PRAGMA state.query_only = OFF")
            return
        with (
            self._unlimited if unlimited else nullcontext(),
            self.translated(),
            ExitStack() as kept,
        ):
            with nullcontext() if begin is None else self.lock:
                kept.enter_context(reader.snapshot(unlimited=unlimited))
                if begin is not None:
                    begin()
            yield Chunks(reader.execute)

    def close(self) -> None:
        """Close all connections, the one that writes last; in a forked process, none."""
        with self.lock:
            if self._is_closed or os.getpid() != self._process:
                return
            reached("closing")
            with self._mutex:
                self._is_closed = True
            for reader in list(self._readers):
                reader.end_if_late(every=True)
                reader.close()
            if self._file is not None:
                try:
                    self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
                except (apsw.Error, OSError) as error:
                    _log.warning("the log of %s stays: %s", self.path, first_line(error))
            self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)  # removes the empty log
            self.writer.close()
            if self._file is not None:
                self._file.lock.release()


# -- Errors --------------------------------------------------------------------------------


@contextmanager
def translated(
    path: Path | None,
    connection: apsw.Connection | None = None,
    kinds: tuple[type[Exception], ...] = (apsw.Error,),
) -> Iterator[None]:
    """Raise errors of SQLite, or those of `kinds`, in the block as errors of the store."""
    try:
        yield
    except kinds as error:
        errno = error.errno if isinstance(error, OSError) else None
        if errno is None and connection is not None:
            with suppress(apsw.ConnectionClosedError):
                errno = connection.system_errno
        raise sqlite_error(path, error, errno or 0) from error


def sqlite_error(path: Path | None, error: Exception, errno: int = 0) -> StoreError:
    """Return the StoreError that users see in place of an error of SQLite.

    `errno` is that of the last failed system call, 0 without one.
    """
    where = "in memory" if path is None else str(path)
    if isinstance(error, apsw.FullError):
        errno = ENOSPC
    reason = f"{os.strerror(errno)} ({error})" if errno else str(error)
    match error:
        case apsw.NoMemError():
            return StoreNeedsMemory(path, str(error))
        case apsw.ConnectionClosedError():
            return StoreClosed()
        case apsw.CorruptError() | apsw.NotADBError() if path is not None:
            return StoreDamaged(path, str(error))
        case apsw.IOError() if path is not None and _extended(error) in _UNREADABLE:
            return StoreDamaged(path, "a page has another checksum")
        case _ if errno in (ENOSPC, EDQUOT, EFBIG):
            message = f"the store {where} cannot be written: {reason}"
            return StoreError(message, hint="make room on disk")
        case apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError() | OSError():
            return StoreUnavailable(path, reason)
        case _:
            pass
    return StoreError(
        f"the store {where} failed: {first_line(error)}",
        hint="nothing of the change was kept; if it happens again, report it with this message",
    )


def _extended(error: Exception) -> int:
    """Return the extended code of an error of SQLite."""
    return int(getattr(error, "extendedresult", 0))
