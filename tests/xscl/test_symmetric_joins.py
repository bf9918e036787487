"""SYMMETRIC JOIN: a pair of documents is one match, whatever says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from tests.joining import in_database
from xscl import QueryError
from xscl.language.parser import parse
from xscl.language.sentence import sentence
from xscl.language.unparse import unparse
from xscl.time_format import UNITS

H = UNITS["h"]
ONE, OTHER = "S//a->x[./k->k][./f->f]", "S//a->y[./k->m][./f->g]"
SAME = f"{ONE} SYMMETRIC JOIN{{k = m AND f != g, 3 h}} {OTHER}"


def document(name: str, hours: int, key: str = "u", feed: str = "") -> xscl.Document:
    text = f"<a><k>{key}</k><f>{feed or name}</f></a>"
    return xscl.Document("S", name, hours * H, text.encode())


HISTORY = [
    document("b", 2),
    document("a", 2),  # at the same time, and later
    document("c", 5),  # at the end of the window
    document("d", 6),  # beyond that of the first ones
    document("early", 4, feed="a"),  # out of order, of the feed of `a`
    document("other", 5, key="v"),
]
PAIRS = [
    ("a", "c"),
    ("b", "a"),
    ("b", "c"),
    ("b", "early"),
    ("c", "d"),
    ("early", "c"),
    ("early", "d"),
]


def found(engine: xscl.Engine) -> list[tuple[str, ...]]:
    return sorted(match.documents for match in engine.matches("q"))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_each_pair_is_one_match_with_the_earlier_document_first(
    large: bool, at_once: bool, tmp_path: Path
) -> None:
    path = tmp_path / "state.sqlite"
    with in_database(large):
        with xscl.Engine(path) as engine:
            engine.stream("S", lateness=2 * H)
            engine.subscribe("q", SAME)
            engine.push(HISTORY[:3])
        with xscl.Engine(path) as engine:
            for batch in [HISTORY[3:]] if at_once else [[one] for one in HISTORY[3:]]:
                engine.push(batch)
            assert found(engine) == PAIRS


@pytest.mark.parametrize(
    "predicate",
    ["lower-case(k) = lower-case(m)", "jaccard(tokens(k), tokens(m)) > 0.5", "k = m OR m = k"],
)
def test_functions_and_indexes_of_texts_find_the_same_pairs(predicate: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", f"{ONE} SYMMETRIC JOIN{{{predicate}, 3 h}} {OTHER}")
        engine.push([document("b", 2), document("a", 2), document("c", 5, key="v")])
        assert found(engine) == [("b", "a")]


def test_why_tells_the_order_of_a_pair() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", SAME)
        engine.push(HISTORY[:3])
        assert engine.why("q", "b", "c").matched
        for pair, near in ((("c", "b"), "it is 3 h later"), (("a", "b"), "both are at one time")):
            answer = engine.why("q", *pair)
            (failing,) = [one for one in answer.edges if not one.holds]
            assert not answer.matched
            assert failing.nearest is not None
            assert near in failing.nearest
            assert f"ask for {pair[1]} and {pair[0]}" in failing.nearest


def test_it_is_a_row_of_r_t_and_named_by_each_surface() -> None:
    assert unparse(parse(SAME)) == unparse(parse(unparse(parse(SAME))))
    assert "SYMMETRIC JOIN{" in unparse(parse(SAME))
    assert "each pair once" in sentence(SAME)
    with xscl.Engine() as engine:
        engine.subscribe("q", SAME)
        assert "SYMMETRIC JOIN: a.t1 <= b.t1" in engine.explain("q")
        assert engine.sql("SELECT op FROM R_T_1").to_pylist() == [{"op": "SYMMETRIC JOIN"}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (SAME.replace("S//a->y", "S//b->y"), "the sides of SYMMETRIC JOIN are not one block"),
        (SAME.replace("S//a->y", "R//a->y"), "the sides of SYMMETRIC JOIN are not one block"),
        (SAME.replace("f != g", "f < g"), "f < g is not the same when the sides are exchanged"),
        (SAME.replace("k = m", "k = g"), "k = g is not the same when the sides are exchanged"),
        (SAME.replace("k = m", "contains(k, m)"), "is not the same when the sides are exchanged"),
        (SAME.replace("k = m", 'k = "u"'), "is not the same when the sides are exchanged"),
        (SAME.replace("3 h", "-1 h TO 3 h"), "must not be below 0"),
        (f"{SAME} ELSE", "found 'ELSE'"),
        (f"S//a->z SYMMETRIC JOIN{{, 3 h}} ({SAME})", "are not one block"),
    ],
)
def test_what_cannot_be_exchanged_is_refused(query: str, message: str) -> None:
    with pytest.raises(QueryError, match=message), xscl.Engine() as engine:
        engine.subscribe("q", query)


@pytest.mark.parametrize(
    "predicate",
    [
        "k = m",
        "m = k AND g != f",
        "abs(number(k) - number(m)) < 3 AND f = g",
        "k = g AND m = f",
        "not(k != m)",
        "k = m OR f = g",
        "concat(k, f) = concat(m, g)",
        "x/k = y/k",
        "xs:decimal(k) + xs:decimal(m) = 10",
        'k = "u" AND m = "u"',
    ],
)
def test_what_says_the_same_of_both_orders_is_taken(predicate: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", f"{ONE} SYMMETRIC JOIN{{{predicate}, 3 h}} {OTHER}")
