"""The machine of the service: its lives, its directory, and requests to it."""

from __future__ import annotations

import json
import math
import random
import time
from contextlib import suppress
from pathlib import Path

from tests.simulation import disk
from tests.simulation.journal import Journal
from tests.simulation.network import Network
from tests.simulation.scheduler import Scheduler
from tests.simulation.service import Listening, Process, Refused, Response, Silent
from xscl.polling.feed_poller import PollSettings

SLOW = 6.0
"""Virtual seconds in which requests are answered: idle waits only, as work takes no time."""
SETTLED = 120.0
"""Virtual seconds after a fault or a start in which requests may take longer."""


class Host:
    """Runs the service, again whenever it has ended, until `is_over`.

    `is_faulty` is set while faults may occur, `disturbed` is the time of the last one.
    """

    def __init__(
        self, scheduler: Scheduler, root: Path, network: Network, journal: Journal
    ) -> None:
        self.scheduler = scheduler
        self.journal = journal
        self.process: Process | None = None
        self.lives = 0
        self.is_faulty = True
        self.is_over = False
        self.disturbed = 0.0
        self._root = root
        self._network = network
        self._disk: disk.Disk | None = None

    def boot(self, data: Path | None = None) -> None:
        """Start the service on a directory, by default a new one."""
        data = data or self._root / "life0"
        data.mkdir(parents=True, exist_ok=True)
        self._disk = disk.Disk(data, self._root / "log")
        self.lives += 1
        fetching = PollSettings(resolve=self._network.resolve)
        self.process = Process(self.scheduler, self.lives, data, fetching)
        self.process.start()
        self.disturbed = time.monotonic()

    def supervise(self) -> None:
        """Start the service again whenever it has ended, as an init system does."""
        failed = 0
        while not self.is_over:
            time.sleep(1)
            process = self.process
            if process is None or process.is_alive:
                failed = 0 if Listening.current else failed
                continue
            self.journal.note(f"the service ended: {process.error!r}")
            failed += 1
            if failed > 5 and not self.is_faulty:
                self.journal.wrong(f"the service does not start: {process.error!r}")
                return
            time.sleep(5)
            if self.process is process:
                self.boot(process.data)

    def crash(self, seconds: float, *, power: bool) -> None:
        """Kill the service; without power, also what the disk had not synced is lost."""
        process, old = self.process, self._disk
        if process is None or old is None:
            return
        process.crash()
        into = self._root / f"life{self.lives}"
        draw = random.Random(f"crash {self.scheduler.seed} {self.lives}")
        old.crash(into, draw if power else None)
        self.process = None
        time.sleep(seconds)
        self.boot(into)

    def stop(self) -> Process | None:
        """End the service for good; return its process if it has ended in time."""
        process = self.process
        if process is None:
            self.journal.wrong("no service runs after the faults")
            return None
        self.is_over = True
        process.stop()
        for _ in range(600):
            if not process.is_alive:
                break
            time.sleep(0.1)
        if process.is_alive:
            self.journal.wrong("the service does not end\n" + self.scheduler.describe())
            return None
        if process.error is not None:
            self.journal.wrong(f"the service ended with {process.error!r}")
        return process

    def ask(
        self, method: str, path: str, told: object = None, query: dict[str, str] | None = None
    ) -> Response:
        """Make a request; raises Refused."""
        process = self.process
        if process is None:
            raise Refused
        body = (
            told if isinstance(told, bytes) else b"" if told is None else json.dumps(told).encode()
        )
        kind = (
            {} if told is None or isinstance(told, bytes) else {"content-type": "application/json"}
        )
        began = time.monotonic()
        try:
            answer = process.request(method, path, body, query, kind)
        except Silent:
            self.journal.wrong(f"{method} {path} was not answered")
            raise
        took = time.monotonic() - began
        if took > SLOW and began - self.disturbed > SETTLED:
            self.journal.wrong(f"{method} {path} took {took:.1f} s, and nothing was wrong")
        if answer.status >= 500 and "retry-after" not in answer.headers and not self.is_faulty:
            self.journal.wrong(f"{method} {path}: {answer.status} {answer.body[:200]!r}")
        return answer

    def until(self, method: str, path: str, told: object = None) -> Response:
        """Repeat a request until it is answered with success."""
        last = "no answer"
        for _ in range(600):
            with suppress(Refused):  # it may be starting
                answer = self.ask(method, path, told)
                if answer.status < 400:
                    return answer
                last = f"{answer.status} {answer.body!r}"
            time.sleep(1)
        raise AssertionError(f"{method} {path} does not succeed: {last}")

    def begin_disturbance(self) -> None:
        """Expect slow answers until `end_disturbance`."""
        self.disturbed = math.inf

    def end_disturbance(self) -> None:
        """Expect quick answers again, soon."""
        self.disturbed = time.monotonic()
