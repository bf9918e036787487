"""Descriptors of files and directories, for what file objects cannot do: locks, marks, fsync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def descriptor_of(path: Path | str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield the descriptor of a file or a directory; a file that this creates has the mode 0600."""
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def synchronise(path: Path) -> None:
    """Synchronise a file, or the names in a directory, to the disk (fsync)."""
    with descriptor_of(path) as descriptor:
        os.fsync(descriptor)
