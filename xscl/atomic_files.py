"""Atomic file writes: a file is complete or absent, also after a power failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from feeds.file_descriptors import synchronise


def created(path: Path, mode: str = "xb") -> IO[bytes]:
    """Return a file that only its owner can read, open for writing; with "xb" it must not exist."""
    return open(path, mode, opener=partial(os.open, mode=0o600))


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a private file, `<name>.tmp`, that replaces another one durably at the end."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with created(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    synchronise(path.parent)


def write_durably(path: Path, image: bytes) -> None:
    """Replace a small file atomically and durably."""
    with replacing(path) as file:
        file.write(image)
