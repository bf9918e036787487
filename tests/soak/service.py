"""`xscl serve` as a process on loopback: the lives of a service in one directory.

As a program, `python -m tests.soak.service serve ...`, it is the service with what the variable
SOAK says in JSON: `clock`, that of arrivals, which stamps documents, polls, beats and retries;
`checkpoint`, the bytes of the log from which on checkpoints are made.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from feeds.faultpoints import VARIABLE, FaultSpec
from tests.plain_http import plain_client
from tests.project import ROOT
from tests.soak.fast_clock import FastClock
from tests.soak.oracle import SKIPPED
from tests.thread_server import free_port

SOAK = "SOAK"
STARTS = 120.0
"""Seconds in which a service has to answer on a busy machine."""
SERVE = ("-m", "xscl")  # under -c DuckDB takes the process for a session, and prints progress
CHANGED = ("-m", "tests.soak.service")


@dataclass
class Host:
    """A directory, and the processes that serve it, one after another."""

    data: Path
    logs: Path
    options: Sequence[str] = ("--no-spark",)
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Sequence[str] = SERVE
    lives: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = field(default_factory=free_port)

    @property
    def address(self) -> str:
        """The address of the service."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, fault: FaultSpec | None = None) -> None:
        """Start a process, which may have a fault at a point."""
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        if fault is not None:
            variables[VARIABLE] = str(fault)
        command = [sys.executable, *self.program, "serve", "--json", "--data", str(self.data)]
        output, errors = (self._log(name, len(self.lives)) for name in ("printed", "errors"))
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                [*command, "--port", str(self.port), *self.options],
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=variables,
            )
        self.lives.append(process)

    def wait_until_there(self) -> bool:
        """Return True as soon as requests are answered, False if the process has ended."""
        until = time.monotonic() + STARTS
        while self.exit_code is None:
            try:
                self.health()
                return True
            except httpx.TransportError:
                assert time.monotonic() < until, f"the service does not start: {self.errors()}"
                time.sleep(0.1)
        return False

    def health(self) -> dict[str, str]:
        """Return the status of the service; raises httpx.TransportError."""
        with plain_client(self.address, timeout=STARTS) as client:
            return dict(client.get("/v1/health").json())

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.lives[-1].pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.lives[-1].poll()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.lives[-1].send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """Return the exit code; None if it does not end within some seconds."""
        try:
            return self.lives[-1].wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it at once, if it still runs."""
        self.lives[-1].kill()
        self.lives[-1].wait()

    def stop(self, seconds: float) -> str | None:
        """End it by SIGTERM; return what is wrong with its end."""
        if self.exit_code is not None:
            return f"the service had ended with {self.exit_code}: {self.errors()[-5:]}"
        self.signal(signal.SIGTERM)
        code = self.wait(seconds)
        if code is None:
            self.kill()
            return f"SIGTERM did not end the service within {seconds:g} s"
        return f"after SIGTERM the service ended with {code}" if code else None

    # -- What it says ----------------------------------------------------------------------

    def _log(self, name: str, life: int) -> Path:
        return self.logs / f"{name}-{life}"

    def errors(self, life: int = -1) -> list[str]:
        """Return the lines on standard error of a life, the last one by default."""
        number = life % len(self.lives)
        return self._log("errors", number).read_text(errors="replace").splitlines()

    def printed(self) -> tuple[Counter[str], Counter[str]]:
        """Return the prints of each match in all lives, and the matches of each subscription."""
        matches, subscriptions = Counter[str](), Counter[str]()
        for line in self._lines():
            told = json.loads(line)
            matches[told.get("match", SKIPPED)] += 1
            subscriptions[told.get("subscription", SKIPPED)] += 1
        return matches, subscriptions

    def _lines(self) -> Iterator[str]:
        for number in range(len(self.lives)):
            for line in self._log("printed", number).read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # else a kill has cut it
                    yield line


def run() -> None:
    """Run a command of xscl as the variable says."""
    import xscl.server.serve
    from xscl.cli import main
    from xscl.polling.arrival_clock import ArrivalClock
    from xscl.store import database

    said = json.loads(os.environ.get(SOAK, "{}"))
    if "clock" in said:
        clock = FastClock.read(said["clock"])
        vars(xscl.server.serve)["ArrivalClock"] = partial(ArrivalClock, clock, clock)
    if "checkpoint" in said:
        vars(database)["CHECKPOINT"] = said["checkpoint"]
    main()


if __name__ == "__main__":
    run()
