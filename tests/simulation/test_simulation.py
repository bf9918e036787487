"""Simulations of the service, and of the parts of the simulator."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import usually
from tests.simulation import disk

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
)


DEFECTS = (
    *("missing_fsync", "lost_wake_up", "cursor_before_answer", "early_stamp", "early_unlock"),
    *("shared_connection", "skipped_gap"),
    *("missing_fsync_of_log", "early_mark", "early_base", "forgotten_ids"),
)
"""The names of `tests.simulation.planted`, which only the process of a simulation imports."""


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
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_within_ten_hours(defect: str) -> None:
    run = simulated("--seed", "41", "--runs", "10", "--plant", defect, "--until-found")
    assert run.returncode == 1, run.stdout


@pytest.mark.slow
def test_many_hours_are_clean() -> None:
    run = simulated("--seed", "100", "--runs", os.environ.get("XSCL_SEEDS", "20"))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_schedules_that_once_failed_are_clean() -> None:
    run = simulated("--replay", str(Path(__file__).with_name("corpus.txt")))
    assert run.returncode == 0, run.stdout + run.stderr


WRITES = """
import os, sys
from pathlib import Path
under = Path(sys.argv[1])
with open(under / "synced", "wb", buffering=0) as file:
    file.write(b"a" * 2000)
    os.fsync(file.fileno())
    file.write(b"b" * 2000)
(under / "old").write_bytes(b"old")
os.rename(under / "old", under / "new")
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Directories after crashes at the end of the same writes."""
    made = tmp_path_factory.mktemp("disk")
    under, log = made / "under", made / "log"
    under.mkdir()
    recorded = disk.Disk(under, log)
    environment = {"LD_PRELOAD": str(disk.build(made)), "DISK_UNDER": str(under)}
    environment |= {**os.environ, **environment, "DISK_LOG": str(log)}
    subprocess.run([sys.executable, "-c", WRITES, str(under)], env=environment, check=True)
    for seed in range(60):
        recorded.crash(made / str(seed), random.Random(seed))
    return [made / str(seed) for seed in range(60)]


def test_what_was_synced_survives_and_what_follows_may_be_torn(crashed: list[Path]) -> None:
    found = {(path / "synced").read_bytes() for path in crashed}
    assert all(content.startswith(b"a" * 2000) for content in found)
    assert {len(content) for content in found} == {2000, 2512, 3024, 3536, 4000}


def test_names_survive_in_the_order_of_their_changes(crashed: list[Path]) -> None:
    found = {frozenset(file.name for file in path.iterdir()) for path in crashed}
    assert found == {
        frozenset({"synced"}),
        frozenset({"synced", "old"}),
        frozenset({"synced", "new"}),
    }


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
    runs = [
        subprocess.run(
            [sys.executable, "-c", DEADLOCK, str(seed)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        for seed in range(12)
    ]
    found = [run for run in runs if "Deadlock" in run.stderr]
    assert 0 < len(found) < len(runs)
    assert all(" take\n" in run.stderr for run in found)


CHILD = """
from tests.simulation import threads
from tests.simulation.scheduler import Scheduler
import subprocess, sys
scheduler = Scheduler(1)
threads.install(scheduler)
slow = "import os, time; os.close(1); time.sleep(0.1)"
command = [sys.executable, "-c", slow]
subprocess.run(command, input=b"", stdout=subprocess.PIPE, timeout=60, check=True)
print(scheduler.steps, scheduler.now)
"""


def test_the_real_time_of_a_child_process_is_not_in_the_schedule() -> None:
    command = [sys.executable, "-c", CHILD]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.stdout == "0 0\n", run.stdout + run.stderr
