"""The working directory of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the test, which has no data yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XSCL_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path
