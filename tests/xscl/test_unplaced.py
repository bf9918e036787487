"""What registration has left to be written later is made again after a kill."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from xscl import Document, Engine, registration

SHAPE = 'S//a->v[./k="{}"][./t->x] JOIN{{x = y, 1 h}} S//b->w[./t->y]'
FILTER = 'S//a[./k="{}"]->v'


def texts() -> list[tuple[str, str]]:
    """Return queries of two shapes; some of them share a join, all have variables in common."""
    joins = [(f"join {n}", SHAPE.format("klm"[n % 3])) for n in range(7)]
    return [*joins, *((f"filter {n}", FILTER.format(n)) for n in range(3))]


def documents() -> list[Document]:
    return [
        Document("S", f"d{n}", n, f"<{e}><k>{k}</k><t>{t}</t></{e}>".encode())
        for n, (e, k, t) in enumerate(
            [("a", "k", "1"), ("a", "l", "1"), ("b", "", "1"), ("a", "2", "2"), ("b", "", "2")]
        )
    ]


def found(engine: Engine) -> list[tuple[str, str]]:
    return sorted((match.subscription, match.id) for match in engine.push(documents()))


def expected() -> list[tuple[str, str]]:
    with Engine() as engine:
        for name, text in texts():
            engine.subscribe(name, text)
        return found(engine)


def files(folder: Path, to: Path) -> Path:
    """Return a copy of a store as a kill leaves it."""
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*.lock"))
    return to / "state.duckdb"


def test_what_waits_is_made_again_from_the_texts(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    with Engine(tmp_path / "one" / "state.duckdb") as engine:
        for name, text in texts():
            engine.subscribe(name, text)
        assert engine._registry.unsaved  # of most, only the text is there
        killed = files(tmp_path / "one", tmp_path / "two")
        answers = found(engine)
    assert answers == expected()
    assert len({name for name, _ in answers}) > 4
    with Engine(killed) as engine:
        assert not engine._registry.unsaved
        assert [one.name for one in engine.subscriptions] == [name for name, _ in texts()]
        assert found(engine) == answers
        engine.unsubscribe("join 0")
        engine.subscribe("join 0", SHAPE.format("k"))
    with Engine(killed) as engine:
        assert not engine._subscriptions.unplaced
        assert len(engine.subscriptions) == len(texts())


def test_what_waits_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    with Engine(tmp_path / "state.duckdb") as engine:
        for name, text in texts():
            engine.subscribe(name, text)
        assert engine._registry.unsaved
        shown = engine.sql("SELECT qid FROM R_T_1").num_rows
        assert not engine._registry.unsaved
        assert shown == 3
        engine.subscribe("one more", SHAPE.format("m2"))
        with closing(engine.store()) as store, engine.look(store):
            assert not engine._registry.unsaved
        engine.subscribe("another", SHAPE.format("m3"))
        engine.unsubscribe("another")
        assert engine.sql("SELECT qid FROM R_T_1").num_rows == 4


def test_many_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "WAITING", 10)
    with Engine(tmp_path / "state.duckdb") as engine:
        left = []
        for number in range(12):
            engine.subscribe(f"s{number}", SHAPE.format(f"k{number}"))
            left.append(engine._registry.unsaved)
        assert 0 < max(left) <= 10
        assert left.count(0) > 2
