"""A store that a kill has left with a large log, and little memory (row C19)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import xscl
from tests.kills.processes import ROOT
from xscl.store.store_errors import StoreDamaged, StoreNeedsMemory, store_error

MB = 1 << 20
LOG = 75
"""The log's size, in MB."""
ENOUGH = 1_400
"""Address space in MB, of which what is loaded takes most: a container of 1 GB has more room."""

LEAVE = f"""
import os, secrets, signal, sys
from pathlib import Path
import xscl
engine = xscl.Engine(sys.argv[1])
engine.subscribe("q", "S//a->x FOLLOWED BY{{x=y, 1 d}} S//a->y")
log, number = Path(sys.argv[1] + ".wal"), 0
while not log.exists() or log.stat().st_size < {LOG * MB}:
    xml = f"<r><a>1</a><t>{{secrets.token_hex(4_000_000)}}</t></r>".encode()
    engine.push([xscl.Document("S", f"d{{number}}", number, xml)])
    number += 1
os.kill(os.getpid(), signal.SIGKILL)
"""

START = """
import resource, sys
limit = int(sys.argv[2]) << 20
import xscl
from xscl.errors import StoreError
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    with xscl.Engine(sys.argv[1]) as engine:
        print(engine.sql("SELECT count(*) AS n FROM documents").to_pydict()["n"][0])
except StoreError as error:
    print(error.code, error, sep=": ")
    sys.exit(1)
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


@pytest.mark.slow
def test_c19_a_large_log_is_read_in_little_memory_or_it_is_said_that_there_is_too_little(
    tmp_path: Path,
) -> None:
    """Repeated starts read the log again and do no further damage."""
    store = tmp_path / "state.duckdb"
    assert run(LEAVE, str(store)).returncode == -signal.SIGKILL
    log = store.with_name("state.duckdb.wal")
    before = log.stat().st_size
    assert before >= LOG * MB
    refused = 0
    for room in (500, 600, 600, 750):
        done = run(START, str(store), str(room))
        if done.returncode == 0:
            break
        if done.stdout:
            refused += 1
            assert done.stdout.startswith("store_memory: there is too little memory for the store")
        assert log.stat().st_size == before, "a start that fails leaves everything as it was"
    assert refused, "there was too little at first"
    done = run(START, str(store), str(ENOUGH))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) == before // (8 * MB) + 1
    with xscl.Engine(store) as engine:
        documents = int(done.stdout)
        assert len(engine.matches()) == documents * (documents - 1) // 2


def test_c19_too_little_memory_is_no_damage() -> None:
    """After a report of damage the content of the log can be given up."""
    path = Path("state.duckdb")
    line = (
        'Failure while replaying WAL file "state.duckdb.wal": Failed to allocate block of 9 bytes'
    )
    few = store_error(path, RuntimeError(f"Out of Memory Error: {line} (bad allocation)"))
    assert isinstance(few, StoreNeedsMemory)
    assert "nothing is lost" in str(few.hint)
    assert isinstance(store_error(path, RuntimeError(f"IO Error: {line}")), StoreDamaged)
