"""The files of a store, and the checks between them before it is opened.

    state.duckdb        the database
    state.duckdb.wal    its log: the commits since the last checkpoint (DuckDB's)
    state.duckdb.blocks   what the next checkpoint overwrites (`xscl.store.block_copies`)
    state.duckdb.journal  the commits that the database lacks (`xscl.store.journal`)
    state.duckdb.mark   the number of commits (`xscl.store.commit_watermark`)
    state.duckdb.lock   the lock, with the process that holds it (`xscl.store.store_lock`)
    state.duckdb.image  the automaton (`xscl.shredding.remote.image`); it may be deleted
    state.duckdb.v1     the copy of version 1 that a migration to a later version keeps

DuckDB creates a new database where there is none, whatever lies beside it, and
discards a log without a database, so both are checked before.  A spool or a
checkpoint without database and mark means that both were lost.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xscl.errors import StoreError
from xscl.plurals import counted
from xscl.store.atomic_files import rewrite, synchronise
from xscl.store.block_copies import HEADERS, copies_path, copy_blocks
from xscl.store.commit_watermark import (
    NEW,
    CommitPoint,
    CommitWatermark,
    read_watermark,
    watermark_path,
    write_watermark,
)
from xscl.store.consumed_note import NAME as NOTE
from xscl.store.consumed_note import noted
from xscl.store.journal import journal_path
from xscl.store.store_errors import DATABASE, BackupError, StoreWentBack
from xscl.store.store_lock import UNFINISHED, StoreLock


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file of a store that is at rest: its first `size` bytes do not change."""

    name: str
    descriptor: int
    size: int


class StoreFile:
    """The lock on a store's database, and its mark; raises StoreError if its directory is absent.

    `resting` is held while the files are copied: no checkpoint runs then.
    """

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise StoreError(
                f"the store {path} cannot be made: there is no directory {path.parent}",
                hint="make the directory first",
            )
        self.path = path
        self.claim = StoreLock(path)
        self.mark: CommitWatermark | None = None
        self.resting = threading.Lock()
        self._reading: int | None = None

    def make_ready(self, *, accept: bool) -> CommitPoint | None:
        """Return the content of the mark, after removing the remains of an interrupted creation.

        Raises StoreWentBack if a former database is missing.
        """
        path, seen = self.path, read_watermark(self.path)
        making = seen is not None and seen.commits == NEW
        size = path.stat().st_size if path.exists() else 0
        if size and not (making and size < HEADERS):
            return seen
        log, journal = log_path(path), journal_path(path)
        if not making and not accept:
            _refuse_unfinished(path, seen)
            if watermark_path(path).exists():
                raise StoreWentBack(path, f"the file is missing or empty, {_says(path, seen)}")
            if log.exists():
                raise StoreWentBack(path, f"the file is missing or empty, and its log {log} is not")
            if journal.exists():
                raise StoreWentBack(path, f"the file is missing, and its journal {journal} is not")
            remains = remaining(path)
            if remains is not None:
                raise StoreWentBack(path, f"the file and its mark are missing, and {remains}")
        path.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        journal.unlink(missing_ok=True)
        copies_path(path).unlink(missing_ok=True)
        seen = CommitPoint(seen.store if seen is not None and making else new_id(), NEW)
        write_watermark(path, seen)
        return seen

    def compare(self, seen: CommitPoint | None, now: CommitPoint | None) -> None:
        """Raise StoreWentBack unless id and commit count agree with the mark.

        `now` is None for an empty database.
        """
        if seen is None or seen.commits == NEW:
            return
        path, mark = self.path, watermark_path(self.path)
        _refuse_unfinished(path, seen)
        if now is None:
            raise StoreWentBack(path, f"it has counted no commits, {_says(path, seen)}")
        if now.store != seen.store:
            raise StoreWentBack(
                path, f"it is the store {now.store}, and {mark} says that {seen.store} was there"
            )
        if now.commits < seen.commits:
            raise StoreWentBack(
                path,
                f"it has {now.commits} commits, and {mark} says that {seen.commits} were"
                f" acknowledged; the last {seen.commits - now.commits} are missing",
            )

    def follow(self, seen: CommitPoint | None, now: CommitPoint) -> None:
        """Begin writing the mark, or continue after the database was opened again."""
        if self.mark is not None:
            if seen != now:
                self.mark.write(now.commits)
            return
        if seen != now:
            write_watermark(self.path, now)
        self.mark = CommitWatermark(self.path, now.store)

    def log_size(self) -> int:
        """Return the bytes of the log, 0 without one.

        A failed commit leaves part of an entry in the log if DuckDB cannot truncate it, either;
        DuckDB does not report that, and appends the next commit, which nothing reads after it.
        """
        try:
            return log_path(self.path).stat().st_size
        except FileNotFoundError:
            return 0

    def forget_log(self) -> None:
        """Make durable that a checkpoint has deleted the log, if it has.

        DuckDB leaves that to the file system, and refuses a database beside a log that is older
        than its last checkpoint but one.
        """
        if not log_path(self.path).exists():
            synchronise(self.path.parent)

    def write_again(self) -> None:
        """Write the blocks again that may be in the system's cache only; nobody has the file open.

        After a failed sync the system may count what was not written as written, and a later sync
        succeeds without it.  So the log, and the headers of the database, are written over
        themselves before anything that they say counts.  This needs no further room.  Nor must a
        removed journal come back: it may have a record whose append was reported as failed.
        """
        rewrite(log_path(self.path))
        rewrite(self.path, HEADERS)
        rewrite(journal_path(self.path))
        synchronise(self.path.parent)

    def copy_blocks(self, numbers: Sequence[int]) -> None:
        """Copy the blocks of the database that a checkpoint overwrites; raises OSError."""
        copy_blocks(self.path, self._descriptor(), numbers)

    def _descriptor(self) -> int:
        """Return a descriptor of the database for reading.

        It stays open as long as the store: closing it would drop the lock that DuckDB has on the
        file.
        """
        if self._reading is None:
            self._reading = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._reading

    @contextmanager
    def parts(self) -> Iterator[tuple[FilePart, ...]]:
        """Yield the database and its log; raise if a checkpoint has written to them meanwhile."""
        reading = self._descriptor()
        database = FilePart(self.path.name, reading, os.fstat(reading).st_size)
        headers = os.pread(reading, HEADERS, 0)
        log = log_path(self.path)
        try:
            descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield (database,)
        else:
            try:
                yield database, FilePart(log.name, descriptor, os.fstat(descriptor).st_size)
            finally:
                os.close(descriptor)
        if os.pread(reading, HEADERS, 0) != headers:
            raise BackupError(f"the store {self.path} was rewritten while it was copied")

    def release(self) -> None:
        """Release the lock on the store, after its connection was closed."""
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None
        if self.mark is not None:
            self.mark.close()
            self.mark = None
        self.claim.release()


def log_path(database: Path) -> Path:
    """Return the path of a database's log."""
    return database.with_name(f"{database.name}.wal")


def remaining(database: Path) -> str | None:
    """Return the trace of a lost store in its data directory, None if there is none.

    Documents enter a spool, and Spark writes a checkpoint, only after the store exists.
    """
    spool, checkpoint = database.with_name("spool"), database.with_name("checkpoint")
    if database.name != DATABASE:
        return None
    if next(spool.glob("*.arrow*"), None) is not None:
        return f"the spool {spool} has documents that were acknowledged"
    if noted(spool):
        return f"{spool / NOTE} says that documents were consumed"
    if (checkpoint / "metadata").exists():
        return f"the checkpoint {checkpoint} says that documents were consumed"
    return None


def new_id() -> str:
    """Return an id for a store."""
    return secrets.token_hex(8)


def _refuse_unfinished(path: Path, seen: CommitPoint | None) -> None:
    if seen is not None and seen.commits == UNFINISHED:
        raise StoreWentBack(path, "a restore was broken off; run it again")


def _says(path: Path, seen: CommitPoint | None) -> str:
    if seen is None:
        return f"and {watermark_path(path)}, which cannot be read, says that it was there"
    return f"and {watermark_path(path)} says that it held {counted(seen.commits, 'commit')}"
