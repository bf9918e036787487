"""Services in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.project import ROOT
from xscl.ingestion.data_directory import DataDirectory


@contextmanager
def served(home: DataDirectory, *options: str, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run `xscl serve` in a process group; `first` is run in its process before."""
    program = f"{first}\nfrom xscl.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--port", "0", *options]
    with subprocess.Popen(
        [*command, "--data", str(home.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
