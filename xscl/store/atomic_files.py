"""Atomic file writes: a file is complete or absent, also after a power failure."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

_PIECE = 1 << 20


def synchronise(path: Path) -> None:
    """Synchronise a file, or the names in a directory, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rewrite(path: Path, size: int | None = None) -> None:
    """Write the first bytes of a file, or all, over themselves, and synchronise it.

    A file that is absent is left so.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        at, end = 0, os.fstat(descriptor).st_size if size is None else size
        while at < end and (piece := os.pread(descriptor, min(_PIECE, end - at), at)):
            at += os.pwrite(descriptor, piece, at)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a private file that replaces another one durably when the block succeeds.

    After an error the file `<name>.tmp` is left, and the next call overwrites it.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "wb", opener=partial(os.open, mode=0o600)) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    synchronise(path.parent)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file atomically and durably; only its owner can read the copy."""
    with source.open("rb") as read, replacing(target) as written:
        shutil.copyfileobj(read, written, _PIECE)


def write_durably(path: Path, image: bytes) -> None:
    """Replace a small file atomically and durably."""
    with replacing(path) as file:
        file.write(image)
