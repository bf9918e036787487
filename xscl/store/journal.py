"""The journal: commits that the database lacks, each one checksummed record of a file.

    state.duckdb.journal = record, record, ...
    record = magic (4 bytes) | number (8) | after (8) | length (8) | CRC-32 (4) | payload

All numbers are little-endian; `length` is that of the payload, `after` the number of commits that
the database had.  The checksum covers the id of the store, these numbers and the payload, so a
record of another store is none.  Numbers rise by one.  A record is durable, and
with it its commit, once `append` returns: one write and one `fdatasync`.

Reading ends at the first record that is incomplete, has a wrong checksum, or has not the next
number.  That is the tail that a crash has torn, or what an earlier, longer journal has left in the
blocks of the file: nothing after it was acknowledged.  Where an acknowledged record is lost, fewer
commits are found than the watermark says (`xscl.store.commit_watermark`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from feeds.faultpoints import reached
from xscl.store.atomic_files import synchronise

_HEAD = struct.Struct("<4sQQQI")
_MAGIC = b"xsj1"


class Record(NamedTuple):
    """A record: its number, the commits of the database before it, the content of its commit."""

    number: int
    after: int
    payload: bytes


def journal_path(database: Path) -> Path:
    """Return the path of a database's journal."""
    return database.with_name(f"{database.name}.journal")


def records_of(image: bytes, store: str) -> Iterator[tuple[Record, int]]:
    """Yield the records at the beginning of a journal's bytes, each with the offset of its end."""
    at, expected = 0, None
    while at + _HEAD.size <= len(image):
        magic, number, after, length, checksum = _HEAD.unpack_from(image, at)
        end = at + _HEAD.size + length
        if magic != _MAGIC or end > len(image) or expected not in (None, number):
            return
        record = Record(number, after, image[at + _HEAD.size : end])
        if checksum != _checksum(store, record):
            return
        yield record, end
        at, expected = end, number + 1


def read_journal(database: Path, store: str, after: int) -> list[Record]:
    """Return the records of a store that follow the number `after`, without a gap.

    There are none if the first one that follows is missing.
    """
    try:
        image = journal_path(database).read_bytes()
    except FileNotFoundError:
        return []
    found = [record for record, _ in records_of(image, store) if record.number > after]
    return found if found and found[0].number == after + 1 else []


class Journal:
    """The journal of an open store; its owner appends, one thread at a time.

    The file is created by the first append, and removed by `close` if it is empty.  `is_broken`:
    an append has failed, and its bytes could not be removed.
    """

    def __init__(self, database: Path, store: str, last: int) -> None:
        """Open the journal of a store, without what follows the record `last`."""
        self._path = journal_path(database)
        self._store = store
        self._descriptor: int | None = None
        self.size = 0
        self.is_broken = False
        with suppress(FileNotFoundError):
            self._open(os.O_RDWR, last)

    def _open(self, flags: int, last: int) -> int:
        self._descriptor = os.open(self._path, flags | os.O_CLOEXEC, 0o600)
        image = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        self.size = max(
            (end for record, end in records_of(image, self._store) if record.number <= last),
            default=0,
        )
        if self.size < len(image):
            os.ftruncate(self._descriptor, self.size)
        return self._descriptor

    def append(self, record: Record) -> None:
        """Append a record; durable on return.

        Raises OSError; then the record is not in the journal, unless it `is_broken`.
        """
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._open(os.O_RDWR | os.O_CREAT, record.number - 1)
            synchronise(self._path.parent)
        number, after, payload = record
        checksum = _checksum(self._store, record)
        image = _HEAD.pack(_MAGIC, number, after, len(payload), checksum) + payload
        try:
            written = 0
            while written < len(image):
                written += os.pwrite(descriptor, image[written:], self.size + written)
            reached("record_written")
            os.fdatasync(descriptor)
        except OSError:
            self._cut(descriptor)
            raise
        self.size += len(image)

    def _cut(self, descriptor: int) -> None:
        """Remove what a failed append has written: a later one would follow a torn record.

        Earlier records were synchronised, so a failed synchronisation has not lost them.
        """
        try:
            os.ftruncate(descriptor, self.size)
            os.fdatasync(descriptor)
        except OSError:
            self.is_broken = True

    def clear(self) -> None:
        """Remove all records; the database has them.

        If that fails, or a crash undoes it, they are there still, and their numbers say that the
        database has them.
        """
        if self._descriptor is not None and self.size:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                self.size = 0

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if not self.size:
                self._path.unlink(missing_ok=True)


def _checksum(store: str, record: Record) -> int:
    number, after, payload = record
    return zlib.crc32(payload, zlib.crc32(f"{store} {number} {after} {len(payload)}".encode()))
