"""Faults of a real service under stress, one at a time; after each it has to become healthy."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence

import httpx

from tests.stress.clients import Findings
from tests.stress.machine import Machine
from tests.stress.service import Serving

KINDS = ("kill", "stop", "full", "second", "clock")
HEALTHY = 120.0
"""Seconds after a fault in which the service has to be healthy, on a busy machine."""
PAUSE = 3.0
"""Seconds without a fault, at most."""
STEPS = (-3_600.0, -30.0, 30.0, 3_600.0, 86_400.0)


class Host:
    """The service that runs, and how another one is started on its directory."""

    def __init__(self, start: Callable[[Serving | None], Serving]) -> None:
        self._start = start
        self.service = start(None)

    def restart(self) -> None:
        """Kill the service, and start it again."""
        self.service.kill()
        self.service = self._start(self.service)
        self.service.wait_until_there()

    def start_second(self) -> Serving:
        """Start another service beside the one that runs."""
        return self._start(None)


class Faults:
    """Breaks the machine or the service of a host."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str],
        machine: Machine,
        host: Host,
        findings: Findings,
        ends_within: float,
    ) -> None:
        self._draw = random.Random(f"faults {seed}")
        self._machine = machine
        self._host = host
        self._findings = findings
        self._ends_within = ends_within
        known: Mapping[str, Callable[[], None]] = {
            "kill": host.restart,
            "stop": self._stop,
            "full": self._fill,
            "second": self._start_second,
            "clock": self._step,
        }
        self._kinds = [(kind, known[kind]) for kind in kinds]
        self.struck: dict[str, int] = dict.fromkeys(kinds, 0)

    def strike(self) -> None:
        """Wait a moment, make a fault, and wait until the service is healthy."""
        if self._findings.stop.wait(self._draw.uniform(0.2, PAUSE)):
            return
        fewest = min(self.struck.values())
        kind, fault = self._draw.choice([k for k in self._kinds if self.struck[k[0]] == fewest])
        with self._findings.disturbance():
            fault()
            self.struck[kind] += 1
            self._wait_until_healthy(kind)

    def _wait_until_healthy(self, kind: str) -> None:
        until, last = time.monotonic() + HEALTHY, "no answer"
        while time.monotonic() < until and not self._findings.stop.is_set():
            if self._host.service.exit_code is not None:
                code, errors = self._host.service.exit_code, self._host.service.errors[-5:]
                self._findings.found(f"after {kind} the service ended with {code}: {errors}")
                return
            try:
                answer = httpx.get(
                    f"{self._host.service.address}/v1/health", timeout=30, trust_env=False
                )
                told = answer.json()
                if (told["status"], told["consumer"], told["store"]) == ("ok", "ok", "ok"):
                    return
                last = str(told)
            except httpx.TransportError as error:
                last = repr(error)
            time.sleep(0.1)
        if not self._findings.stop.is_set():
            self._findings.found(f"after {kind} the service does not become healthy: {last}")

    # -- Kinds -----------------------------------------------------------------------------

    def _stop(self) -> None:
        """Suspend the process for some seconds."""
        self._host.service.signal(signal.SIGSTOP)
        time.sleep(self._draw.uniform(0.5, 4))
        self._host.service.signal(signal.SIGCONT)

    def _fill(self) -> None:
        """Leave no room on the disk for some seconds."""
        self._machine.fill()
        time.sleep(self._draw.uniform(0.5, 4))
        self._machine.free()

    def _step(self) -> None:
        """Step the wall clock for some seconds."""
        self._machine.step(self._draw.choice(STEPS))
        time.sleep(self._draw.uniform(0.5, 4))
        self._machine.step(0)

    def _start_second(self) -> None:
        """Start a second service on the directory: it ends, and names the first."""
        second = self._host.start_second()
        try:
            code = second.wait(self._ends_within)
            told = " ".join(second.errors)
            if not code:
                self._findings.found(f"a second service on the directory ended with {code}: {told}")
            elif f"process {self._host.service.pid}" not in told:
                self._findings.found(f"a second service does not name the first: {told}")
        finally:
            second.kill()
