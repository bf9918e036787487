"""The process that is killed: the real service, with a writer that fills its spool.

    python -m tests.kills.victim DIRECTORY URL BASE [--spark] [--checkpoints] [--edits]

It serves from DIRECTORY/data, follows the feed at URL (on loopback) and appends batches of
documents, which it notes in DIRECTORY/log before and after, until it is killed or the file
DIRECTORY/finish appears; then it ends when everything is consumed.  The writer goes on after the
last batch in the log.  BASE is the time of the first document.

All clocks run five times as fast, so that the feed, which is due every second, is polled often.
With `--checkpoints` the database writes a checkpoint with every commit, with `--edits`
subscriptions are edited all the time.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from feeds.spool import Spool, SpoolError
from tests.kills.log import Batch, Log, batches
from tests.kills.workload import STREAM, SUBSCRIPTIONS, documents, sent_again, sent_twice
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed_admission import FeedRequest
from xscl.polling.feed_commands import follow, prepare
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository, ticks
from xscl.server.serve import ServeSettings, Service
from xscl.server.termination import stopped_by_signals
from xscl.store import database
from xscl.subscriptions.match import Match
from xscl.subscriptions.matches import Matches

SECONDS = 400.0
"""A victim that nobody has killed for so long ends with a report of where it stands."""

_FASTER = 5
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Setting:
    """The orders of a victim."""

    directory: Path
    url: str
    base: int
    spark: bool = False
    checkpoints: bool = False
    edits: bool = False

    @property
    def home(self) -> DataDirectory:
        return DataDirectory(self.directory / "data")

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def finish(self) -> Path:
        return self.directory / "finish"

    @property
    def arguments(self) -> list[str]:
        options = [("--spark", self.spark), ("--checkpoints", self.checkpoints)]
        options.append(("--edits", self.edits))
        chosen = [name for name, wanted in options if wanted]
        return [str(self.directory), self.url, str(self.base), *chosen]


class Victim(Service):
    """The service; when its consumer is there, it subscribes and begins to write."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._log = Log(setting.log)
        self._at_work = threading.Event()
        self.written = threading.Event()
        serving = ServeSettings("local[1]" if setting.spark else None, 0.02, _fetching(setting))
        super().__init__(setting.home, serving, self._listen)

    def _notify(self, matches: Matches) -> None:
        if not self._at_work.is_set():
            self._log.at_work()
            self._at_work.set()
        super()._notify(matches)

    def _listen(self, matches: Sequence[Match]) -> None:
        self._log.delivered([match.id for match in matches])

    @contextmanager
    def _consuming(
        self, engine: Engine, spool: Spool, hold: Callable[[], None]
    ) -> Iterator[Consumer]:
        if self._setting.checkpoints:
            vars(database)["CHECKPOINT"] = 1
        set_up(engine, self._setting.url)
        self._thread("writer", lambda: self._write(spool))
        if self._setting.edits:
            self._thread("editor", lambda: self._edit(engine))
        with super()._consuming(engine, spool, hold) as consumer:
            yield consumer

    def _write(self, spool: Spool) -> None:
        number = _next(batches(self._setting.log))
        while not self._stopping.is_set():
            if self._setting.finish.exists():
                self.written.set()
                return
            self._send(spool, number)
            number += 1
            while not self._stopping.wait(_PAUSE) and not self._at_work.is_set():
                continue  # what comes next, comes to a service that has recovered

    def _edit(self, engine: Engine) -> None:
        """Change only SELECT of subscriptions, as often as documents come: no match changes."""
        while not self._stopping.wait(_PAUSE) and not self._setting.finish.exists():
            for name, query in SUBSCRIPTIONS[2:]:
                found = engine.subscription(name)
                version = 0 if found is None else found.version
                engine.edit(name, f"SELECT <found by='{version}'>{{x}}</found> FROM {query}")

    def _send(self, spool: Spool, number: int) -> None:
        """Append a batch, as often as it takes until that is acknowledged."""
        made = documents(number, self._setting.base)
        self._log.sent(number, made)
        while not self._stopping.is_set():
            try:
                for _ in range(2 if sent_twice(number) else 1):
                    spool.append(made, ticks())
                self._log.acknowledged(number)
                return
            except SpoolError as error:
                print(error, file=sys.stderr)
                time.sleep(_PAUSE)


def _next(sent: Sequence[Batch]) -> int:
    """Return the number of the batch to begin with."""
    if not sent:
        return 0
    last = sent[-1]
    return last.number if sent_again(last.number) and not last.acknowledged else last.number + 1


def set_up(engine: Engine, url: str) -> None:
    """Make the subscriptions and follow the feed, as far as that was not done before."""
    if not engine.subscriptions:
        engine.stream(STREAM)
        prepare(engine)
        engine.subscribe_many(SUBSCRIPTIONS)
    with closing(FeedRepository(engine)) as feeds:
        if not list(feeds):
            follow(engine, feeds, FeedRequest(url, stream="news", every=1))


def _fetching(setting: Setting) -> PollSettings:
    def clock() -> int:
        return setting.base + _FASTER * (ticks() - setting.base)

    return PollSettings((urlsplit(setting.url).netloc,), quick=True, clock=clock)


def run(setting: Setting) -> None:
    """Serve until told to finish, or to stop by a signal."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    victim = Victim(setting)
    with stopped_by_signals(victim.stop):
        victim.run(victim.written)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="victim")
    parser.add_argument("directory", type=Path)
    parser.add_argument("url")
    parser.add_argument("base", type=int)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--edits", action="store_true")
    run(Setting(**vars(parser.parse_args(arguments))))


if __name__ == "__main__":
    main()
