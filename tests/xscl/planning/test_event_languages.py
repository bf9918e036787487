"""SASE and EQL over documents: the same as over events, restarts and cuts or not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import cep_core
from tests.examples import examples
from tests.xscl.engine.player import cut, engine_after
from tests.xscl.planning.test_event_queries import CUTS, FLAT, flat
from xscl.engine.facade import Engine
from xscl.errors import QueryError, StreamInUse
from xscl.subscriptions.match import EventMatch

QUERIES = {
    "sequence": ("EVENT SEQ(S a, R b) WHERE a.k = b.k AND a.v < b.v WITHIN 4 ms", "sase"),
    "negation": ("EVENT SEQ(S a, !(R n), S b) WHERE a.k = b.k AND n.k = a.k WITHIN 6 ms", "sase"),
    "pattern": (
        "EVENT SEQ(S a, next R{1,2} b[], (S c OR !R n)) WHERE [k] AND b[i].v > 0 WITHIN 6 ms"
        " AFTER MATCH SKIP TO NEXT RETURN a.k, LIST(b[].v) AS run, c.v",
        "sase",
    ),
    "all": ("SELECT ALL(y.v) AS run FROM S x ; R y+ WHERE FILTER(x.k = y.k)", "eql"),
    "next": ("SELECT * FROM S x ; R y WHERE FILTER(x.k = y.k), (x, y) OCCURS WITHIN 5 ms", "eql"),
    "union": ("SELECT x.k FROM (S x | R x) WHERE FILTER(x.v > 2)", "eql"),
    "cel": ("SELECT * FROM S NEXT{$1.k = $2.k} R", "cel"),
}


@st.composite
def readings(draw: st.DrawFn) -> list[tuple[str, str, int, int]]:
    """Draw rows (stream, key, value, time) in the order of time."""
    rows: list[tuple[str, str, int, int]] = []
    now = 0
    for _ in range(draw(st.integers(4, 10))):
        now += draw(st.integers(0, 2))
        key, value = draw(st.sampled_from("ab")), draw(st.integers(0, 4))
        rows.append((draw(st.sampled_from("SR")), key, value, now))
    return rows


def registered(engine: Engine | cep_core.Engine) -> None:
    for stream in "SR":
        if isinstance(engine, Engine):
            engine.stream(stream, attributes=FLAT)
        else:
            engine.stream(stream, FLAT)
    for name, (text, language) in QUERIES.items():
        if isinstance(engine, Engine):
            engine.subscribe(name, text, language=language)
        else:
            engine.register(name, text, language)


def expected(rows: list[tuple[str, str, int, int]]) -> set[tuple[Any, ...]]:
    """Return the matches of the core over the rows as events; equal rows are one match."""
    core = cep_core.Engine(1_000_000)
    registered(core)
    events = [cep_core.Event(s, (k, float(v)), time * 1_000) for s, k, v, time in rows]
    found = [*core.push(events), *core.close()]
    return {(name, e.t0, e.t1, tuple(map(shown, e.values))) for name, e in found}


def shown(value: object) -> object:
    """Return a value as a leaf of a document shows it."""
    match value:
        case float():
            return f"{value:g}"
        case tuple():
            return f"[{', '.join(str(shown(one)) for one in value)}]"
        case _:
            return value


@examples(4)
@given(readings(), CUTS)
def test_over_documents_is_as_over_events(
    rows: list[tuple[str, str, int, int]], cuts: list[bool]
) -> None:
    """Also when the engine is opened anew at each cut."""
    documents = [
        flat(at, time, key, value, stream) for at, (stream, key, value, time) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.sqlite")
        with engine_after(cut(documents, cuts), registered, path) as engine:
            engine.flush()
            found = {
                (m.subscription, m.t0, m.t1, tuple(m.values.values()))
                for m in engine.matches()
                if isinstance(m, EventMatch)
            }
    for name in dict.fromkeys(name for name, *_ in found):
        event(f"{name} matches")
    assert found == expected(rows)


def test_each_language_shares_the_plan_and_shows_a_run_as_a_list(engine: Engine) -> None:
    registered(engine)
    engine.push([flat(1, 1, "a", 1), flat(2, 2, "b", 2, "R"), flat(3, 3, "a", 4, "R")])
    engine.flush()
    texts = {match.subscription: match.xml().decode() for match in engine.matches()}
    assert texts["all"] == "<result><run>[2, 4]</run></result>"
    assert texts["sequence"] == (
        "<result><a_k>a</a_k><a_v>1</a_v><b_k>a</b_k><b_v>4</b_v></result>"
    )
    assert "pattern_match" in engine.explain("sequence")
    assert "record#1.0, record#1.1" in engine.explain("next")


def test_what_is_wrong_is_shown_in_each_language(engine: Engine) -> None:
    engine.stream("S", attributes=FLAT)
    for text, language, message in (
        ("EVENT SEQ(S a, T b) WITHIN 4 ms", "sase", "there is no event type T"),
        ("SELECT * FROM S x ; T y", "eql", "there is no stream T"),
        ("EVENT SEQ(S a, S b) WHERE a.w = b.k WITHIN 4 ms", "sase", "w"),
    ):
        with pytest.raises(QueryError, match=message):
            engine.subscribe("wrong", text, language=language)
    engine.subscribe("reads", "EVENT SEQ(S a, S b) WITHIN 4 ms", language="sase")
    with pytest.raises(StreamInUse):
        engine.stream("S", attributes={"k": str})
