"""An engine whose opening fails leaves its store free for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from feeds.faultpoints import FaultSpec, armed
from tests.xscl.failing_commits import POINTS
from xscl.engine.transactions import Transactions
from xscl.errors import StoreError
from xscl.store.store import Store


def test_a_component_that_fails_closes_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Transactions) -> Store:
        raise StoreError("no room", hint="planted")

    path = tmp_path / "x.sqlite"
    with monkeypatch.context() as patched:
        patched.setattr(Transactions, "connect", fail)
        with pytest.raises(StoreError, match="no room"):
            xscl.Engine(path)
    xscl.Engine(path).close()


def test_a_retention_that_fails_closes_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.sqlite"
    xscl.Engine(path).close()
    keep = xscl.Retention(matches=7)
    with monkeypatch.context() as patched:
        patched.setattr(POINTS, armed(FaultSpec("before_commit", 1, "EIO")))
        with pytest.raises(OSError, match="Input/output"):
            xscl.Engine(path, retention=keep)
    with xscl.Engine(path) as engine:
        assert engine.retention is None
