"""A process is killed while it reads histories: what it has acknowledged has all matches, once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import xscl
from tests.kills.backfills import DOCUMENTS, EVERY, document, query_of

MOST = 60
"""Starts after which it must have come to its end."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_kills_during_backfills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    draw, store = random.Random(seed), tmp_path / "state.sqlite"
    acknowledged: set[str] = set()
    kills = 0
    for _ in range(MOST):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.kills.backfills", str(store)],
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            lives = draw.randrange(1, 4)
            for line in child.stdout:
                acknowledged.add(line.strip())
                lives -= 1
                if not lives:
                    time.sleep(draw.uniform(0, 0.3))
                    child.kill()
        kills += child.returncode != 0
        if child.returncode == 0:
            break
    assert child.returncode == 0
    assert kills >= 3
    assert acknowledged == {query_of(number)[0] for number in range(DOCUMENTS // EVERY)}
    assert found(store) == expected()


def found(store: Path) -> Counter[tuple[str, str]]:
    with xscl.Engine(store) as engine:
        engine.flush()
        flagged = {one.subscription for one in engine.matches() if one.backfilled}
        assert {query_of(number)[0] for number in (4, 5, 7)} <= flagged
        return Counter((one.subscription, one.id) for one in engine.matches())


def expected() -> Counter[tuple[str, str]]:
    with xscl.Engine() as engine:
        for number in range(DOCUMENTS // EVERY):
            engine.subscribe(*query_of(number))
        for number in range(DOCUMENTS):
            engine.push(document(number))
        engine.flush()
        return Counter((one.subscription, one.id) for one in engine.matches())
