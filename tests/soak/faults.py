"""Faults of a real service, one at a time; after them it has to become healthy.

A fault is a kind, or a point of `feeds.faultpoints` as the variable XSCL_FAULT names it:

    kill      at any moment                     full      no room on the disk for some seconds
    stop      suspended for some seconds        clock     a step of the wall clock, and back
    second    another service is started on the directory
    joined:2  the process kills itself at a point; `=TERM` ends it there, at `=EIO` the point fails
    change:7  the same, within the seventh change to a file; `change:7=EIO`

At `closing` it gets SIGTERM, and the kill comes while it shuts down.
"""

from __future__ import annotations

import errno
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import httpx

from feeds.faultpoints import FaultSpec, read
from tests.soak.clients import Findings
from tests.soak.machine import Machine
from tests.soak.service import Host

HEALTHY = 120.0
"""Seconds after a fault in which the service has to be healthy, on a busy machine."""
STRIKES = 60.0
"""Seconds in which a point has to be passed so often."""
PAUSE = 3.0
"""Seconds without a fault, at most."""
STEPS = (-3_600.0, -30.0, 30.0, 3_600.0, 86_400.0)
KINDS = ("kill", "stop", "full", "second", "clock")
CHANGE, CLOSING = "change", "closing"
ENDS = {"KILL": (-signal.SIGKILL,), "TERM": (0,), "INT": (0,), "EIO": (0, 1, None)}
"""The exit codes of a process by the action of a fault; None if it may go on."""
BROKEN = "Input/output error"


def needs_machine(faults: Sequence[str]) -> bool:
    """Return True if some faults are made by a library that the service loads."""
    return any(one.partition(":")[0] in (*KINDS, CHANGE) for one in faults)


class Faults:
    """Breaks the machine or the service of a host; `struck` counts by fault."""

    def __init__(
        self,
        faults: Sequence[str],
        host: Host,
        machine: Machine | None,
        findings: Findings,
        ends_within: float,
        seed: int,
    ) -> None:
        self._draw = random.Random(f"faults {seed}")
        self._host = host
        self._machine = machine
        self._findings = findings
        self._ends_within = ends_within
        self.struck = Counter[str](dict.fromkeys(faults, 0))
        self.lives: list[float] = []
        """Seconds from the start of a process to its first answer."""
        self._known: Mapping[str, Callable[[], None]] = {
            "kill": self._restart,
            "stop": self._stop,
            "full": self._fill,
            "second": self._start_second,
            "clock": self._step,
        }

    def strike(self) -> None:
        """Make one of the rarest faults; before a kind, the service has a quiet moment."""
        fewest = min(self.struck.values())
        fault = next(one for one, count in self.struck.items() if count == fewest)
        known = self._known.get(fault)
        if known is not None:
            self.recover()
            if self._findings.quiet.wait(self._draw.uniform(0.2, PAUSE)):
                return
        with self._findings.disturbance():
            known() if known is not None else self._pass(read(fault))
        self.struck[fault] += 1

    def recover(self) -> None:
        """Start the service unless it runs, and wait until it is healthy."""
        until, last = time.monotonic() + HEALTHY, "no answer"
        with self._findings.disturbance():
            if self._host.exit_code is not None:
                self._restart()
            while time.monotonic() < until and self._host.exit_code is None:
                try:
                    told = self._host.health()
                    if (told["status"], told["consumer"], told["store"]) == ("ok", "ok", "ok"):
                        return
                    last = str(told)
                except httpx.TransportError as error:
                    last = repr(error)
                time.sleep(0.1)
        self._findings.found(f"it does not become healthy: {last}, {self._host.errors()[-5:]}")

    # -- Points ----------------------------------------------------------------------------

    def _pass(self, fault: FaultSpec) -> None:
        """Make the service fail at the point: it ends, or continues after the failure."""
        self._findings.is_broken = fault.action == "EIO" and fault.point != CHANGE
        if fault.point == CHANGE:
            assert self._machine is not None
            if self._host.exit_code is not None:
                self._restart()
            self._machine.strike(fault.passage, errno.EIO if fault.action == "EIO" else 0)
        else:
            self._restart(fault)
            if fault.point == CLOSING:
                self._host.signal(signal.SIGTERM)
        until = time.monotonic() + STRIKES
        while self._host.exit_code is None:
            if fault.action == "EIO" and any(BROKEN in one for one in self._host.errors()):
                self._host.wait(1.0)  # it may end, or go on
                break
            if time.monotonic() > until:
                self._findings.found(f"{fault} did not come")
                return
            time.sleep(0.05)
        if (code := self._host.exit_code) not in ENDS[fault.action]:
            self._findings.found(f"at {fault} it ended with {code}: {self._host.errors()[-5:]}")

    def _restart(self, fault: FaultSpec | None = None) -> None:
        """Kill the service if it runs, and start it again."""
        self._host.kill()
        began = time.monotonic()
        self._host.start(fault)
        if self._host.wait_until_there():
            self.lives.append(time.monotonic() - began)

    # -- Kinds -----------------------------------------------------------------------------

    def _last(self) -> None:
        time.sleep(self._draw.uniform(0.5, 4))

    def _stop(self) -> None:
        self._host.signal(signal.SIGSTOP)
        self._last()
        self._host.signal(signal.SIGCONT)

    def _fill(self) -> None:
        assert self._machine is not None
        self._machine.fill()
        self._last()
        self._machine.free()

    def _step(self) -> None:
        assert self._machine is not None
        self._machine.step(self._draw.choice(STEPS))
        self._last()
        self._machine.step(0)

    def _start_second(self) -> None:
        """Start a second service on the directory: it ends, and names the first."""
        first = self._host.pid
        self._host.start()
        code = self._host.wait(self._ends_within)
        if code is None:
            self._host.kill()
        told = " ".join(self._host.errors())
        self._host.lives.pop()
        if not code:
            self._findings.found(f"a second service on the directory ended with {code}: {told}")
        elif f"process {first}" not in told:
            self._findings.found(f"a second service does not name the first: {told}")
