"""Deliveries that are killed: each match is received at least once, under one id, in order.

Rows C1 (after a webhook was sent, before that is noted) and C16.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import xscl
from feeds.faultpoints import VARIABLE, FaultSpec
from tests.kills.processes import ROOT
from tests.xscl.delivery.receiver import OK, receiving

pytestmark = pytest.mark.slow

ITEMS = 4
AIMED = (
    FaultSpec("sent", 1),
    FaultSpec("sent", 3),
    FaultSpec("sent", 2, delay=0.002),
    FaultSpec("before_commit", 3),
    FaultSpec("after_commit", 4),
    FaultSpec("after_commit", 5),
    FaultSpec("marked", 5),
)
"""At each, after it, and in the commits of pushes and of cursors."""


def life(directory: Path, url: str, fault: FaultSpec | None, items: int = ITEMS) -> int:
    """Return the exit code of a process that delivers."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        variables[VARIABLE] = str(fault)
    command = [sys.executable, "-m", "tests.kills.deliverer", str(directory), url, str(items)]
    return subprocess.run(command, cwd=ROOT, env=variables, timeout=120, check=False).returncode


def kept(directory: Path) -> list[str]:
    with xscl.Engine(directory / "state.sqlite") as engine:
        return [match.id for match in engine.matches()]


def first_times(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))


def test_c1_killed_between_sending_and_noting_it(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = receiver.url("/hook")
        codes = [life(tmp_path, url, fault) for fault in AIMED]
        assert codes.count(-signal.SIGKILL) >= len(AIMED) - 1, codes
        assert life(tmp_path, url, None, items=0) == 0
        assert first_times(receiver.ids("/hook")) == kept(tmp_path)
        bodies = {(got.id, got.body) for got in receiver.at("/hook")}
        again = Counter(receiver.ids("/hook"))
    assert len(bodies) == len(again)
    assert sum(again.values()) - len(again) <= len(AIMED) * ITEMS * 2


def test_c16_lost_receipts_and_a_kill(tmp_path: Path) -> None:
    with receiving() as receiver:
        url = receiver.does("/hook", "reset", "reset", OK)
        assert life(tmp_path, url, FaultSpec("sent", 2)) == -signal.SIGKILL
        assert life(tmp_path, url, None) == 0
        assert first_times(receiver.ids("/hook")) == kept(tmp_path)
