"""Two ways of starting a victim: `fresh`, as `python -m tests.kills.victim`, and `forked`.

A fresh process takes more than a second to load everything.  Forked ones come from a process that
has loaded it once and has done nothing else, which takes a tenth; their points get the fault when
they are born, where a fresh process reads it from its environment.

A fresh process that has ended is kept as a zombie until `end`, so that its number, which is that
of its group, belongs to nobody else: what it has started (Java) is ended by that number.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

from feeds import faultpoints
from feeds.faultpoints import VARIABLE, FaultSpec
from tests.kills.victim import SECONDS, Setting, run

ROOT = Path(__file__).resolve().parents[2]
_TICK = 0.005


class Life(Protocol):
    """A victim, running or not; `began` is the time of its start, `errors` what it has to say."""

    @property
    def began(self) -> float: ...
    @property
    def errors(self) -> Path: ...

    def code(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""

    def end(self) -> None:
        """End it, and what it has started."""


def wait(life: Life) -> int:
    """Return the exit code of a victim when it has ended, as it must."""
    deadline = time.monotonic() + SECONDS + 10
    while (code := life.code()) is None:
        assert time.monotonic() < deadline, f"it does not end: {said(life)}"
        time.sleep(_TICK)
    return code


def said(life: Life) -> str:
    """Return the end of what a victim has written to its standard error."""
    return life.errors.read_text(errors="replace")[-4_000:]


# -- Fresh ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fresh:
    """A process of its own, in a group of its own."""

    process: subprocess.Popen[bytes]
    errors: Path
    began: float = field(default_factory=time.time)

    def code(self) -> int | None:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self.process.pid, options)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)


def fresh(
    setting: Setting, errors: Path, fault: FaultSpec | None, environment: Mapping[str, str]
) -> Fresh:
    """Start a victim as a process of its own, with more variables in its environment."""
    variables = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        variables[VARIABLE] = str(fault)
    with errors.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills.victim", *setting.arguments],
            cwd=ROOT,
            env=variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return Fresh(process, errors)


# -- Forked --------------------------------------------------------------------------------

_NURSERY = multiprocessing.get_context("forkserver")
_NURSERY.set_forkserver_preload(["tests.kills.nursery"])


@dataclass(frozen=True, slots=True)
class Forked:
    """A process that began with everything loaded."""

    process: ForkServerProcess
    errors: Path
    began: float = field(default_factory=time.time)

    def code(self) -> int | None:
        return self.process.exitcode

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        if self.process.exitcode is None:
            self.process.kill()
        self.process.join(60)
        self.process.close()


def forked(setting: Setting, errors: Path, fault: FaultSpec | None) -> Forked:
    """Start a victim from the process that has everything loaded."""
    errors.touch()
    process = _NURSERY.Process(target=_born, args=(setting, errors, fault))
    process.start()
    return Forked(process, errors)


def _born(setting: Setting, errors: Path, fault: FaultSpec | None) -> None:
    with errors.open("wb") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    if fault is not None:
        _arm(fault)
    run(setting)


def _arm(fault: FaultSpec) -> None:
    """Put the fault's function in the place of the one that does nothing, wherever it is called."""
    unharmed, strike = faultpoints.reached, faultpoints.armed(fault)
    for module in list(sys.modules.values()):
        if getattr(module, "reached", None) is unharmed:
            module.__dict__["reached"] = strike
