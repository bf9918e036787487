"""`xscl serve` as a process of its own, without Spark, on a free port of loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.stress.oracle import SKIPPED

ROOT = Path(__file__).resolve().parents[2]
STARTS = 120.0
"""Seconds in which it has to be there on a busy machine."""
_ADDRESS = re.compile(r"the page is at (http://[^/]+)/")

SERVE = ("-m", "xscl")  # under -c DuckDB takes the process for a session, and prints progress
PLANTED = ("-m", "tests.stress.planted")


class Serving:
    """A running service; what it prints is read as it comes."""

    def __init__(
        self,
        data: Path,
        program: Sequence[str],
        options: Sequence[str],
        environment: Mapping[str, str] | None = None,
        before: Serving | None = None,
    ) -> None:
        """Start it; what the service `before` it has printed counts, too."""
        command = [sys.executable, *program, "serve", "--no-spark", "--port", "0", "--json"]
        self._process = subprocess.Popen(
            [*command, "--data", str(data), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        )
        self.printed: Counter[str] = before.printed if before else Counter()
        self.printed_of: Counter[str] = before.printed_of if before else Counter()
        """What was printed, by subscription."""
        self.address: str | None = None
        self.errors: list[str] = []
        self._there = threading.Event()
        self._readers = [
            threading.Thread(target=read, daemon=True)
            for read in (self._read_output, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def wait_until_there(self) -> str:
        """Return the address, once requests are taken."""
        self._there.wait(STARTS)
        if self.address is None:
            self.kill()
            raise AssertionError(f"the service does not start: {self.errors[-5:]}")
        return self.address

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def stop(self, seconds: float) -> str | None:
        """End it by SIGTERM; return what is wrong with its end."""
        if self.exit_code is not None:
            return f"the service had ended with {self.exit_code}: {self.errors[-5:]}"
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"SIGTERM did not end the service within {seconds:g} s"
        for reader in self._readers:
            reader.join()
        if code:
            took = time.monotonic() - began
            return f"after SIGTERM the service ended with {code} ({took:.1f} s)"
        return None

    def wait(self, seconds: float) -> int | None:
        """Return the exit code; None if it does not end within some seconds."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join()
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, if it still runs, and read what it has printed."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(STARTS)

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if not line.endswith("\n"):  # a kill has cut it
                    return
                told = json.loads(line)
                self.printed[told.get("match", SKIPPED)] += 1
                self.printed_of[told.get("subscription", SKIPPED)] += 1

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.errors.append(line.rstrip())
                if found := _ADDRESS.search(line):
                    self.address = found[1]
                    self._there.set()
        self._there.set()  # it has ended
