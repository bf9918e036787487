"""Copies of the blocks that a checkpoint overwrites, so that a crash within it loses nothing.

A checkpoint of DuckDB writes rows to free blocks, and then a header that refers to them.  But a
metadata block consists of 64 sub-blocks; some belong to the last checkpoint, others to the next,
which overwrites the block in place.  Its checksum covers the whole block, so a torn write leaves a
database that nobody can open, although its header and its log have everything.  Therefore a
checkpoint begins with copies of these blocks in a file beside the database:

    state.duckdb.blocks = checksum | headers | number, block | number, block | ...
    bytes                 16         12288     8       262144

If the database has the same headers at its next opening, that checkpoint did not complete, and the
copies are written back.  This is right also if it did not begin.  The next checkpoint overwrites
the copies: a torn copy belongs to a checkpoint that has not begun.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from xscl.store.atomic_files import synchronise

_log = logging.getLogger(__name__)

HEADERS = 3 * 4096
"""Bytes that DuckDB writes before anything else: a main header with a random id, and two that
count checkpoints in turns."""
_CHECKSUM = 16  # bytes
_NUMBER = 8  # bytes
_BLOCK = 262_144  # bytes: DuckDB's default, and a store has no other


def copies_path(database: Path) -> Path:
    """Return the path of the copies of a database's blocks."""
    return database.with_name(f"{database.name}.blocks")


def copy_blocks(database: Path, descriptor: int, numbers: Sequence[int]) -> None:
    """Copy blocks durably; raises OSError.

    `descriptor` is of the database: to open the file and close it would drop DuckDB's lock.
    """
    checksum = hashlib.blake2b(digest_size=_CHECKSUM)
    target = os.open(copies_path(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        at = _CHECKSUM

        def add(piece: bytes) -> None:
            nonlocal at
            checksum.update(piece)
            _write(target, piece, at)
            at += len(piece)

        add(os.pread(descriptor, HEADERS, 0))
        for number in numbers:
            block = os.pread(descriptor, _BLOCK, HEADERS + number * _BLOCK)
            if len(block) == _BLOCK:  # else no checkpoint has written it
                add(number.to_bytes(_NUMBER, "little") + block)
        os.ftruncate(target, at)
        _write(target, checksum.digest(), 0)
        os.fsync(target)
    finally:
        os.close(target)
    synchronise(database.parent)


def put_back(database: Path) -> bool:
    """Write the copies back if the checkpoint did not complete; return whether a block differed.

    The caller must not have the database open.  If another process holds its lock, nothing is
    written.  Raises OSError if the database cannot be read or written.
    """
    try:
        source = os.open(copies_path(database), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if not _is_whole(source, database):
            return False
        target = os.open(database, os.O_RDWR | os.O_CLOEXEC)
        try:
            return _put_back(source, target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _put_back(source: int, target: int) -> bool:
    if os.pread(source, HEADERS, _CHECKSUM) != os.pread(target, HEADERS, 0):
        return False
    try:
        fcntl.lockf(target, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock that DuckDB has
    except (BlockingIOError, PermissionError):
        return False
    at, end, differed = _CHECKSUM + HEADERS, os.fstat(source).st_size, False
    while at < end:
        number = int.from_bytes(os.pread(source, _NUMBER, at), "little")
        block = os.pread(source, _BLOCK, at + _NUMBER)
        place = HEADERS + number * _BLOCK
        differed |= os.pread(target, _BLOCK, place) != block
        _write(target, block, place)  # also what is equal: it may be in the system's cache only
        at += _NUMBER + _BLOCK
    os.fsync(target)
    return differed


def _is_whole(source: int, database: Path) -> bool:
    """Return whether the copies can be read and are complete: a sound store opens without them."""
    checksum, at = hashlib.blake2b(digest_size=_CHECKSUM), _CHECKSUM
    try:
        while piece := os.pread(source, 1 << 20, at):
            checksum.update(piece)
            at += len(piece)
        return os.pread(source, _CHECKSUM, 0) == checksum.digest()
    except OSError as error:
        _log.warning("the copies of blocks of %s cannot be read: %s", database, error)
        return False


def _write(descriptor: int, content: bytes, place: int) -> None:
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written
