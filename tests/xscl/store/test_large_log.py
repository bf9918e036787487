"""A store that a kill has left with a large log, and little memory (row C19)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw

from tests.project import ROOT
from xscl.store.database import sqlite_error
from xscl.store.store_errors import DATABASE, StoreNeedsMemory
from xscl.store.store_file import log_path

MB = 1 << 20
LOG = 60
"""The log's size, in MB."""

LEAVE = f"""
import os, secrets, signal, sys
from pathlib import Path
import xscl
from xscl.store import database
from xscl.store.store_file import log_path
database.CHECKPOINT = 1 << 40
engine = xscl.Engine(sys.argv[1])
engine.subscribe("q", "S//a->x FOLLOWED BY{{x=y, 1 d}} S//a->y")
log, number = log_path(Path(sys.argv[1])), 0
while log.stat().st_size < {LOG * MB}:
    xml = f"<r><a>1</a><t>{{secrets.token_hex(4_000_000)}}</t></r>".encode()
    engine.push([xscl.Document("S", f"d{{number}}", number, xml)])
    number += 1
os.kill(os.getpid(), signal.SIGKILL)
"""

START = """
import resource, sys
import xscl
with xscl.Engine(sys.argv[1]) as engine:
    print(len(engine.matches()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def started(store: Path) -> tuple[int, float]:
    """Return the number of matches of a store, and the most memory of a process with it, in MB."""
    done = run(START, str(store))
    assert done.returncode == 0, done.stderr
    matches, memory = map(int, done.stdout.split())
    return matches, memory / 1_024


def test_c19_a_large_log_is_read_in_little_memory(tmp_path: Path) -> None:
    store = tmp_path / DATABASE
    assert run(LEAVE, str(store)).returncode == -signal.SIGKILL
    assert log_path(store).stat().st_size >= LOG * MB
    _, usual = started(tmp_path / "empty.db")
    matches, memory = started(store)
    documents = LOG // 8 + 1
    assert matches == documents * (documents - 1) // 2
    assert memory < usual + LOG / 2


def test_c19_too_little_memory_is_no_damage() -> None:
    """After a report of damage a backup would be put back."""
    few = sqlite_error(Path(DATABASE), apsw.NoMemError("out of memory"))
    assert isinstance(few, StoreNeedsMemory)
    assert "nothing is lost" in str(few.hint)
