"""Simulations in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

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


@contextmanager
def runner(*, events: bool = False) -> Iterator[Callable[[Schedule], Outcome]]:
    """Yield what runs a schedule to its end, below a directory in memory."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        library = disk.build(Path(made))

        def run(schedule: Schedule) -> Outcome:
            with TemporaryDirectory(dir=made) as root:
                environment = {
                    **os.environ,
                    "PYTHONHASHSEED": "0",
                    "LD_PRELOAD": str(library),
                    "DISK_UNDER": f"{root}/life",
                    "DISK_LOG": f"{root}/log",
                }
                command = [sys.executable, "-m", "tests.simulation.child", root]
                ended = subprocess.run(
                    [*command, *["--events"] * events],
                    env=environment,
                    input=str(schedule),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            return Outcome(ended.returncode, ended.stdout)

        yield run
