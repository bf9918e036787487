"""Release of free heap memory to the system after a large transaction.

The C library keeps freed blocks between live ones.  24 documents with 20,000 results each left 110
MB of them; the release takes some milliseconds.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa

MANY = 20_000
"""Results of a transaction from which on it pays."""


def trim_heap() -> None:
    """Release free memory, where the allocators can."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any | None:
    """Return glibc's `malloc_trim`; other C libraries have none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
