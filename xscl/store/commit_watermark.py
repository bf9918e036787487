"""The commit watermark (the *mark*): the number of acknowledged commits, beside the database.

DuckDB opens a database whose write-ahead log was removed, or an older copy of it,
without an error, although later commits are lost.  So the store counts every commit,
and after the commit the count is written to a small file, `state.duckdb.mark`.  A
store with a smaller count than its mark has gone backwards; one with another id is
another store.

The mark is written after the commit: a kill between the two leaves it one behind,
never ahead.  After a commit to the journal it is written, but not synchronised: a crash of
the machine leaves it behind by the records since the last commit of the database at most.
The file has two slots, a sector each, written in turns, so that a torn write leaves the
previous one; a checksum detects it.

Count 0 means a database under construction: nothing in it was ever acknowledged.
No store reaches the count `UNFINISHED`.  With it no store opens, until all files of a
restore are in place.
"""

from __future__ import annotations

import os
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path

from xscl.store.atomic_files import write_durably

NEW = 0

_PLACE = 512  # bytes: what a disk writes whole
_FORMAT = "xscl-mark 1"


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """The content of a mark: the id of a store, and the number of its acknowledged commits."""

    store: str
    commits: int


def watermark_path(database: Path) -> Path:
    """Return the path of a database's mark."""
    return database.with_name(f"{database.name}.mark")


def read_watermark(database: Path) -> CommitPoint | None:
    """Return the content of a database's mark; None if it is absent or unreadable."""
    try:
        image = watermark_path(database).read_bytes()
    except FileNotFoundError:
        return None
    found = [_decoded(image[at : at + _PLACE]) for at in (0, _PLACE)]
    return max((one for one in found if one), key=lambda one: one.commits, default=None)


def write_watermark(database: Path, seen: CommitPoint) -> None:
    """Replace the mark atomically."""
    image = bytearray(2 * _PLACE)
    at = seen.commits % 2 * _PLACE
    image[at : at + _PLACE] = _encoded(seen)
    write_durably(watermark_path(database), bytes(image))


class CommitWatermark:
    """The mark of an open store; `lock` keeps its writes in the order of commits.

    A commit holds the lock from the assignment of its count until the mark is written.
    """

    def __init__(self, database: Path, store: str) -> None:
        self.store = store
        self.lock = threading.RLock()
        self._descriptor = os.open(watermark_path(database), os.O_WRONLY | os.O_CLOEXEC)

    def note(self, commits: int) -> None:
        """Write the number of commits to the mark, which survives a kill of the process."""
        place = commits % 2 * _PLACE
        os.pwrite(self._descriptor, _encoded(CommitPoint(self.store, commits)), place)

    def write(self, commits: int) -> None:
        """Write the number of commits to the mark; durable on return.

        The file keeps its size, so only one sector has to reach the disk.
        """
        self.note(commits)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def _encoded(seen: CommitPoint) -> bytes:
    text = f"{_FORMAT} {seen.store} {seen.commits}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode().ljust(_PLACE, b"\0")


def _decoded(image: bytes) -> CommitPoint | None:
    """Return the content of a slot, None if it was never written, or is torn."""
    try:
        line, end, _ = image.decode("ascii").partition("\n")
        text, _, checksum = line.rpartition(" ")
        if not end or int(checksum, 16) != zlib.crc32(text.encode()):
            return None
        kind, version, store, commits = text.split(" ")
        return CommitPoint(store, int(commits)) if f"{kind} {version}" == _FORMAT else None
    except ValueError:
        return None
