"""Little free space and faults of the disk, which pause ingestion (docs/decisions/store.md).

The disk counts as full while less than `LEAST` is free, and for a while after a write that failed,
for lack of space or for another reason: from failure to failure twice as long, up to
`LONGEST`.  Then requests with documents are answered with 503, no feed is polled, and no
batch is pushed.  Everything can be read, and acknowledged documents wait in the spool.  Ingestion
resumes by itself.

`LEAST` covers a checkpoint of the store, a batch and the logs together, so that writes hardly ever
fail.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from xscl.errors import XsclError
from xscl.store.store_errors import StoreUnavailable

LEAST = 64 << 20
"""Bytes that are left free."""

AGAIN, LONGEST = 2.0, 30.0
"""Seconds after a write that failed until the next one is tried, and after many such writes."""
_LOOK = 0.2  # seconds for which a reading of the free space is used
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_SIGNS = ("No space left", "Disk quota", "File too large")  # the system's words, within messages
_FAULTS = ("Input/output error", "fsync failed")

_log = logging.getLogger(__name__)


class DiskFull(XsclError):
    """Documents are refused, because the disk is full or a write has failed lately."""

    code = "disk_full"


class DiskGuard:
    """Says whether the disk of a directory can be written, and waits for it; thread-safe.

    `least` is the number of bytes that stay free; `clock` returns seconds.
    """

    def __init__(
        self, path: Path, least: int = LEAST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.least = least
        self._path = path
        self._clock = clock
        self._mutex = threading.Lock()
        self._failed_at: float | None = None
        self._pause = AGAIN
        self._looked_at = -_LOOK
        self._short: str | None = None

    def short(self) -> str | None:
        """Return in words why nothing is written now; None if the disk has room."""
        with self._mutex:
            now = self._clock()
            if self._failed_at is not None and now - self._failed_at < self._pause:
                return self._short
            if now - self._looked_at >= _LOOK:
                self._looked_at = now
                self._note(self._found())
            return self._short

    def refuse(self, size: int = 0) -> None:
        """Raise DiskFull if nothing is written now, or `size` more bytes would not fit."""
        if (why := self.short()) is not None:
            raise DiskFull(why, hint="what was taken is safe; send it again when there is room")
        if size and (free := self._free()) < size + self.least:
            raise DiskFull(
                f"the disk has no room for {size >> 20} MiB: {free >> 20} MiB are free, of which"
                f" {self.least >> 20} are to be left",
                hint="make room, and ask again",
            )

    def _free(self) -> int:
        disk = os.statvfs(self._path)
        return disk.f_bavail * disk.f_frsize

    def failed(self, error: BaseException) -> bool:
        """Return True if the error of a write is a fault of the disk, and begin a pause then.

        `short` returns a reason for as long as the pause lasts.
        """
        if not is_full(error) and not is_faulty(error):
            return False
        with self._mutex:
            now = self._clock()
            since = math.inf if self._failed_at is None else now - self._failed_at
            if since >= self._pause:  # within the pause only writes can fail that began before it
                self._pause = min(2 * self._pause, LONGEST) if since < 3 * self._pause else AGAIN
            self._failed_at = now
            many = getattr(error, "errno", None) in _NO_FILES
            state = "full" if is_full(error) else "failing"
            why = "too many files are open" if many else f"the disk is {state}: a write has failed"
            self._note(why, f" ({error})")
        return True

    def wait(self, stopping: threading.Event) -> None:
        """Wait until the disk can be written, or until the event is set."""
        while self.short() is not None and not stopping.wait(_LOOK):
            pass

    def _found(self) -> str | None:
        disk, free = os.statvfs(self._path), self._free()
        if free < self.least:
            return f"the disk is full: {free >> 20} MiB are free, less than {self.least >> 20}"
        if disk.f_files and not disk.f_favail:
            return "the disk is full: no more files can be made"
        return None

    def _note(self, why: str | None, detail: str = "") -> None:
        before, self._short = self._short, why
        if why is not None and before is None:
            _log.error("%s%s; nothing new is taken until it can be written", why, detail)
        elif why is None and before is not None:
            _log.warning("the disk can be written again: going on")


def is_full(error: BaseException) -> bool:
    """Return True if an error, or one that caused it, is a full disk or too many open files."""
    return _came_from(error, _NO_ROOM | _NO_FILES, _SIGNS)


def is_faulty(error: BaseException) -> bool:
    """Return True if an error, or one that caused it, is a failed input or output of the disk."""
    return _came_from(error, {errno.EIO}, _FAULTS, StoreUnavailable)


def _came_from(
    error: BaseException, numbers: Collection[int], signs: Iterable[str], *kinds: type
) -> bool:
    """Return True for an error with one of the errnos `numbers`, one of some types, or a sign.

    `signs` are texts that its message may contain.  The errors that caused it are tested, too.
    """
    seen: BaseException | None = error
    while seen is not None:
        if (
            (isinstance(seen, OSError) and seen.errno in numbers)
            or isinstance(seen, kinds)
            or any(sign in str(seen) for sign in signs)
        ):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
