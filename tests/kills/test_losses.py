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
from tests.simulation import disk

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or shutil.which("gcc") is None,
        reason="the recorder of the simulated disk is compiled, and loaded by LD_PRELOAD",
    ),
]


@pytest.mark.parametrize(
    "options",
    usually(
        [
            ("--counts", "3", "--every", "15"),
            ("--counts", "3", "--every", "7"),
            ("--counts", "1", "2", "3", "20"),
            ("--counts", "1", "2", "3", "20", "--checkpoints"),
        ],
        ("--counts", "3", "--every", "15"),
    ),
    ids=" ".join,
)
def test_c17_a_change_fails_and_the_engine_goes_on(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    run = losses(tmp_path, *options)
    assert run.returncode == 0, run.stdout + run.stderr
    failed = re.search(r"(\d+) with failures", run.stdout)
    assert failed is not None
    assert int(failed[1]) > 5


def losses(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "under").mkdir()
    return subprocess.run(
        [sys.executable, "-m", "tests.kills.losses", str(tmp_path), *options],
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


@pytest.mark.parametrize("every", usually(["15", "7", "1"], "15"))
def test_the_power_fails_behind_changes_to_files(tmp_path: Path, every: str) -> None:
    """Unsynchronised writes are lost in part; acknowledged pushes lose nothing."""
    run = losses(tmp_path, "--power", "--every", every)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["missing_fsync_of_log", "early_mark"])
def test_a_planted_defect_is_found(tmp_path: Path, defect: str) -> None:
    run = losses(tmp_path, "--power", "--plant", defect)
    assert run.returncode == 1, run.stdout + run.stderr
