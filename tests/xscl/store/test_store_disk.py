"""After a loss of power the store has what was acknowledged.

A process makes pushes (`tests.xscl.store.numbered_pushes`) while a library records its changes to
files.  A crash at any of its moments is replayed from the record, with writes that were not
synchronised lost, torn and in any order; or with all of them, as after a kill.  Writes and syncs
that fail are those of a service (`tests.soak.test_faults`).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.examples import MORE, tried
from tests.simulation import disk
from tests.xscl.store.numbered_pushes import acknowledged_in, expect_whole
from xscl.store.store import Store

ROOT = Path(__file__).resolve().parents[3]
PUSHES = 120

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("library"))


def record(home: Path, library: Path) -> None:
    """Make pushes in the directory `under` of another one, and record the changes."""
    (home / "under").mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "DISK_UNDER": str(home / "under"),
        "DISK_LOG": str(home / "log"),
    }
    arguments = [str(home / "under" / "state.db"), str(home / "told"), str(PUSHES)]
    command = [sys.executable, "-m", "tests.xscl.store.numbered_pushes", *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    assert acknowledged_in(home / "told") == PUSHES


def expect_crashes_lose_nothing(home: Path, number: int, seed: int) -> None:
    """Check the store after crashes at moments of a record, in the order of time."""
    draw = random.Random(seed)
    replayed = disk.Disk(home / "under", home / "log", is_replayed=True)
    for place, size in enumerate(sorted(draw.choices(replayed.ends(), k=number))):
        replayed.update(size)
        crashed = home / f"crashed{place}"
        was_killed = place % 3 == 0  # everything survives
        replayed.crash(crashed, None if was_killed else draw, is_scattered=place % 2 == 0)
        acknowledged = acknowledged_in(home / "told", size)
        with closing(Store(crashed / "state.db")) as store:
            expect_whole(store, acknowledged, acknowledged + 1)
        shutil.rmtree(crashed)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    home = tmp_path_factory.mktemp("recorded")
    record(home, library)
    return home


def test_a_loss_of_power_loses_nothing(recorded: Path) -> None:
    expect_crashes_lose_nothing(recorded, tried(200), 3)


def test_a_full_disk_at_the_start_is_named(tmp_path: Path, library: Path) -> None:
    script = (
        "import sys; from tests.simulation import disk; disk.fail(28, int(sys.argv[2]), 99);"
        " from xscl.store.store import Store; Store(sys.argv[1])"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library), "DISK_LOG": str(tmp_path / "log")}
    for after in range(1, 12, 3 if MORE > 1 else 6):
        home = tmp_path / f"under{after}"
        home.mkdir()
        command = [sys.executable, "-c", script, str(home / "state.db"), str(after)]
        environment["DISK_UNDER"] = str(home)
        failed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert "StoreError: the store" in failed.stderr, failed.stderr
        with closing(Store(home / "state.db")) as store:
            assert store.progress("position") == 0
