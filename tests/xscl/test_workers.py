"""Processes that help with stage 1: the same matches, whatever becomes of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from feeds.documents import Document
from tests.foreign import write_foreign_packages
from xscl.engine import Engine
from xscl.errors import DocumentError
from xscl.workers import Workers
from xscl.xpath.changes import Changes
from xscl.xpath.nfa import Automaton
from xscl.xpath.portions import Part

QUERIES = (
    ("paths", "S//a->x JOIN{x/b = y/b, 1 h} S//a->y"),
    ("folded", "S//a[./b->u] FOLLOWED BY{lower-case(u) = lower-case(v), 1 h} S//a[./b->v]"),
    ("filter", "S//a[./b = '3']/c"),
)


class Watched(Workers):
    """Counts the documents whose witnesses come from another process."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.slow = 1.0
        super().__init__(count, few=2, clock=self.tick)
        self.elsewhere = 0

    def tick(self) -> float:
        """Return a time that goes on with every look, as if shredding took long."""
        self.now += self.slow
        return self.now

    def parts(
        self, automaton: Automaton, changes: Changes, documents: Sequence[Document]
    ) -> list[Part]:
        found = super().parts(automaton, changes, documents)
        elsewhere = (part for part in found[1:] if part.portion is not None)
        self.elsewhere += sum(part.count for part in elsewhere)
        return found

    def await_all(self) -> None:
        """Return when every process knows what it was told."""
        for process in self._processes:
            assert process._last is not None
            process._last.result(60)

    def await_end(self) -> None:
        """Return when every process has ended."""
        for process in self._processes:
            process._process.wait(60)

    @property
    def numbers(self) -> list[int]:
        return [process._process.pid for process in self._processes]


@pytest.fixture
def workers() -> Watched:
    return Watched(1)


@pytest.fixture
def engine(tmp_path: Path, workers: Watched) -> Iterator[Engine]:
    with Engine(tmp_path / "state.duckdb", workers=1) as opened:
        opened._workers = workers
        yield opened


@pytest.fixture
def alone() -> Iterator[Engine]:
    with Engine() as opened:
        yield opened


def batch(first: int, count: int = 40) -> list[Document]:
    """Return documents a second apart, of which each ninth is no XML."""
    texts = (
        b"<a><b>%d</b><c/></a>" % (number % 7) if number % 9 else b"<a><b>"
        for number in range(first, first + count)
    )
    return [
        Document("S", f"d{number}", number * 1_000_000, text)
        for number, text in enumerate(texts, first)
    ]


def same(engine: Engine, alone: Engine, first: int) -> int:
    """Push the same into both; return the number of matches, which are the same."""
    found = {match.id for match in engine.push(batch(first))}
    assert found == {match.id for match in alone.push(batch(first))}
    return len(found)


def test_matches_and_refusals_are_the_same_as_without(
    engine: Engine, alone: Engine, workers: Watched
) -> None:
    for number, (name, query) in enumerate(QUERIES):
        for one in (engine, alone):
            one.subscribe(name, query)
        same(engine, alone, 100 * number)
        workers.await_all()
        before = workers.elsewhere
        assert same(engine, alone, 100 * number + 50)
        assert workers.elsewhere == before + 20
    for one in (engine, alone):
        one.unsubscribe("paths")
    assert same(engine, alone, 400)
    refused = "SELECT id, reason FROM rejected ORDER BY id"
    assert engine.sql(refused).equals(alone.sql(refused))
    assert engine.sql(refused).num_rows


@pytest.mark.parametrize("is_gone", [False, True])  # when it is asked next
def test_a_process_that_dies_is_replaced(
    engine: Engine, alone: Engine, workers: Watched, is_gone: bool
) -> None:
    for one in (engine, alone):
        one.subscribe(*QUERIES[0])
    same(engine, alone, 0)
    workers.await_all()
    (first,) = workers.numbers
    os.kill(first, signal.SIGKILL)
    if is_gone:
        workers.await_end()
    assert same(engine, alone, 50)
    assert same(engine, alone, 100)
    workers.await_all()
    assert workers.numbers != [first]
    before = workers.elsewhere
    assert same(engine, alone, 150)
    assert workers.elsewhere > before


def test_after_a_batch_that_fails_they_know_what_the_engine_knows(
    engine: Engine, alone: Engine, workers: Watched
) -> None:
    for one in (engine, alone):
        one.subscribe(*QUERIES[0])
        one.subscribe(*QUERIES[2])
    same(engine, alone, 0)
    workers.await_all()
    with pytest.raises(DocumentError):
        engine.push([*batch(1, 2), Document("", "", 0, b"<a/>")], strict=True)
    with pytest.raises(ZeroDivisionError), engine._changing():
        raise ZeroDivisionError
    for one in (engine, alone):
        one.unsubscribe(QUERIES[2][0])
        one.subscribe(*QUERIES[1])
    same(engine, alone, 50)
    workers.await_all()
    before = workers.elsewhere
    assert same(engine, alone, 100)
    assert workers.elsewhere > before


def test_they_end_with_their_engine(tmp_path: Path, workers: Watched) -> None:
    with Engine(tmp_path / "state.duckdb") as engine:
        engine._workers = workers
        engine.subscribe(*QUERIES[0])
        engine.push(batch(0))
        (number,) = workers.numbers
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_what_is_shredded_fast_is_not_handed_on(
    engine: Engine, alone: Engine, workers: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xscl.workers.REST", 3)
    for one in (engine, alone):
        one.subscribe(*QUERIES[2])
    same(engine, alone, 0)
    workers.await_all()
    before = workers.elsewhere
    workers.slow = 1e-6
    same(engine, alone, 50)
    assert workers.elsewhere == before + 20
    for number in range(3):
        same(engine, alone, 100 + 50 * number)
    assert workers.elsewhere == before + 20
    workers.slow = 1.0
    same(engine, alone, 250)
    same(engine, alone, 300)
    assert workers.elsewhere == before + 60


def test_small_batches_start_nothing(tmp_path: Path) -> None:
    with Engine(tmp_path / "state.duckdb", workers=2) as engine:
        engine.subscribe(*QUERIES[0])
        engine.push(batch(0))
        assert not engine._workers._processes


def test_processes_load_our_packages_where_foreign_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Engine
) -> None:
    (tmp_path / "elsewhere").mkdir()
    write_foreign_packages(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    workers = Watched(1)
    with Engine(workers=1) as engine:
        engine._workers = workers
        for one in (engine, alone):
            one.subscribe(*QUERIES[0])
        same(engine, alone, 0)
        workers.await_all()
        assert same(engine, alone, 50)
        assert workers.elsewhere
