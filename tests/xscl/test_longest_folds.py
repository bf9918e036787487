"""LONGEST FOLD: of each start the longest run, once, when a document ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl import QueryError
from xscl.language.parser import parse
from xscl.language.sentence import sentence
from xscl.language.unparse import unparse
from xscl.time_format import UNITS

H = UNITS["h"]
ENTRY = "S//e[./k->k][./v->v]"
RISING = (
    'SELECT <run of="{k}" steps="{n}" to="{v}"/> FROM'
    f" {ENTRY} LONGEST FOLD{{$2.k = $1.k, $2.v > $.v, $.n + 1 AS n}} {ENTRY}"
)


def entry(hours: int, value: int, key: str = "u") -> xscl.Document:
    text = f"<e><k>{key}</k><v>{value}</v></e>"
    return xscl.Document("S", f"{key}{hours}", hours * H, text.encode())


CLIMB = [entry(1, 5), entry(2, 6), entry(3, 9), entry(3, 1, "w"), entry(4, 12), entry(5, 12)]


def runs(engine: xscl.Engine) -> list[tuple[tuple[str, ...], int]]:
    """Return the documents of each run, and when it ended, in hours."""
    return sorted((match.documents, match.t1 // H) for match in engine.matches("q"))


@pytest.mark.parametrize("at_once", [False, True])
def test_each_start_has_its_longest_run_once(at_once: bool, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with xscl.Engine(path) as engine:
        engine.subscribe("q", RISING)
        engine.push(CLIMB[:3])
        assert runs(engine) == []
    with xscl.Engine(path) as engine:
        for batch in [CLIMB[3:]] if at_once else [[one] for one in CLIMB[3:]]:
            engine.push(batch)
        engine.flush()
        assert runs(engine) == [(("u1", "u4"), 5), (("u2", "u4"), 5), (("u3", "u4"), 5)]
        first = engine.matches("q")
        assert [one.xml() for one in first if one.documents[0] == "u1"] == [
            b'<run of="u" steps="3" to="12"/>'
        ]


def test_a_run_without_a_step_or_without_an_end_is_none() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", RISING)
        engine.push([entry(1, 5), entry(2, 4), entry(3, 8)])
        engine.flush()
        assert runs(engine) == []


@pytest.mark.parametrize("turned", [False, True])
def test_one_of_simultaneous_documents_may_continue_a_run(turned: bool) -> None:
    both = [entry(3, 9), xscl.Document("S", "low", 3 * H, b"<e><k>u</k><v>1</v></e>")]
    with xscl.Engine() as engine:
        engine.subscribe("q", RISING)
        engine.push([entry(1, 5), entry(2, 6), *(both[::-1] if turned else both), entry(4, 9)])
        engine.flush()
        assert runs(engine) == [(("u1", "u3"), 4), (("u2", "u3"), 4)]


def test_why_knows_what_ends_a_run() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", RISING)
        engine.push(CLIMB[:5])
        assert "no later document has ended the run" in _failing(engine, "u1", "u4")
        engine.push(CLIMB[5:])
        assert "it is decided when time passes" in _failing(engine, "u1", "u4")
        engine.flush()
        assert engine.why("q", "u1", "u4").matched
        assert "u1 was taken by u4" in _failing(engine, "u1", "u3")


def _failing(engine: xscl.Engine, *documents: str) -> str:
    """Return why some documents are no match."""
    answer = engine.why("q", *documents)
    assert not answer.matched
    return "; ".join(str(one.nearest) for one in answer.edges if not one.holds)


def test_it_is_named_by_each_surface() -> None:
    assert parse(unparse(parse(RISING))) == parse(RISING)
    assert "each run once, when it ends" in sentence(RISING)
    with xscl.Engine() as engine:
        engine.subscribe("q", RISING)
        assert "LONGEST FOLD: instance.t1 < b.t0" in engine.explain("q")


@pytest.mark.parametrize("items", ["$2.k = $1.k", "$2.v > $.v, $2.v > $.v"])
def test_a_run_that_nothing_ends_is_refused(items: str) -> None:
    with pytest.raises(QueryError, match="nothing ends a run of LONGEST FOLD"):
        parse(f"{ENTRY} LONGEST FOLD{{{items}}} {ENTRY}")
