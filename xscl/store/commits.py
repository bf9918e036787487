"""The commits of a store: to its journal or to its database, each counted by the mark.

The engine's transactions that only append are records of the journal (`xscl.store.journal`).  All
others are transactions of DuckDB; before one begins, the database receives the records.  After one,
a checkpoint may be due.  A store in memory has records without a journal, and no mark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Protocol

from feeds.faultpoints import reached
from xscl.store.commit_watermark import CommitWatermark
from xscl.store.journal import Record
from xscl.store.store_errors import first_line, store_error
from xscl.store.store_file import StoreFile
from xscl.store.tail import Appends, Tail

_log = logging.getLogger(__name__)

LOG_BYTES = 128 << 20
"""Bytes of the log at which a checkpoint is due: one takes 200 ms, in the middle of a batch."""
LOG_BYTES_OF_A_PURGE = 1 << 20
"""The same after a purge: DuckDB keeps the rows of the log in memory, also removed ones."""
POSTPONED_SECONDS = 1.0
"""Seconds until a postponed checkpoint is tried again: each attempt makes copies."""
FAILED_SECONDS = 60.0
"""Seconds until a checkpoint is tried again after one that has invalidated the database."""


class CheckpointPostponed(Exception):
    """No checkpoint can be made now; nothing has changed."""


class Bringer(Protocol):
    """A connection that brings records to the database in one transaction."""

    def bring(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class Commits:
    """The commits of an open store, shared by all its connections.

    The lock of the mark keeps commits in order.  `tail.flushing` is held while records are brought,
    by any thread of the process that has the store open; nobody else can.  It is taken before
    the lock of the mark, and never while a transaction of DuckDB is open.  So neither a reader nor
    a push waits for a long reader, but on a full disk (`Store.reading`).  `lose` is called with an
    error after which the database has to be opened again.  Unless the store `is_sound`, its end
    makes no checkpoint.
    """

    def __init__(
        self,
        file: StoreFile | None,
        lose: Callable[[BaseException], None],
        connect: Callable[[], Bringer],
    ) -> None:
        self.tail = Tail()
        self._in_memory = RLock()  # in place of the lock of the mark
        self._file = file
        self._lose = lose
        self._connect = connect
        self._bringer: Bringer | None = None
        self.is_sound = False
        self._next_checkpoint = 0.0  # no earlier (time.monotonic)
        self._is_behind = False  # the mark lacks the last commit; its lock guards this

    @property
    def mark(self) -> CommitWatermark | None:
        """The mark; None in memory, and until the store is open."""
        return None if self._file is None else self._file.mark

    def append(self, appends: Appends) -> None:
        """Commit appended rows to the journal, and note that in the mark; raises StoreError."""
        payload = appends.encode() if appends else b""
        mark = self.mark
        with self._in_memory if mark is None else mark.lock:
            self._catch_up()
            try:
                if payload:
                    self.tail.append(payload)
            except OSError as error:
                if self.tail.is_broken:
                    self._lose(error)
                assert self._file is not None, "memory has no input and output"
                raise store_error(self._file.path, error) from error
            reached("after_commit")
            if payload and mark is not None:
                self._update_mark(lambda: mark.note(self.tail.commits))
            reached("marked")

    def commit_unmarked(self, commit: Callable[[], object], records: Sequence[Record]) -> None:
        """Commit a transaction of DuckDB, which brings `records`, where there is no mark."""
        with self._in_memory:
            commit()
            self.tail.note_commit(0, records)
        reached("after_commit")

    def commit(
        self,
        count: Callable[[], int],
        commit: Callable[[], object],
        records: Sequence[Record],
    ) -> None:
        """Commit a transaction of DuckDB, which `count` counts, and synchronise the mark.

        The transaction brings `records` to the database.
        """
        assert self._file is not None
        assert self.mark is not None
        with self.mark.lock:
            self._catch_up()
            counted, size = count(), self._file.log_size()
            try:
                commit()
            except Exception as error:
                # Later commits would follow a damaged entry of DuckDB's log.
                if not size or self._file.log_size() != size:
                    self._lose(error)
                raise
            self.tail.note_commit(counted, records)
            reached("after_commit")
            self._update_mark(self._write_mark)
            reached("marked")

    def checkpoint_if_due(self, write: Callable[[], object], log_bytes: int | None = None) -> None:
        """Make a checkpoint with `write` if the log is long; its commits are durable already.

        So no failure is raised: after one the database has to be opened again.  The checkpoint is
        postponed while another connection writes, or reads what has been updated since; while the
        files are copied; and without room for the copies of blocks.
        """
        assert self._file is not None
        now = time.monotonic()
        if now < self._next_checkpoint:
            return
        try:
            self._checkpoint(write, LOG_BYTES if log_bytes is None else log_bytes)
        except CheckpointPostponed as error:
            self._next_checkpoint = now + POSTPONED_SECONDS
            size = self._file.log_size()
            level = logging.WARNING if size > 4 * LOG_BYTES else logging.DEBUG
            _log.log(level, "no checkpoint of %s at %d bytes: %s", self._file.path, size, error)
        except Exception as error:
            self._next_checkpoint = now + FAILED_SECONDS
            self._lose(error)

    def checkpoint_at_end(self, write: Callable[[], object]) -> None:
        """Make a checkpoint with `write` unless the log is empty; if it fails, the log stays."""
        assert self._file is not None
        if not self.is_sound:
            return
        try:
            self._checkpoint(write, 1)
        except Exception as error:
            _log.warning("the log of %s stays: %s", self._file.path, first_line(error))

    def _checkpoint(self, write: Callable[[], object], least: int) -> None:
        """Make a checkpoint if the log has at least so many bytes, and no file is being copied."""
        file, mark = self._file, self.mark
        assert file is not None
        if mark is None:
            return
        with mark.lock:
            if file.log_size() >= least and file.resting.acquire(blocking=False):
                try:
                    write()
                finally:
                    file.resting.release()

    def _write_mark(self) -> None:
        assert self.mark is not None
        self.mark.write(self.tail.commits)

    def _update_mark(self, write: Callable[[], object]) -> None:
        """Update the mark after a commit; if that fails, the next commit begins with it.

        The commit is durable, so it must not be reported as failed: whoever made it would undo in
        memory what the store has.  A start accepts a store that is one commit ahead of its mark.
        """
        try:
            write()
        except OSError as error:
            assert self._file is not None
            _log.warning("the mark of %s lacks a commit: %s", self._file.path, error)
            self._is_behind = True

    def _catch_up(self) -> None:
        """Write the mark if it lacks the last commit; raises StoreError."""
        if self._is_behind:
            assert self._file is not None
            try:
                self._write_mark()
            except OSError as error:
                raise store_error(self._file.path, error) from error
            self._is_behind = False

    def bring(self) -> None:
        """Bring to the database what only the journal has; raises StoreError."""
        if not self.tail.records:
            return
        with self.tail.flushing:
            if records := self.tail.records:
                if self._bringer is None:
                    self._bringer = self._connect()
                self._bringer.bring(records)

    def close(self) -> None:
        """Close the journal; the next start brings what it has."""
        with self.tail.flushing:
            if self._bringer is not None:
                self._bringer.close()
                self._bringer = None
            self.tail.close()
