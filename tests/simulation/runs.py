"""Simulations in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.simulation import disk
from tests.simulation.schedule import Schedule


@dataclass(frozen=True)
class Outcome:
    """The end of a simulation: its status and what it printed."""

    status: int
    output: str

    @property
    def is_failure(self) -> bool:
        """Return True if it found something, or broke."""
        return self.status != 0


class Runner:
    """Runs schedules, below a directory in memory; a context manager."""

    def __init__(self, *, events: bool = False) -> None:
        shared = Path("/dev/shm")
        self._made = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
        self._library = disk.build(self._made)
        self._options = ["--events"] if events else []

    def __enter__(self) -> Self:
        """Return the runner."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Remove the directory."""
        shutil.rmtree(self._made)

    def run(self, schedule: Schedule) -> Outcome:
        """Run a schedule to its end."""
        root = Path(tempfile.mkdtemp(dir=self._made))
        environment = {
            **os.environ,
            "PYTHONHASHSEED": "0",
            "LD_PRELOAD": str(self._library),
            "DISK_UNDER": str(root / "life"),
            "DISK_LOG": str(root / "log"),
        }
        command = [sys.executable, "-m", "tests.simulation.child", str(root), *self._options]
        try:
            ended = subprocess.run(
                command,
                env=environment,
                input=str(schedule),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        finally:
            shutil.rmtree(root)
        return Outcome(ended.returncode, ended.stdout)
