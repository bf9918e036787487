"""After a kill the store has what was acknowledged, once and whole; then it goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from feeds.faultpoints import VARIABLE
from tests.examples import usually
from tests.xscl.store.numbered_pushes import acknowledged_in, expect_whole
from xscl.store.store import Store

ROOT = Path(__file__).resolve().parents[3]
ENDLESS = 1_000_000
POINTS = (
    *(f"before_commit:{number}" for number in (1, 2, 40)),
    *(f"after_commit:{number}" for number in (1, 7, 60)),
    *(f"marked:{number}" for number in (3, 90)),
    *(f"before_commit:{number}+0.002" for number in (5, 33)),
)


def run(home: Path, last: int = ENDLESS, fault: str = "", seconds: float | None = None) -> int:
    """Make pushes until the process ends, or is killed after some seconds; return its code."""
    arguments = [str(home / "state.db"), str(home / "told"), str(last)]
    command = [sys.executable, "-m", "tests.xscl.store.numbered_pushes", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, VARIABLE: fault})
    before = acknowledged_in(home / "told")
    if seconds is not None:
        while acknowledged_in(home / "told") == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(seconds)
        process.kill()
    return process.wait()


def checked(home: Path) -> int:
    """Return the last push of a store, which has to be whole."""
    with closing(Store(home / "state.db")) as store:
        acknowledged = acknowledged_in(home / "told")
        return expect_whole(store, acknowledged, acknowledged + 1)


@pytest.mark.parametrize("point", usually(POINTS, "before_commit:40", "after_commit:7"))
def test_a_kill_at_a_point_loses_nothing(tmp_path: Path, point: str) -> None:
    assert run(tmp_path, fault=point) == -9
    last = checked(tmp_path)
    assert run(tmp_path, last + 20) == 0
    assert checked(tmp_path) == last + 20


def kills(home: Path, draw: random.Random, number: int) -> None:
    for _ in range(number):
        assert run(home, seconds=draw.uniform(0, 0.3)) == -9
        checked(home)


def test_kills_at_random_lose_nothing(tmp_path: Path) -> None:
    kills(tmp_path, random.Random(1), 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_many_kills_at_random_lose_nothing(tmp_path: Path, seed: int) -> None:
    kills(tmp_path, random.Random(seed), 20)
