"""Lives of an engine: what people and documents do to it, and what can be seen of that.

A life is a list of steps.  It is led by a plain engine and by one whose documents pass executors in
this process; the two must show the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import xscl
from templates import processor
from tests.joining import in_database
from tests.xscl.planning.test_event_queries import FLAT
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.engine import ingest
from xscl.engine.ingest import PushResult
from xscl.errors import XsclError
from xscl.spark import bucket, executors, offers

Step: TypeAlias = tuple[Any, ...]

MS = 1_000


@dataclass
class Life:
    """A life that an engine leads, with executors or without them; what it shows."""

    path: Path
    with_executors: bool
    seen: list[Any] = field(default_factory=list, init=False)
    _waiting: list[xscl.Document] = field(default_factory=list, init=False)
    _beats: list[Beat] = field(default_factory=list, init=False)
    _batch: int = 0

    def __post_init__(self) -> None:
        self._open(self.with_executors)

    def _open(self, with_executors: bool) -> None:
        self.engine = EngineWithExecutors(self.path) if with_executors else xscl.Engine(self.path)

    def lead(self, steps: Sequence[Step]) -> list[Any]:
        """Take all steps, and return what was seen."""
        try:
            for stream in "SRP":
                self.engine.stream(stream, attributes=FLAT)
            for step in steps:
                try:
                    self.seen.append((step[0], self._take(step)))
                except XsclError as error:
                    self.seen.append((step[0], type(error).__name__, str(error)))
            self.seen += self._end()
        finally:
            self.engine.close()
        return self.seen

    def _take(self, step: Step) -> Any:
        engine = self.engine
        match step:
            case ("push", found, size):
                with _sized(engine, size):
                    return _outcome(self._push(found))
            case ("broken", found, point, passage, size):
                with _sized(engine, size), _failing(point, passage), suppress(_Broken):
                    return _outcome(self._push(found))
            case ("subscribe", name, query, language, updates, since):
                engine.subscribe(name, query, language=language, updates=updates, since=since)
                return shown(engine.matches(name))
            case ("unsubscribe", name, cascade, purge):
                return engine.unsubscribe(name, cascade=cascade, purge=purge)
            case ("beat", time):
                if isinstance(engine, EngineWithExecutors):
                    engine.beat(time)
                self._beats.append(Beat(len(self._waiting), time))
            case ("retain", retention):
                engine.retain(retention)
            case ("fail",):
                with suppress(_Broken), engine.transactions.change():
                    raise _Broken
            case ("open", with_executors):
                engine.close()
                waits = bool(self._waiting or self._beats)
                self._open((with_executors or waits) and self.with_executors)
            case _:
                raise AssertionError(step)
        return None

    def _push(self, found: Sequence[xscl.Document]) -> PushResult:
        """Push documents, after those that were not taken before."""
        self._waiting += found
        if isinstance(self.engine, EngineWithExecutors):
            pushed = self.engine.push(found) if found else self.engine.push_waiting()
        else:
            self._batch += 1
            source = BatchKey("alone", self._batch, 0, tuple(self._beats))
            pushed = self.engine.push(self._waiting, source=source)
        self._waiting, self._beats = [], []
        return pushed

    def _end(self) -> Iterator[Any]:
        engine = self.engine
        yield shown(engine.matches())
        for one in engine.subscriptions:
            yield one.name, engine.stopped(one.name)
        rows = "SELECT stream, id, reason FROM rejected ORDER BY ALL"
        yield engine.sql(rows).to_pylist()


class _Broken(Exception):
    """A failure in the midst of a push."""


@contextmanager
def _failing(point: str, passage: int) -> Iterator[None]:
    """Make a push fail at a passage of a point."""
    left = iter(range(passage - 1, -1, -1))

    def reached(where: str) -> None:
        if where == point and next(left, None) == 0:
            raise _Broken

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ingest, "reached", reached)
        yield


@contextmanager
def _sized(engine: xscl.Engine, size: int) -> Iterator[None]:
    """Split pushes into transactions of so many documents, and what executors read, too."""
    with pytest.MonkeyPatch.context() as patched, in_database(size == 2):
        patched.setattr(ingest, "MOST", size)
        patched.setattr(offers, "FEW", size)
        patched.setattr(executors, "PORTION", size)
        patched.setattr(bucket, "SMALL_BATCH", processor.SMALL_BATCH)
        engine.ingest._push_size.size = size
        yield


def _outcome(pushed: PushResult) -> tuple[Any, ...]:
    return shown(pushed), pushed.accepted, pushed.unchanged, pushed.rejected, pushed.late


def shown(matches: Iterable[xscl.Match]) -> list[tuple[Any, ...]]:
    """Return all that may be compared of matches."""
    return [
        (
            one.subscription,
            one.id,
            one.documents,
            (one.t0, one.t1, one.version, one.backfilled),
            _text(one),
        )
        for one in matches
    ]


def _text(match: xscl.Match) -> str:
    """Return the bindings and the output of a match, as far as its documents are kept."""
    try:
        return f"{match.bindings} {match.xml()!r}"
    except XsclError as error:
        return type(error).__name__


def led(steps: Sequence[Step], with_executors: bool) -> list[Any]:
    """Lead a life, and return what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        return Life(Path(folder) / "state.sqlite", with_executors).lead(steps)
