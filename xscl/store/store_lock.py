"""The exclusive lock of a database file; it names the process that holds it.

It is a lock on a file beside the database, held until `release` or the end of the process:
`NAME.lock`, or `lock` in a data directory.  (The process that uses a data directory locks the
directory itself, too: `xscl.ingestion.data_directory`.)  SQLite locks the database file.  The
operating system drops such a lock as soon as any code of the process closes the file, and it does
not exclude the same process; hence this one.  Within the process a file with several names (hard
links) is identified by its inode.

The lock file also has the mark: the commits that the database should have (`StoreMark`).
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from pathlib import Path
from typing import NamedTuple

from feeds.file_descriptors import descriptor_of, synchronise
from xscl.store.store_errors import DATABASE, StoreInUse

UNFINISHED = (1 << 63) - 1
"""The number of commits in the mark of a store that is being restored; none opens with it."""

_LENGTH = 80  # bytes of a mark
_SIGNED = 20  # bytes of the process id of the holder
_HOLDER = 256  # offset of that id; before it is the process that uses a data directory
_MARK = 512  # offset of the mark: its own sector, which a disk writes whole

_open: set[tuple[int, int]] = set()
_mutex = threading.Lock()


class StoreMark(NamedTuple):
    """The id of a store and the number of its commits.

    The file of the database has at least the first `base` commits without its log.
    """

    store: str
    commits: int
    base: int = 0


class StoreLock:
    """The exclusive lock of a database file; raises StoreInUse if another store holds it.

    `database` is a path without symbolic links, so that the same file has the same lock.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: tuple[int, int] | None = None
        self._path = lock_path(database)
        self._is_new = not self._path.exists()
        self._descriptor = -1
        try:
            while not self._is_open():
                self.release()
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._lock()
        except BaseException:
            self.release()
            raise
        try:
            if database.exists():
                self.acquire()
        except BaseException:
            self.withdraw()
            raise

    def _is_open(self) -> bool:
        """Return True if the open file is still at its path: a refused store removes it."""
        return self._descriptor >= 0 and _file_of(self._descriptor) == _file_of(self._path)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            signed = os.pread(self._descriptor, _SIGNED, _HOLDER).strip(b"\0\n ")
            raise StoreInUse(self._database, int(signed) if signed.isdigit() else 0) from None
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode().ljust(_SIGNED), _HOLDER)

    def acquire(self) -> None:
        """Lock the database under all its names; to be called once it exists or is replaced."""
        file = _file_of(self._database)
        assert file is not None, "it exists"
        with _mutex:
            if file in _open and file != self._file:
                raise StoreInUse(self._database, os.getpid())
            _open.discard(self._file or (0, 0))  # else a later file of that inode would be refused
            _open.add(file)
            self._file = file

    def is_in_place(self) -> bool:
        """Return True if the path of the database still leads to the locked file."""
        return _file_of(self._database) == self._file

    def mark(self) -> StoreMark | None:
        """Return the expected state of the database, None without a readable mark."""
        return _mark_in(self._descriptor)

    def note(self, mark: StoreMark, *, durably: bool = False) -> None:
        """Write the mark, which survives a kill of the process; raises OSError.

        It may survive a crash of the machine only if it is written `durably`.
        """
        _write_mark(self._descriptor, mark)
        if durably:
            os.fdatasync(self._descriptor)

    def withdraw(self) -> None:
        """Release the lock of a refused store, and remove its file if it was made for it."""
        signed = os.pread(self._descriptor, _HOLDER, 0).strip(b"\0")  # holder of a data directory
        if self._is_new and not signed and self.mark() is None:
            self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Release the file; repeated calls do nothing."""
        with _mutex:
            _open.discard(self._file or (0, 0))
            self._file = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _file_of(place: int | Path) -> tuple[int, int] | None:
    """Return device and inode of the file of a descriptor or path; None if there is none."""
    try:
        status = os.stat(place)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def marked(database: Path) -> StoreMark | None:
    """Return the expected state of a database, as `StoreLock.mark` does, without the lock."""
    try:
        with descriptor_of(lock_path(database)) as descriptor:
            return _mark_in(descriptor)
    except FileNotFoundError:
        return None


def write_mark(database: Path, mark: StoreMark) -> None:
    """Write the mark of a database that is not open, durably."""
    with descriptor_of(lock_path(database), os.O_RDWR | os.O_CREAT) as descriptor:
        _write_mark(descriptor, mark)
        os.fsync(descriptor)
    synchronise(database.parent)


def lock_path(database: Path) -> Path:
    """Return the path of the file with the lock and the mark of a database."""
    return database.with_name("lock" if database.name == DATABASE else f"{database.name}.lock")


def _write_mark(descriptor: int, mark: StoreMark) -> None:
    body = b"%s %d %d" % (mark.store.encode(), mark.commits, mark.base)
    text = b"%s %08x\n" % (body, zlib.crc32(body))
    os.pwrite(descriptor, text.ljust(_LENGTH, b" "), _MARK)


def _mark_in(descriptor: int) -> StoreMark | None:
    text = os.pread(descriptor, _MARK, _MARK).partition(b"\n")[0]
    body, _, checksum = text.rpartition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    store, commits, base = body.decode("ascii").split()
    return StoreMark(store, int(commits), int(base))
