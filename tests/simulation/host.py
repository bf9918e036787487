"""The machine of the service: its lives, its directory, and requests to it."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from feeds.errors import SegmentsMissing
from tests.simulation import disk
from tests.simulation.journal import Journal
from tests.simulation.network import Network
from tests.simulation.scheduler import Scheduler
from tests.simulation.service import Listening, Process, Refused, Response, Silent
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.service.accounts import THE_OPERATOR, Accounts
from xscl.service.tokens import Tokens

SLOW = 6.0
"""Virtual seconds, without stalls, in which requests are answered: work takes no time."""
MOST_ENDS = 5
"""Ends of the service for no reason, after which it stays down."""
MOST_STARTS = 100
"""Starts in a row without an answer, whatever fault lasts, after which it stays down."""
SETTLED = 120.0
"""Virtual seconds after a fault or a start in which requests may take longer."""


@dataclass(frozen=True)
class LostSegment:
    """The file of a segment that vanished while no service ran, and its content."""

    path: Path
    content: bytes

    def restore(self, error: SegmentsMissing, journal: Journal) -> None:
        """Put the file back, as the error of the service says."""
        if error.path != self.path or str(self.path) not in str(error):
            journal.wrong(f"{self.path} is missing, and the service says {error}")
        self.path.write_bytes(self.content)


class Host:
    """Runs the service, again whenever it has ended, until `is_over`.

    `is_faulty` is set while faults may occur.  A service with `names` asks for tokens.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        root: Path,
        network: Network,
        journal: Journal,
        names: tuple[str, ...] = (),
    ) -> None:
        self.scheduler = scheduler
        self.journal = journal
        self.process: Process | None = None
        self.lives = 0
        self.is_faulty = True
        self.is_over = False
        self.lost: LostSegment | None = None
        self._names = names
        self._headers: dict[str, str] = {}
        self._disturbed = -math.inf
        self._wrong_ends = 0
        self._root = root
        self._network = network
        self._disk: disk.Disk | None = None

    def install(self) -> None:
        """Make a data directory, and start the service, with a token if it asks for one."""
        data = self._root / "life0"
        data.mkdir(parents=True)
        with (
            Engine(DataDirectory(data).database) as engine,
            closing(engine.connect()) as store,
        ):
            _, token = Tokens(store, Accounts(store)).create(THE_OPERATOR)
        self._headers = {"authorization": f"Bearer {token}"} if self._names else {}
        self._boot(data)

    def _boot(self, data: Path) -> None:
        """Start the service on a directory."""
        self._disk = disk.Disk(data, self._root / "log")
        self.lives += 1
        fetching = PollSettings(resolve=self._network.resolve)
        process = Process(self.scheduler, self.lives, data, fetching, self._names)
        process.start()
        self.process = process  # once it runs: the supervisor starts one that does not run again
        self._disturbed = max(self._disturbed, time.monotonic())

    @property
    def is_disturbed(self) -> bool:
        """Return True if a fault lasts, or one or a start was a moment ago."""
        return time.monotonic() - self._disturbed < SETTLED

    def supervise(self) -> None:
        """Start the service again whenever it has ended, as an init system does."""
        failed = 0
        while not self.is_over:
            time.sleep(1)
            process = self.process
            if process is None or process.is_alive:
                failed = 0 if Listening.current else failed
                continue
            self._judge_end(process)
            if self._wrong_ends > MOST_ENDS:
                return
            failed += 1
            if failed > (MOST_STARTS if self.is_faulty else 5):
                self.journal.wrong(f"the service does not start: {process.error!r}")
                return
            if self.process is process:
                self.crash(5, power=False)  # threads and locks that it has left end with it

    def _judge_end(self, process: Process) -> None:
        """Record why a service has ended: it may have been stopped, or not have started.

        Once it answers, no fault of the disk ends it.
        """
        error = process.error
        self.journal.note(f"the service ended: {error!r}")
        if isinstance(error, SegmentsMissing) and self.lost is not None:
            self.lost.restore(error, self.journal)
            self.lost = None
        elif error is not None and process.has_answered and not process.is_stopped:
            self._wrong_ends += 1
            self.journal.wrong(f"the service ended: {error!r}")
        elif error is not None and not self.is_disturbed:
            self.journal.wrong(f"the service ended, and nothing was wrong: {error!r}")

    def crash(
        self,
        seconds: float,
        *,
        power: bool,
        within: tuple[int, int] | None = None,
        harm: Callable[[Path], None] | None = None,
    ) -> None:
        """Kill the service, and start it again after some seconds on what is left.

        Without power, what the disk had not synced is lost, too; `within` is of `Disk.crash`.
        `harm` changes the directory.
        Nothing happens while another thread does this: the supervisor or a fault.
        """
        process, old, self.process = self.process, self._disk, None
        if process is None or old is None:
            return
        process.crash()
        into = self._root / f"life{self.lives}"
        draw = random.Random(f"crash {self.scheduler.seed} {self.lives}")
        old.crash(into, draw if power else None, within, is_scattered=power and draw.random() < 0.5)
        for path in () if power else old.missed(into):
            self.journal.wrong(f"the record of the disk lacks a change of {path}")
        if harm is not None:
            harm(into)
        time.sleep(seconds)
        self._boot(into)

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
        self,
        method: str,
        path: str,
        told: object = None,
        query: dict[str, str] | None = None,
        patience: float | None = None,
    ) -> Response:
        """Make a request, with JSON or the bytes of a document; raises Refused.

        The client hangs up after `patience` seconds.
        """
        process = self.process
        if process is None:
            raise Refused
        body, headers = b"", dict(self._headers)
        if isinstance(told, bytes):
            body = told
        elif told is not None:
            body = json.dumps(told).encode()
            headers["content-type"] = "application/json"
        began, calm = self._unstalled(), not self.is_disturbed
        try:
            answer = process.request(method, path, body, query, headers, patience)
        except Silent:
            if calm and not self.is_disturbed:
                self.journal.wrong(f"{method} {path} was not answered")
            raise
        took = self._unstalled() - began
        if took > SLOW and calm and not self.is_disturbed:
            self.journal.wrong(f"{method} {path} took {took:.1f} s, and nothing was wrong")
        if answer.status >= 500 and "retry-after" not in answer.headers and not self.is_disturbed:
            self.journal.wrong(f"{method} {path}: {answer.status} {answer.body[:200]!r}")
        return answer

    def _unstalled(self) -> float:
        """Return the time without the stalls of tasks, each of which may delay a request."""
        return time.monotonic() - self.scheduler.stalled

    def until(
        self,
        method: str,
        path: str,
        told: object = None,
        query: dict[str, str] | None = None,
    ) -> Response:
        """Repeat a request until it is answered with success.

        A crash may leave a deletion unanswered after its commit; then 404 is success.
        """
        last, may_be_done = "no answer", False
        for _ in range(600):
            try:
                answer = self.ask(method, path, told, query)
            except Refused:  # it may be starting
                may_be_done = method == "DELETE"
            else:
                if answer.status < 400 or (may_be_done and answer.status == 404):
                    return answer
                last = f"{answer.status} {answer.body!r}"
            time.sleep(1)
        raise AssertionError(f"{method} {path} does not succeed: {last}")

    def begin_disturbance(self) -> None:
        """Expect slow answers until `end_disturbance`."""
        self._disturbed = math.inf

    def end_disturbance(self) -> None:
        """Expect quick answers again, soon."""
        self._disturbed = time.monotonic()
