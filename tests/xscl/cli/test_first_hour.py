"""The first hour on the command line, from an empty directory, by the words of the README."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.first_hour import begun, go_through


@pytest.mark.slow
def test_the_first_hour(tmp_path: Path) -> None:
    with begun(tmp_path) as hour:
        go_through(hour)
    assert all("Traceback" not in step.complained for step in hour.steps)
