"""Threads beside the one that changes an engine: what they read is whole, and nothing fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import xscl
from tests.examples import usually
from tests.waiting import beside
from xscl.subscriptions.match import Match
from xscl.subscriptions.matches import Matches

PAIRS = "S//a->x FOLLOWED BY{x=y, 1000 s} S//a->y"
OVER_TIME = "S//a->x NEXT{x=y} S//a->y"
CHAIN = "(S//a->x FOLLOWED BY{x=y, 1000 s} S//a->y) FOLLOWED BY{y=z, 1000 s} S//a->z"


def document(number: int, word: object = "hi") -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, f"<a>{word}<b/></a>".encode())


class Changes:
    """Changes of every kind, one after another, until told to end."""

    def __init__(self, engine: xscl.Engine) -> None:
        self.engine = engine
        self.pushed: list[Matches] = []
        self._number = 10
        self._round = 0

    def make(self) -> None:
        engine, at = self.engine, self._round
        self._round += 1
        self._number += 2
        found = engine.push([document(self._number - n, at % 3) for n in (1, 0)])
        self.pushed.append(found.matches)
        del self.pushed[:-20]
        engine.stream(f"T{at}", lateness=at)
        engine.subscribe(f"s{at}", f"T{at}//a[.='{at}']->x FOLLOWED BY{{x=y, 5 s}} S//b->y")
        if at % 3 == 0:
            with suppress(ZeroDivisionError), engine.transactions.change():
                raise ZeroDivisionError  # the engine reads everything again
        if at % 2:
            engine.unsubscribe(f"s{at}")


def read(matches: Sequence[Match]) -> list[object]:
    return [(m.id, m.documents, m.bindings, m.xml(), m.t1) for m in matches]


def _pushed(changes: Changes) -> object:
    return [read(one) for one in changes.pushed[-2:]]


def _why(changes: Changes) -> object:
    return changes.engine.why(PAIRS, "d1", "d2").matched


READERS: dict[str, Callable[[Changes], object]] = {
    "pushed": _pushed,
    "equal": lambda c: [len(one) == len(list(one)) for one in c.pushed[-2:]],
    "received": lambda c: [one.received() for one in c.pushed[-2:]],
    "kept": lambda c: read(c.engine.matches()[:5]),
    "after": lambda c: read(c.engine.matches(after=3)[:5]),
    "untold": lambda c: read(c.engine.log.undelivered()[-3:]),
    "page": lambda c: read(c.engine.matches_of("pairs", limit=3).matches),
    "tried": lambda c: read(c.engine.try_query(PAIRS)[:3]),
    "why": _why,
    "explain": lambda c: c.engine.explain("pairs", sql=True),
    "sql": lambda c: c.engine.sql("SELECT count(*) FROM documents").num_rows,
    "plan": lambda c: c.engine.plan(),
    "names": lambda c: (len(c.engine.subscriptions), c.engine.state.streams.known()),
    "document": lambda c: c.engine.document("d1"),
}


@pytest.mark.parametrize(
    "query", usually([PAIRS, OVER_TIME, CHAIN], OVER_TIME), ids=["pairs", "time", "chain"]
)
@pytest.mark.parametrize("kept", usually(["memory", "file"], "file"))
@pytest.mark.parametrize("reads", usually([3, 8], 3))
def test_all_can_read_while_another_thread_changes(
    tmp_path: Path, reads: int, kept: str, query: str
) -> None:
    """Every way to read at once: none meets a busy connection, and no change fails.

    Each reader reads a few times; the changes go on until all of them are done.
    """
    path = None if kept == "memory" else tmp_path / "x.sqlite"
    with xscl.Engine(path) as engine:
        engine.subscribe("pairs", query)
        engine.log.undelivered()
        engine.push([document(1), document(2), document(3)])
        assert len(engine.matches()) > 0
        changes = Changes(engine)
        changes.make()
        reading = threading.Barrier(len(READERS) + 1)

        def keep_reading(reader: Callable[[Changes], object]) -> None:
            reading.wait()
            for _ in range(reads):
                reader(changes)

        with beside(*(partial(keep_reading, one) for one in READERS.values())) as threads:
            reading.wait()
            while not all(one.done() for one in threads):
                changes.make()


def test_matches_are_read_while_a_push_holds_the_engine(tmp_path: Path) -> None:
    """A reader of matches waits for no push: neither for its lock nor for its connection."""
    with xscl.Engine(tmp_path / "x.sqlite") as engine:
        engine.subscribe("pairs", PAIRS)
        pushed = engine.push([document(1), document(2)])
        read_by: list[object] = []

        def reads() -> None:
            read_by.extend(read(pushed))

        with engine.transactions.change():
            thread = threading.Thread(target=reads, daemon=True)
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        assert len(read_by) == 1


def test_subscriptions_are_read_while_others_are_added(engine: xscl.Engine) -> None:
    """A report of the status that fails would end the service."""
    engine.subscribe("first", PAIRS)
    reading = iter(engine.state.subscriptions)
    engine.subscribe("second", PAIRS)
    assert [one.name for one in reading] == ["first"]


def test_earlier_versions_are_read_while_others_end(engine: xscl.Engine) -> None:
    engine.subscribe("first", PAIRS)
    engine.subscribe("second", PAIRS)
    engine.push([document(1), document(2)])
    engine.unsubscribe("first")
    reading = iter(engine.state.subscriptions.retired)
    names = [next(reading).name]
    engine.unsubscribe("second")
    assert [*names, *(one.name for one in reading)] == ["first"]


def test_matches_are_counted_as_they_are_expanded(engine: xscl.Engine) -> None:
    """By columns: of those who share a join, came later, want updates, or one for each group."""
    shared = "S//a[./b->x] FOLLOWED BY{x=y, 1000 s} S//a[./b->y]"
    engine.subscribe("first", shared)
    engine.subscribe("updates", shared, updates=True)
    engine.subscribe("groups", f"SELECT DISTINCT * FROM {shared}")
    engine.subscribe("chain", CHAIN)
    engine.subscribe("time", OVER_TIME)
    counted = []
    for number in range(1, 12):
        words = "".join(f"<b>{n % 2}</b>" for n in range(number % 4))
        texts = [f"<a>hi{words}</a>", f"<a>hi{words}<!-- again --></a>"][: 1 + number % 2]
        found = engine.push(
            [xscl.Document("S", f"d{number}", number, text.encode()) for text in texts]
        ).matches
        assert found.received() == Counter(match.subscription for match in found)
        counted.append(found.received())
        engine.subscribe(f"late-{number}", shared, updates=bool(number % 2))
    assert {name.partition("-")[0] for one in counted for name in one} == {
        *("first", "updates", "groups", "chain", "time", "late")
    }
    assert not engine.push([]).matches.received()
