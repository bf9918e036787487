"""Symmetric and outer joins, longest folds and windows of two bounds: each surface names them.

What they match at their edges is in `test_joins_at_their_edges`.
"""

from __future__ import annotations

import re

import pytest

import xscl
from templates.model.join_graph import OPERATORS, SYMMETRIC_JOIN, TemporalOperator
from xscl import QueryError
from xscl.drawing.queries import draw_query
from xscl.language.parser import parse
from xscl.language.sentence import sentence
from xscl.language.unparse import unparse
from xscl.planning.compile import compile_query
from xscl.time_format import UNITS

H = UNITS["h"]
ORDER, INVOICE = "o//order[./no->n]", "i//invoice[./order->m]"
OUTER = f"{ORDER} JOIN{{n = m, -1 h TO 3 d}} {INVOICE} ELSE"
ONE, OTHER = "S//a->x[./k->k][./f->f]", "S//a->y[./k->m][./f->g]"
SAME = f"{ONE} SYMMETRIC JOIN{{k = m AND f != g, 3 h}} {OTHER}"
ENTRY = "S//e[./k->k][./v->v]"
RISING = (
    'SELECT <run of="{k}" steps="{n}" to="{v}"/> FROM'
    f" {ENTRY} LONGEST FOLD{{$2.k = $1.k, $2.v > $.v, $.n + 1 AS n}} {ENTRY}"
)


@pytest.mark.parametrize(
    ("query", "read", "explained"),
    [
        (OUTER, "or either comes alone.", ("JOIN ELSE: ", "-1 h TO 3 d", "core: OuterJoin")),
        (f"{OUTER} LEFT", "or the first comes alone.", ("core: OuterJoin",)),
        (SAME, "each pair once", ("SYMMETRIC JOIN: a.t1 <= b.t1",)),
        (RISING, "each run once, when it ends", ("LONGEST FOLD: instance.t1 < b.t0",)),
    ],
)
def test_each_surface_says_what_it_is(query: str, read: str, explained: tuple[str, ...]) -> None:
    assert read in sentence(query)
    assert parse(unparse(parse(query))) == parse(query)
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        text = engine.explain("q")
    assert all(part in text for part in explained)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_each_surface_names_both_bounds(engine: xscl.Engine, operator: TemporalOperator) -> None:
    """The test walks `OPERATORS`, so a new one without a surface fails here."""
    right = "L//a[./k->m]" if operator is SYMMETRIC_JOIN else "R//b[./k->m]"
    text = f"L//a[./k->k] {operator.name}{{k = m, 12 h TO 2 d}} {right}"
    said = sentence(text)
    assert "12 hours" in said
    assert "2 days" in said
    engine.subscribe("q", text)
    explained = engine.explain("q")
    assert "window 12 h TO 2 d" in explained
    assert re.search(rf"^{operator.name}: S <= .* <= T", explained, re.MULTILINE)
    picture = draw_query(compile_query(text))
    assert "12 h TO 2 d" in [one.text for one in picture.elements]
    for stream, name in (("L", "a"), ("L", "c"), ("R", "b")):
        xml = f"<{'ab'[stream == 'R']}><k>1</k></{'ab'[stream == 'R']}>".encode()
        engine.push(xscl.Document(stream, name, 0, xml))
    second = "L/c" if operator is SYMMETRIC_JOIN else "R/b"
    edges = engine.why("q", "L/a", second).edges
    told = [one.text for one in edges if one.kind == "time"]
    assert any("12 h" in one and "2 d" in " ".join(told) for one in told)


def test_a_side_alone_is_certain_when_its_window_is_over(engine: xscl.Engine) -> None:
    engine.subscribe("q", OUTER)
    engine.push(xscl.Document("i", "i2", 0, b"<invoice><order>2</order></invoice>"))
    engine.advance(H)
    assert list(engine.matches("q")) == []
    engine.advance(H + 1)
    assert [one.documents for one in engine.matches("q")] == [("i2",)]


def test_results_of_an_outer_join_are_joined_and_published_again(engine: xscl.Engine) -> None:
    """A side that is not there is bound to nothing, so it joins with nothing."""
    text = f"SELECT <r><n>{{string(n)}}</n><m>{{string(m)}}</m></r> FROM {OUTER} PUBLISH r"
    engine.subscribe("q", text)
    engine.subscribe("above", f"({OUTER}) FOLLOWED BY{{m = x, 9 d}} x//x->x")
    engine.subscribe("read", "r//r->r")
    order = xscl.Document("o", "o6", 0, b"<order><no>6</no></order>")
    invoice = xscl.Document("i", "i7", 0, b"<invoice><order>7</order></invoice>")
    engine.push([order, invoice, xscl.Document("x", "x", 120 * H, b"<x>7</x>")])
    engine.flush()
    assert [match.documents for match in engine.matches("above")] == [("i7", "x")]
    shown = sorted(match.xml() for match in engine.matches("read"))
    assert len(shown) == 2
    assert any(b"<r><n></n><m>7</m></r>" in one or b"<n/><m>7</m>" in one for one in shown)


def pair(name: str, hours: int, key: str = "u") -> xscl.Document:
    return xscl.Document("S", name, hours * H, f"<a><k>{key}</k><f>{name}</f></a>".encode())


@pytest.mark.parametrize(
    "predicate",
    ["lower-case(k) = lower-case(m)", "jaccard(tokens(k), tokens(m)) > 0.5", "k = m OR m = k"],
)
def test_functions_and_indexes_of_texts_find_each_pair_once(predicate: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", f"{ONE} SYMMETRIC JOIN{{{predicate}, 3 h}} {OTHER}")
        engine.push([pair("b", 2), pair("a", 2), pair("c", 5, key="v")])
        assert [match.documents for match in engine.matches("q")] == [("b", "a")]


def test_why_and_its_query_take_a_pair_in_either_order(engine: xscl.Engine) -> None:
    """So do the parts of a larger query; of a pair that is no match one condition fails."""
    queries = {"q": SAME, "three": f"({SAME}) FOLLOWED BY{{k = z, 9 h}} S//a[./k->z]"}
    engine.subscribe_many(queries.items())
    engine.push([pair("b", 2), pair("a", 2), pair("c", 5), pair("far", 9)])
    for asked in (("b", "c"), ("b", "a"), ("b", "a", "c"), ("b", "a", "far")):
        name = "q" if len(asked) == 2 else "three"
        for query in (name, queries[name]):
            orders = (asked, (asked[1], asked[0], *asked[2:]))
            answers = [engine.why(query, *order) for order in orders]
            assert [one.matched for one in answers] == [True, True]
            assert answers[0].edges == answers[1].edges
    answers = [engine.why("q", *order) for order in (("b", "far"), ("far", "b"))]
    assert answers[0].edges == answers[1].edges
    (failing,) = [one for one in answers[0].edges if not one.holds]
    assert failing.kind == "time"


def entry(hours: int, value: int, name: str = "u") -> xscl.Document:
    text = f"<e><k>u</k><v>{value}</v></e>"
    return xscl.Document("S", f"{name}{hours}", hours * H, text.encode())


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_one_of_simultaneous_documents_may_continue_a_run(engine: xscl.Engine, names: str) -> None:
    both = [entry(3, 9 if name == "a" else 1, name) for name in names]
    engine.subscribe("q", RISING)
    engine.push([entry(1, 5), entry(2, 6), *both, entry(4, 9)])
    engine.flush()
    found = sorted(one.documents for one in engine.matches("q"))
    assert found == [("u1", "a3"), ("u2", "a3")]


def test_a_longest_run_is_shown_and_explained_when_it_has_ended() -> None:
    def failing(*documents: str) -> str:
        edges = engine.why("q", *documents).edges
        return "; ".join(str(one.nearest) for one in edges if not one.holds)

    with xscl.Engine() as engine:
        engine.subscribe("q", RISING)
        engine.push([entry(1, 5), entry(2, 6), entry(4, 12)])
        assert "no later document has ended the run" in failing("u1", "u4")
        engine.push(entry(5, 12))
        assert "it is decided when time passes" in failing("u1", "u4")
        engine.flush()
        assert engine.why("q", "u1", "u4").matched
        assert "u1 was taken by u4" in failing("u1", "u2")
        texts = [one.xml() for one in engine.matches("q") if one.documents[0] == "u1"]
        assert texts == [b'<run of="u" steps="2" to="12"/>']


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"{ORDER} JOIN{{n = m}} {INVOICE} ELSE", "JOIN ... ELSE needs a window"),
        (f"{ORDER} JOIN{{n = m, 1 h TO INF}} {INVOICE} ELSE", "JOIN ... ELSE needs a window"),
        (f"{ORDER} FOLLOWED BY{{n = m, 1 h}} {INVOICE} ELSE LEFT", "found 'LEFT'"),
        (f"{ORDER} FOLLOWED BY{{n = m, 1 h}} {INVOICE} ELSE RIGHT", "from its first document"),
        (f"{ORDER} JOIN{{n = m, 1 h}} {INVOICE} LEFT", "found 'LEFT'"),
        ("o//o->o JOIN{o/no = m, 1 h} i//i->m ELSE", "a path on a variable"),
        (SAME.replace("S//a->y", "S//b->y"), "the sides of SYMMETRIC JOIN are not one block"),
        (SAME.replace("S//a->y", "R//a->y"), "the sides of SYMMETRIC JOIN are not one block"),
        (SAME.replace("f != g", "f < g"), "f < g is not the same when the sides are exchanged"),
        (SAME.replace("k = m", "k = g"), "k = g is not the same when the sides are exchanged"),
        (SAME.replace("k = m", "contains(k, m)"), "is not the same when the sides are exchanged"),
        (SAME.replace("k = m", 'k = "u"'), "is not the same when the sides are exchanged"),
        (SAME.replace("3 h", "-1 h TO 3 h"), "must not be below 0"),
        (f"{SAME} ELSE", "found 'ELSE'"),
        (f"S//a->z SYMMETRIC JOIN{{, 3 h}} ({SAME})", "are not one block"),
        (f"{ENTRY} LONGEST FOLD{{$2.k = $1.k}} {ENTRY}", "nothing ends a run of LONGEST FOLD"),
        (
            f"{ENTRY} LONGEST FOLD{{$2.v > $.v, $2.v > $.v}} {ENTRY}",
            "nothing ends a run of LONGEST FOLD",
        ),
    ],
)
def test_what_cannot_be_is_refused(query: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        compile_query(query)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "predicate",
    [
        *("k = m", "m = k AND g != f", "abs(number(k) - number(m)) < 3 AND f = g"),
        *("k = g AND m = f", "not(k != m)", "k = m OR f = g", "concat(k, f) = concat(m, g)"),
        *("x/k = y/k", "xs:decimal(k) + xs:decimal(m) = 10", 'k = "u" AND m = "u"'),
    ],
)
def test_what_says_the_same_of_both_orders_is_taken(predicate: str) -> None:
    compile_query(f"{ONE} SYMMETRIC JOIN{{{predicate}, 3 h}} {OTHER}")
