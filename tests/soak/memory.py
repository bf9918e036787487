"""The parts of a process's memory, which a thread of it writes to a file every few seconds.

    blocks        objects that Python's own allocator holds
    malloc_used   bytes of glibc's heaps in use
    malloc_free   bytes of them that are free, and stay with the process
    malloc_large  bytes of large allocations, each mapped by itself
    arrow         bytes of Arrow's pool

The rest of the resident memory is DuckDB's (its own copy of jemalloc), code, and stacks.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

VARIABLE = "SOAK_MEMORY"
"""The variable with the name of the file."""
EVERY = 5.0
"""Seconds."""
MB = 1_000_000
PARTS = ("blocks", "malloc_used", "malloc_free", "malloc_large", "arrow")


class _Heaps(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def parts() -> dict[str, float]:
    """Return the parts of this process's memory, in MB; `blocks` is a number."""
    look = ctypes.CDLL(None).mallinfo2
    look.restype = _Heaps
    heaps = look()
    return {
        "blocks": sys.getallocatedblocks(),
        "malloc_used": heaps.uordblks / MB,
        "malloc_free": heaps.fordblks / MB,
        "malloc_large": heaps.hblkhd / MB,
        "arrow": pa.total_allocated_bytes() / MB,
    }


def keep_writing(path: Path) -> None:
    """Write the parts to a file every few seconds, from a thread that ends with the process."""

    def write() -> None:
        while True:
            made = path.with_suffix(".tmp")
            made.write_text(json.dumps(parts()))
            made.replace(path)
            time.sleep(EVERY)

    threading.Thread(target=write, name="memory", daemon=True).start()


def read(path: Path) -> dict[str, float]:
    """Return the parts that were written last; none before the first."""
    try:
        found: dict[str, float] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    return found
