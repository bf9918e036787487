"""Simulations of the service, and of the parts of the simulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import usually
from tests.project import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
)


def simulated(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("minutes", usually([3, 10], 3))
def test_some_minutes_are_clean(minutes: int) -> None:
    run = simulated("--seed", "7", "--hours", str(minutes / 60))
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {what: int(n) for n, what in re.findall(r"(\d+) ([a-z]+)", run.stdout)}
    assert counts["pushes"] >= 5 * minutes
    assert counts["matches"] >= 2 * minutes
    assert counts["faults"] >= 1


@pytest.mark.slow
def test_equal_seeds_are_equal_runs_step_by_step() -> None:
    runs = [simulated("--seed", "8") for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    assert "trace" in runs[0].stdout


@pytest.mark.slow
def test_many_hours_are_clean() -> None:
    """In some of the first ten hours, each planted fault that names this test is found."""
    seeds = os.environ.get("XSCL_SEEDS", "20")
    run = simulated("--seed", "41", "--runs", seeds, "--until-found")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_schedules_that_once_failed_are_clean() -> None:
    run = simulated("--replay", str(Path(__file__).with_name("corpus.txt")))
    assert run.returncode == 0, run.stdout + run.stderr


DEADLOCK = """
from tests.simulation import threads
from tests.simulation.scheduler import Deadlock, Scheduler
import sys
threads.install(Scheduler(int(sys.argv[1])))
import threading
one, other = threading.Lock(), threading.Lock()
def take(first, second):
    with first, second:
        pass
pair = [threading.Thread(target=take, args=locks) for locks in ((one, other), (other, one))]
for thread in pair:
    thread.start()
for thread in pair:
    thread.join()
"""


def test_a_deadlock_is_found_by_some_seed_and_told_with_its_places() -> None:
    ends = set[bool]()
    for seed in range(8, 30):
        run = subprocess.run(
            [sys.executable, "-c", DEADLOCK, str(seed)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        ends.add("Deadlock" in run.stderr)
        assert ("Deadlock" in run.stderr) == (" take\n" in run.stderr)
        if len(ends) == 2:
            return
    raise AssertionError(ends)
