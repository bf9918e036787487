"""Edits, pauses and names of subscriptions: what is found, under which version, and how often."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xscl
from tests.examples import tried
from xscl.errors import NameTaken, QueryError, StreamInUse, UnknownSubscription

PAIR = "S//a->x[./t->u] JOIN{u=v, 100} S//a->y[./t->v]"
RENDERED = f"SELECT <r>{{u}}</r> FROM {PAIR}"
QUERIES = (
    PAIR,
    RENDERED,
    "S//a->x[./t->u] FOLLOWED BY{u=v, 100} S//a->y[./t->v]",
    "SELECT DISTINCT <r>{u}</r> FROM S//a->x[./t->u] JOIN{u=v, 100} S//a->y[./t->v]",
    "S//a->x[./t->u] NEXT{u=v} S//a->y[./t->v]",
    "SELECT <r>{v}</r> FROM S//a->x[./t->u] NEXT{u=v} S//a->y[./t->v]",
    "S//a->x[./t->u] NOT FOLLOWED BY{u=v, 2} S//a->y[./t->v]",
)


def document(number: int) -> xscl.Document:
    text = f"<a><t>{'kl'[number % 2]}</t></a>"
    return xscl.Document("S", f"d{number}", number, text.encode())


Found = tuple[int, tuple[str, ...], bytes]


def found(engine: xscl.Engine, name: str) -> list[Found]:
    return [(match.version, match.documents, match.xml()) for match in engine.matches(name)]


@dataclass
class Reference:
    """The definition: a version finds what an engine with its query alone finds from then on."""

    version: int = 0
    query: str = ""
    engine: xscl.Engine = field(default_factory=xscl.Engine)
    paused: bool = False
    found: list[Found] = field(default_factory=list)

    def edit(self, query: str) -> None:
        if query == self.query:
            return
        same = {one.removeprefix("SELECT <r>{u}</r> FROM ") for one in (query, self.query)}
        same = {one.removeprefix("SELECT <r>{v}</r> FROM ") for one in same}
        before, self.query = self.query, query
        self.version += 1
        if len(same) == 1 and "DISTINCT" not in query + before:
            self.engine.edit("q", query)
            return
        self.engine.close()
        self.engine = xscl.Engine()
        self.engine.subscribe("q", query)

    def push(self, number: int) -> None:
        matches = self.engine.push(document(number))
        if not self.paused:
            self.found += [(self.version, one.documents, one.xml()) for one in matches]


ACTIONS = st.lists(
    st.sampled_from(["push", "push", "push", "pause", "resume", "rename", "open"])
    | st.sampled_from(QUERIES),
    min_size=4,
    max_size=16,
)


def check(actions: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, name, number = Path(folder) / "state.sqlite", "q", 0
        expected = Reference()
        expected.edit(PAIR)
        engine = xscl.Engine(path)
        engine.subscribe("q", PAIR)
        pushed: list[xscl.Match] = []
        for at, action in enumerate(actions):
            match action:
                case "push":
                    number += 1
                    expected.push(number)
                    pushed += [m for m in engine.push(document(number)) if m.subscription == name]
                case "pause" | "resume":
                    expected.paused = action == "pause"
                    engine.edit(name, paused=expected.paused)
                case "rename":
                    name = engine.edit(name, rename=f"q{at}").name
                case "open":
                    engine.close()
                    engine = xscl.Engine(path)
                case query:
                    expected.edit(query)
                    engine.edit(name, query)
        kept = engine.matches(name)
        assert found(engine, name) == expected.found
        assert [one.id for one in kept] == [one.id for one in pushed]
        assert len({one.id for one in kept}) == len(kept)
        rows = engine.sql(f"SELECT count(*) AS n FROM matches WHERE subscription = '{name}'")
        assert rows.to_pylist() == [{"n": len(kept)}]
        engine.unsubscribe(name)
        assert [one.id for one in engine.matches()] == [one.id for one in pushed]
        if pushed:
            assert found(engine, name) == expected.found
        engine.close()
        expected.engine.close()


def test_a_version_finds_what_its_query_finds_from_then_on() -> None:
    first = ["push", "push", "push", "pause", "push", QUERIES[1], "resume", "push", "open", "push"]
    check([*first, QUERIES[4], "push", "push", QUERIES[5], "rename", "push", "push"])


@pytest.mark.hypothesis
@pytest.mark.slow
@settings(max_examples=tried(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ACTIONS)
def test_whatever_is_edited_a_version_finds_what_its_query_finds(actions: list[str]) -> None:
    check(actions)


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


def test_a_name_that_is_used_again_begins_a_new_list_of_matches(tmp_path: Path) -> None:
    path, ids = tmp_path / "state.sqlite", set[str]()
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


def test_a_name_that_is_used_again_is_new_in_every_language(engine: xscl.Engine) -> None:
    engine.stream("E", attributes={"t": str})
    engine.subscribe("c", "SELECT t FROM E", language="cel")
    for query, language in (("SELECT * FROM E", "cel"), (PAIR, "xscl"), ("SELECT t FROM E", "cel")):
        engine.push(xscl.Document("E", str(len(engine.matches())), 50, b"<e><t>k</t></e>"))
        engine.flush()
        engine.unsubscribe("c")
        engine.subscribe("c", query, language=language)
        assert found(engine, "c") == []
    assert engine.state.subscriptions.removed() == ["c (removed)", "c (removed 2)"]


def test_a_rename_to_a_name_of_removed_matches_leaves_them_alone(engine: xscl.Engine) -> None:
    removed = found(engine, "q")
    engine.unsubscribe("q")
    engine.subscribe("other", PAIR)
    engine.push([document(5), document(7)])
    others = found(engine, "other")
    engine.edit("other", rename="q")
    assert found(engine, "q") == others
    assert found(engine, "q (removed)") == removed
    engine.subscribe("other", PAIR)
    engine.push([document(15), document(17)])
    assert {one.id for one in engine.matches("q")}.isdisjoint(
        one.id for one in engine.matches("other")
    )


def test_numbers_of_kept_results_are_not_used_again(tmp_path: Path) -> None:
    after = "S//a->x[./t->u] NEXT{u=v} S//a->y[./t->v]"
    for query in (PAIR, after, PAIR, after):
        with xscl.Engine(tmp_path / "state.sqlite") as engine:
            engine.subscribe("q", query)
            engine.push([document(at + 10 * len(engine.matches())) for at in (1, 3, 5)])
            engine.unsubscribe("q")
    with xscl.Engine(tmp_path / "state.sqlite") as engine:
        known = engine.state.subscriptions
        kept = [one for name in known.removed() for one in known.versions(name)]
        assert len({one.qid for one in kept}) == len(kept) == 4


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
    engine.edit("published", "SELECT <p>{x}</p> FROM S//a[./t]->x PUBLISH P")
    assert [one.subscription for one in engine.push(document(9))].count("reader") == 1


def test_a_paused_publisher_publishes_nothing(engine: xscl.Engine) -> None:
    engine.subscribe("published", "SELECT <p>{x}</p> FROM S//a->x PUBLISH P")
    engine.subscribe("reader", "P//p->x")
    engine.edit("published", paused=True)
    assert {one.subscription for one in engine.push(document(5))} == {"q"}
    engine.edit("published", paused=False)
    assert {one.subscription for one in engine.push(document(7))} == {"q", "published", "reader"}


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
