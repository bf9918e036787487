"""Any write or sync of an engine's files fails: it is done again, and nothing is lost or doubled.

Row C17 of the plan for reliability, within one process.
"""

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
from tests.simulation import disk

USUAL = "--counts 3 --every 15"
OPTIONS = (USUAL, "--counts 3 --every 7", "--counts 1 2 3 20", "--counts 1 2 3 20 --checkpoints")


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None,
    reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
)
@pytest.mark.parametrize("options", usually(OPTIONS, USUAL))
def test_c17_a_change_fails_and_the_engine_goes_on(options: str, tmp_path: Path) -> None:
    (tmp_path / "under").mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "tests.simulation.losses", str(tmp_path), *options.split()],
        cwd=ROOT,
        env={
            **os.environ,
            "LD_PRELOAD": str(disk.build(tmp_path)),
            "DISK_UNDER": str(tmp_path / "under"),
            "DISK_LOG": str(tmp_path / "log"),
        },
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    failed = re.search(r"(\d+) with failures", run.stdout)
    assert failed is not None
    assert int(failed[1]) > 5
