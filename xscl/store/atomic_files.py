"""Atomic file writes: a file is complete or absent, also after a power failure."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_PIECE = 1 << 20


def synchronise(path: Path) -> None:
    """Synchronise a file, or the names in a directory, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file atomically and durably; only its owner can read the copy."""
    temporary = target.with_name(f"{target.name}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with source.open("rb") as read, open(os.open(temporary, flags, 0o600), "wb") as written:
        while piece := read.read(_PIECE):
            written.write(piece)
        written.flush()
        os.fsync(written.fileno())
    temporary.replace(target)
    synchronise(target.parent)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_durably(path: Path, image: bytes) -> None:
    """Replace a small file atomically and durably."""
    temporary = path.with_name(f"{path.name}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(image)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    synchronise(path.parent)
