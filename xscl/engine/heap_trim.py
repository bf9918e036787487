"""Bounds of free heap memory: its release after a large transaction, and few arenas.

The C library keeps freed blocks between live ones.  24 documents with 20,000 results each left 110
MB of them; the release takes some milliseconds.

glibc gives threads up to eight arenas for each processor, and no arena reuses the free blocks of
another.  After an hour of mixed load, 16 arenas of a service had 672 MB, of which 552 MB were free.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

MANY = 20_000
"""Results of a transaction from which on `trim_heap` pays."""

LARGE = 1_000_000
"""Bytes of the texts of a transaction from which on `trim_heap` pays."""

ARENAS = 2
"""Arenas of a service: one for the thread that holds the interpreter, one for those that do not."""
_ARENA_MAX = -8  # `M_ARENA_MAX` of malloc.h
_STATM = Path("/proc/self/statm")


def limit_arenas() -> None:
    """Limit the heap arenas of this process to `ARENAS`; does nothing without glibc.

    Call it before threads start.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, ARENAS)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, 0 where it is not known."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def trim_heap() -> None:
    """Return free memory of Arrow's pool and of glibc's heap to the operating system."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any | None:
    """Return glibc's `malloc_trim`; None where the C library has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
