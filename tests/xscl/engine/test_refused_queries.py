"""Stored queries that this release refuses: the engine starts, and their subscriptions say why."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from xscl import Document, Engine
from xscl.errors import QueryError
from xscl.store.store import Store

TAKEN = "count(tokenize(., 'zz')) = 1"
NOW = "count(tokenize(., 'zz')) = 1 and format-integer(1, 'I') = 'I'"
BLOCK = f"S//r[./k[{TAKEN}]->k]"
QUERIES = {
    "good": "S//r[./k->k]",
    "one": BLOCK,
    "same": BLOCK,
    "join": f"{BLOCK} FOLLOWED BY{{k = l, 1 d}} S//r[./k->l]",
    "other side": f"S//r[./k->l] FOLLOWED BY{{l = k, 1 d}} {BLOCK}",
    "over time": f"{BLOCK} NOT FOLLOWED BY{{k = l, 1 s}} S//r[./k->l]",
    "publisher": f"SELECT <o>{{k}}</o> FROM {BLOCK} PUBLISH P",
    "reader": "P//o->o",
    "events": "SELECT k FROM S",
}
REFUSED = {"one", "same", "join", "other side", "over time", "publisher"}


def refuse(path: Path) -> None:
    """Make a stored condition one that this release refuses, as if an earlier one had taken it."""
    with closing(Store(path)) as store, store.transaction():
        for table, column in (("subscription", "query"), ("variable", "definition")):
            store.fetch(
                f"UPDATE state.{table} SET {column} = replace(replace({column}, ?, ?), ?, ?)",
                [TAKEN, NOW, TAKEN.replace("'", '"'), NOW.replace("'", '"')],
            )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store of an engine with queries that are refused."""
    path = tmp_path / "engine.sqlite"
    with closing(Engine(path)) as engine:
        engine.stream("S", attributes={"k": str})
        for name, query in QUERIES.items():
            engine.subscribe(name, query, language="cel" if name == "events" else "xscl")
        assert {match.subscription for match in engine.push(documents(0)).matches} > {"one"}
    refuse(path)
    return path


def documents(first: int) -> list[Document]:
    """Return two documents that every query reads."""
    return [
        Document("S", f"d{number}", number * 1_000_000, b"<r><k>x</k></r>")
        for number in (first, first + 1)
    ]


def test_the_engine_starts_and_the_others_go_on(path: Path) -> None:
    with closing(Engine(path)) as engine:
        found = {one.name: engine.refused(one.name) for one in engine.subscriptions}
        assert {name for name, why in found.items() if why} == REFUSED
        for name in REFUSED:
            assert "format-integer() is refused" in str(found[name])
            assert "this release refuses it" in engine.explain(name)
        matches = {match.subscription for match in engine.push(documents(10)).matches}
        assert matches == {"good", "events"}
        assert engine.state.subscriptions.refusals == len(REFUSED)
        assert engine.sql("SELECT count(*) AS n FROM subscriptions")["n"].to_pylist() == [9]
        engine.plan()


def test_what_was_found_before_is_shown_as_far_as_it_can_be(path: Path) -> None:
    with closing(Engine(path)) as engine:
        shown = [match for match in engine.matches() if match.subscription in REFUSED]
        assert shown
        for match in shown:
            assert match.bindings == {}
            assert not match.constructed
            assert match.xml().startswith(b"<refused>format-integer() is refused")
            assert match.documents


def test_a_refused_query_is_edited_and_goes_on(path: Path) -> None:
    with closing(Engine(path)) as engine:
        for name in REFUSED - {"over time"}:
            engine.edit(name, QUERIES[name].replace(f"[{TAKEN}]", ""))
        matches = [match.subscription for match in engine.push(documents(20)).matches]
        assert {"one", "same", "join", "other side", "publisher", "reader"} <= {*matches}
        assert "over time" not in matches
    with closing(Engine(path)) as engine:
        assert [one.name for one in engine.subscriptions if engine.refused(one.name)] == [
            "over time"
        ]
        assert "reader" in {match.subscription for match in engine.push(documents(30)).matches}


@pytest.mark.parametrize("again", [False, True])
def test_refused_queries_are_paused_renamed_and_removed(path: Path, again: bool) -> None:
    with closing(Engine(path)) as engine:
        for name in sorted(REFUSED):
            engine.edit(name, paused=True)
            engine.edit(name, paused=False)
            engine.edit(name, rename=f"{name}!")
            assert engine.refused(f"{name}!")
        assert {m.subscription for m in engine.push(documents(10)).matches} == {"good", "events"}
    with closing(Engine(path)) as engine:
        if not again:
            engine.push(documents(40))
        engine.unsubscribe("reader")
        for name in sorted(REFUSED):
            engine.unsubscribe(f"{name}!", purge=again)
        assert [one.name for one in engine.subscriptions] == ["good", "events"]
    with closing(Engine(path)) as engine:
        assert engine.state.subscriptions.refusals == 0
        engine.subscribe("one", BLOCK)
        assert "one" in {m.subscription for m in engine.push(documents(50)).matches}


def test_a_refused_query_of_events(tmp_path: Path) -> None:
    path = tmp_path / "engine.sqlite"
    with closing(Engine(path)) as engine:
        engine.stream("S", attributes={"k": str})
        engine.subscribe("cel", "SELECT k FROM FILTER{k = 'x'} S PUBLISH P", language="cel")
        engine.subscribe("reader", "P//P->o")
    with closing(Store(path)) as store, store.transaction():
        store.fetch("UPDATE state.subscription SET query = replace(query, 'FILTER', 'FOLTER')")
    with closing(Engine(path)) as engine:
        assert "FOLTER" in str(engine.refused("cel"))
        assert engine.push(documents(0)).matches == []
        engine.unsubscribe("reader")
        engine.edit("cel", "SELECT k FROM S PUBLISH P")
        assert engine.refused("cel") is None
        assert {m.subscription for m in engine.push(documents(5)).matches} >= {"cel"}
        engine.unsubscribe("cel", cascade=True)


def test_a_question_about_a_refused_query_has_its_error(path: Path) -> None:
    with closing(Engine(path)) as engine:
        for ask in (
            lambda: engine.why("one", "d0"),
            lambda: engine.try_query(QUERIES["one"].replace(TAKEN, NOW)),
        ):
            with pytest.raises(QueryError, match="format-integer"):
                ask()
