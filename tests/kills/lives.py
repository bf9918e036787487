"""The lives of a service in one directory: begun, killed, begun again, and looked at in between.

The feed's server lives in the process of the test and outlives all victims.  Every wait has an
end, which is a failure; processes are ended by their own number.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from feeds.faultpoints import FaultSpec
from tests.kills import log
from tests.kills.checker import Found, Input, Verdict, read, verdict
from tests.kills.processes import Life, forked, fresh, said, wait
from tests.kills.victim import SECONDS, Setting
from tests.kills.workload import answer
from tests.xscl.polling.scripted import Server
from xscl.polling.feed import feed_key
from xscl.polling.feed_repository import ticks

PATH = "/feed"
_ANSWERS = 1_000


@dataclass
class Place:
    """A directory in which one victim after the other lives, and what is known of them.

    `recoveries` are seconds from a start to the first commit after it.
    """

    setting: Setting
    server: Server
    forks: bool = True
    lives: list[Life] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    answers: int = _ANSWERS

    # -- Victims ---------------------------------------------------------------------------

    def begin(
        self, fault: FaultSpec | None = None, environment: Mapping[str, str] | None = None
    ) -> Life:
        """Start a victim; with variables for its environment it is a fresh one."""
        errors = self.setting.directory / f"errors-{len(self.lives)}"
        life: Life
        if self.forks and not environment and not self.setting.spark:
            life = forked(self.setting, errors, fault)
        else:
            life = fresh(self.setting, errors, fault, environment or {})
        self.lives.append(life)
        return life

    def ended(self, life: Life) -> int:
        """Return the exit code of a victim when it has ended, and note its recovery."""
        code = wait(life)
        times = [at for at in log.at_work(self.setting.log) if at >= life.began]
        if times:
            self.recoveries.append(times[0] - life.began)
        return code

    def kill(self, fault: FaultSpec) -> None:
        """Start a victim that kills itself at a point."""
        life = self.begin(fault)
        code = self.ended(life)
        assert code == -signal.SIGKILL, f"{fault}: ended with {code}: {said(life)}"

    def killed(self, fault: FaultSpec) -> Verdict:
        """Start a victim that kills itself at a point, and return what is wrong afterwards."""
        self.kill(fault)
        return self.check()

    def killed_after(self, seconds: float, *, batches: int = 0) -> Verdict:
        """Start a victim, kill it so long after some batches, and return what is wrong then."""
        life = self.begin()
        assert self.until_batches(life, batches), said(life)
        time.sleep(seconds)
        life.signal(signal.SIGKILL)
        code = self.ended(life)
        assert code == -signal.SIGKILL, f"it ended by itself with {code}: {said(life)}"
        return self.check()

    def finish(self) -> Verdict:
        """Start a victim and have it end when all is consumed; return what is wrong then."""
        life = self.begin()
        self._end_feed(life)
        code = self.told_to_finish(life)
        assert code == 0, f"the last one ended with {code}: {said(life)}"
        return self.check(complete=True)

    def told_to_finish(self, life: Life) -> int:
        """Tell a victim to finish, and return its exit code."""
        self.setting.finish.touch()
        code = self.ended(life)
        self.setting.finish.unlink()
        return code

    def _end_feed(self, life: Life) -> None:
        """Wait until the feed's last answer was asked for, and then asked for again."""
        given, asked = self.last_answer + 1, self.server.count(PATH)
        self.answers = given + 3
        self.server.says(PATH, *(answer(number) for number in range(given, self.answers)))
        self.until(life, lambda: self.server.count(PATH) >= asked + 6)

    def until(self, life: Life, happens: Callable[[], bool]) -> bool:
        """Wait until something happens or a victim has ended; return whether it happened."""
        deadline = time.monotonic() + SECONDS
        while not happens():
            if life.code() is not None:
                return False
            assert time.monotonic() < deadline, f"it does not come: {said(life)}"
            time.sleep(0.01)
        return True

    def struck(self, life: Life, text: str) -> int:
        """Return the exit code of a victim that has said some words, which tell of a fault.

        If it has not ended soon after, it goes on in spite of the fault and is ended by a signal.
        """
        self.until(life, lambda: text in life.errors.read_text())
        if self.until_batches(life, 3):
            life.signal(signal.SIGTERM)
        code = self.ended(life)
        assert text in life.errors.read_text(), said(life)
        return code

    def until_batches(self, life: Life, more: int) -> bool:
        """Wait until a victim has so many more batches acknowledged."""
        before = self._acknowledged()
        return self.until(life, lambda: self._acknowledged() >= before + more)

    def _acknowledged(self) -> int:
        return sum(batch.acknowledged for batch in log.batches(self.setting.log))

    # -- What they leave -------------------------------------------------------------------

    def check(self, *, complete: bool = False) -> Verdict:
        """Return the faults in a copy of the directory, which stays unchanged."""
        given = Input(log.batches(self.setting.log), self.last_answer, feed_key(self.setting.url))
        return verdict(given, self.found(), complete=complete)

    def found(self, *, flush: bool = True) -> Found:
        """Return the content of a copy of the store; empty if there is no store."""
        home = self.setting.home
        if not home.database.exists():
            return Found((), (), ())
        copy = self.setting.directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        left_out = shutil.ignore_patterns("spool", "spark")
        shutil.copytree(home.path, copy, ignore=left_out)
        return read(copy / home.database.name, flush=flush)

    @property
    def last_answer(self) -> int:
        """The number of the last answer that the feed has given."""
        return min(self.server.count(PATH), self.answers) - 1

    def undelivered(self) -> int:
        """Return the number of matches in the store that no listener has received."""
        received = log.delivered(self.setting.log)
        return len({match.id for match in self.found(flush=False).matches} - received)


@contextmanager
def placed(
    directory: Path,
    server: Server,
    *,
    forks: bool = True,
    checkpoints: bool = False,
    edits: bool = False,
) -> Iterator[Place]:
    """A place whose victims are ended with it."""
    directory.mkdir(parents=True, exist_ok=True)
    server.asked.clear()
    server.says(PATH, *(answer(number) for number in range(_ANSWERS)))
    setting = Setting(directory, server.url(PATH), ticks(), checkpoints=checkpoints, edits=edits)
    place = Place(setting, server, forks)
    try:
        yield place
    finally:
        for life in place.lives:
            life.end()
