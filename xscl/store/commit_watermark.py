"""The mark: how far a store had come, kept beside its database.

DuckDB takes a database whose write-ahead log was removed, or an older copy of
it, for what it is and goes on: what was committed since is gone, and nobody is
told.  So every commit is counted inside the store, and after it the count is
written to a small file beside it, `state.duckdb.mark`.  A store that counts
less than its mark has gone backwards; one with another id is another store.

The mark is written after the commit: a kill between the two leaves it one
behind, never ahead.  There are two places for it in the file, a sector each,
which take turns, so that a torn write leaves the one before; a checksum tells.

Count 0 stands for a database that is being made: nothing in it was ever
acknowledged.  `UNFINISHED` is no count that a store reaches: with it none
opens, until whoever is putting files in place has put all of them.
"""

from __future__ import annotations

import os
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path

from xscl.store.atomic_files import write_durably

NEW = 0
UNFINISHED = (1 << 63) - 1

_PLACE = 512  # bytes: what a disk writes whole
_FORMAT = "xscl-mark 1"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a mark says: the id of a store, and how many commits of it were acknowledged."""

    store: str
    commits: int


def mark_path(database: Path) -> Path:
    """Return where the mark of a database is."""
    return database.with_name(f"{database.name}.mark")


def read_mark(database: Path) -> Seen | None:
    """Return what the mark beside a database says; None if there is none that can be read."""
    try:
        image = mark_path(database).read_bytes()
    except FileNotFoundError:
        return None
    found = [_decoded(image[at : at + _PLACE]) for at in (0, _PLACE)]
    return max((one for one in found if one), key=lambda one: one.commits, default=None)


def write_mark(database: Path, seen: Seen) -> None:
    """Put a new mark in the place of the one there is, whole or not at all."""
    image = bytearray(2 * _PLACE)
    at = seen.commits % 2 * _PLACE
    image[at : at + _PLACE] = _encoded(seen)
    write_durably(mark_path(database), bytes(image))


class Mark:
    """The mark of an open store; `lock` keeps its order that of the commits.

    Whoever commits holds the lock from the moment it takes its count until
    the mark is written.
    """

    def __init__(self, database: Path, store: str) -> None:
        self.store = store
        self.lock = threading.Lock()
        self._descriptor = os.open(mark_path(database), os.O_WRONLY | os.O_CLOEXEC)

    def write(self, commits: int) -> None:
        """Let the mark say that so many commits were made; durable when this returns.

        The file keeps its size, so nothing but the one sector has to reach the disk.
        """
        place = commits % 2 * _PLACE
        os.pwrite(self._descriptor, _encoded(Seen(self.store, commits)), place)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def _encoded(seen: Seen) -> bytes:
    text = f"{_FORMAT} {seen.store} {seen.commits}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode().ljust(_PLACE, b"\0")


def _decoded(image: bytes) -> Seen | None:
    """Return what a place says, None if it was never written, or not as a whole."""
    try:
        line, end, _ = image.decode("ascii").partition("\n")
        text, _, checksum = line.rpartition(" ")
        if not end or int(checksum, 16) != zlib.crc32(text.encode()):
            return None
        kind, version, store, commits = text.split(" ")
        return Seen(store, int(commits)) if f"{kind} {version}" == _FORMAT else None
    except ValueError:
        return None
