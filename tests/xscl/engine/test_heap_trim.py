"""The arenas of glibc are limited, whatever the number of threads."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
import weakref
from contextlib import suppress

import pytest

import xscl
from xscl.engine.heap_trim import ARENAS

THREADS = 12
COUNT = f"""
import ctypes, sys, threading
from xscl.engine.heap_trim import limit_arenas

if sys.argv[1] == "limited":
    limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
together = threading.Barrier({THREADS})

def allocate():
    together.wait()
    for _ in range(1_000):
        libc.malloc(1_000)
    together.wait()  # an arena of a thread that has ended is given to the next one

threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


def arenas(how: str) -> int:
    """Return the number of arenas of a process with threads that allocate at the same time."""
    command = [sys.executable, "-c", COUNT, how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return ran.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are those of glibc")
def test_threads_share_few_arenas() -> None:
    assert arenas("limited") <= ARENAS < arenas("unlimited")


def test_the_state_before_a_failed_change_is_not_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.engine.transactions.FROZEN_AFTER", 1)
    with xscl.Engine(owns_process=True) as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y")
        assert gc.get_freeze_count()
        old = weakref.ref(engine.state.dataflow)
        with suppress(ZeroDivisionError), engine.transactions.change():
            raise ZeroDivisionError
        assert not gc.get_freeze_count()
        found = engine.push([xscl.Document("S", f"d{n}", n, b"<a>k</a>") for n in (1, 2)])
        assert len(found) == 1
        assert gc.get_freeze_count()
        assert old() is None
