"""Edits, pauses and names of subscriptions: what is found, under which version, and how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import xscl
from xscl.errors import NameTaken, QueryError, StreamInUse, UnknownSubscription

PAIR = "S//a->x[./t->u] JOIN{u=v, 100} S//a->y[./t->v]"
RENDERED = f"SELECT <r>{{u}}</r> FROM {PAIR}"


def document(number: int) -> xscl.Document:
    text = f"<a><t>{'kl'[number % 2]}</t></a>"
    return xscl.Document("S", f"d{number}", number, text.encode())


Found = tuple[int, tuple[str, ...], bytes]


def found(engine: xscl.Engine, name: str) -> list[Found]:
    return [(match.version, match.documents, match.xml()) for match in engine.matches(name)]


@pytest.fixture
def engine() -> xscl.Engine:
    one = xscl.Engine()
    one.subscribe("q", PAIR)
    one.push([document(1), document(3)])
    return one


def test_matches_stay_until_they_are_purged(engine: xscl.Engine) -> None:
    before = found(engine, "q")
    assert len(before) == 2
    engine.unsubscribe("q")
    assert found(engine, "q") == before
    assert engine.subscription("q") is None
    engine.unsubscribe("q", purge=True)
    with pytest.raises(UnknownSubscription):
        engine.matches("q")
    assert engine.matches() == []
    rows = engine.sql("SELECT (SELECT count(*) FROM state.result) AS n").to_pylist()
    assert rows == [{"n": 0}]


def test_a_name_that_is_used_again_begins_a_new_list_of_matches(path: Path) -> None:
    ids = set[str]()
    for number, query in enumerate((PAIR, RENDERED, "S//a->x[./t->u]")):
        with xscl.Engine(path) as engine:
            engine.subscribe("q", query)
            assert found(engine, "q") == []
            engine.push([document(10 * number + 1), document(10 * number + 3)])
            listed = found(engine, "q")
            assert len(listed) == 2
            assert {version for version, *_ in listed} == {1}
            ids |= {one.id for one in engine.matches("q")}
            engine.unsubscribe("q")
            assert found(engine, "q") == listed
    with xscl.Engine(path) as engine:
        assert len(ids) == 6
        assert len(found(engine, "q (removed)")) == len(found(engine, "q (removed 2)")) == 2
        removed = ["q (removed)", "q (removed 2)", "q"]
        assert engine.state.subscriptions.removed() == removed
        rows = engine.sql("SELECT subscription FROM matches").to_pylist()
        assert Counter(one["subscription"] for one in rows) == dict.fromkeys(removed, 2)
        engine.unsubscribe("q (removed)", purge=True)
        engine.subscribe("q", PAIR)
        assert set(engine.state.subscriptions.removed()) == set(removed[:2])
        assert found(engine, "q") == []


def test_a_refused_edit_changes_nothing(engine: xscl.Engine) -> None:
    engine.subscribe("published", "SELECT <p>{x}</p> FROM S//a->x PUBLISH P")
    engine.subscribe("reader", "P//p->x")
    before = engine.subscriptions
    for refused, name, query, rename in (
        (QueryError, "q", "S//a->x[", None),
        (NameTaken, "q", RENDERED, "reader"),
        (UnknownSubscription, "nobody", None, None),
        (StreamInUse, "published", "S//a->x", None),
    ):
        with pytest.raises(refused):
            engine.edit(name, query, rename=rename)
        assert engine.subscriptions == before
    for way, hint in (
        (lambda: engine.edit("published", "S//a->x"), "unsubscribe the readers first"),
        (lambda: engine.unsubscribe("published"), "unsubscribe the readers first, or all at once"),
    ):
        with pytest.raises(StreamInUse) as told:
            way()
        assert str(told.value.hint).partition(" with cascade")[0] == hint
    engine.edit("published", "SELECT <p>{x}</p> FROM S//a[./t]->x PUBLISH P")
    assert [one.subscription for one in engine.push(document(9))].count("reader") == 1


def test_queries_of_events_are_edited_paused_and_renamed() -> None:
    with xscl.Engine() as engine:
        engine.stream("S", attributes={"t": str})
        engine.subscribe("c", "SELECT t FROM S PUBLISH P", language="cel")
        engine.subscribe("r", "SELECT t FROM P", language="cel")
        with pytest.raises(StreamInUse, match="which others read"):
            engine.edit("c", paused=True)
        engine.edit("r", paused=True)
        engine.push(document(1))
        engine.edit("r", paused=False, rename="renamed")
        engine.push(document(2))
        engine.edit("renamed", "SELECT * FROM FILTER{t = 'l'}(P)")
        engine.push([document(3), document(4)])
        engine.flush()
        rows = [(m.version, m.subscription, m.xml()) for m in engine.matches("renamed")]
        assert rows == [
            (1, "renamed", b"<result><t>k</t></result>"),
            (2, "renamed", b"<result><t>l</t></result>"),
        ]
        assert "renamed" in engine.explain("renamed") or "r" in engine.explain("renamed")
