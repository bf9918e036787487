"""Conditions that could not be evaluated: three-valued logic, and what their owner is shown."""

from __future__ import annotations

import math
from itertools import starmap

import pytest
from lxml import etree

import xscl
from tests.xscl.shredding.xpaths import engine
from xscl.language.xpath import TYPES
from xscl.shredding import nodes as tree_cache
from xscl.shredding.conditions import unevaluated
from xscl.shredding.conditions.unevaluated import ExpressionTallies, NotEvaluated
from xscl.shredding.conditions.xpath_values import ERRORS, cast
from xscl.shredding.nodes import DocumentTree, TreeCache, number_nodes

ROOT = etree.fromstring("<a><zz>q</zz><n>1</n><b><c>2</c></b><b><c>x</c></b></a>")
FAILS = "xs:integer(zz) = 1"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (FAILS, False),
        (f"not({FAILS})", False),
        (f"not(not({FAILS}))", False),
        (f"{FAILS} or n = 1", True),
        (f"n = 1 or {FAILS}", True),
        (f"{FAILS} or n = 2", False),
        (f"not({FAILS} or n = 2)", False),
        (f"not({FAILS} and n = 2)", True),
        (f"not(n = 2 and {FAILS})", True),
        (f"not({FAILS} and n = 1)", False),
        (f"boolean({FAILS} or (n, 2) = 1)", True),
        (f"not(boolean({FAILS} and n + 1 = 3))", True),
        (f"not(n[../zz][../{FAILS}])", False),
        ("b[xs:integer(c) = 2]", False),  # it fails at the second one
        ("b[c castable as xs:integer][xs:integer(c) = 2]", True),
        ("b[xs:integer(c) = 3]", False),
        ("not(b[xs:integer(c) = 3])", False),
        ("count(b[xs:integer(c) = 3]) = 0", False),
        ("count(b[xs:integer(c) = 2]) = 1", False),
        ("empty(b[xs:integer(c) = 3])", False),
        ("not(b[xs:integer(c) = 3]/c = 'x')", False),
        ("some $b in b satisfies xs:integer($b/c) = 2", True),
        ("not(some $b in b satisfies xs:integer($b/c) = 3)", False),
        ("every $b in b satisfies xs:integer($b/c) = 3", False),
        ("not(every $b in b satisfies xs:integer($b/c) = 3)", True),
        ("not(every $b in b satisfies xs:integer($b/c) = 2)", False),
        ("not(1 idiv 0 = 1)", False),
        ("not(xs:date(zz) = xs:date('2026-01-01'))", False),
        ("not(zz castable as xs:integer)", True),
        ("if (zz castable as xs:integer) then xs:integer(zz) = 1 else true()", True),
        ("not(zz + 1 = 2)", True),
    ],
)
def test_what_fails_is_neither_true_nor_false(condition: str, holds: bool) -> None:
    assert bool(engine(f"/a[{condition}]", ROOT)) is holds


@pytest.mark.parametrize(
    "text", ["/a[n][{}]", "/a[{}]/b[c = 2]", "//*[{}]", "/a[b[c = 2]][not({})]", "/*/..[.//*[{}]]"]
)
def test_what_fails_has_no_match_at_any_place(text: str) -> None:
    assert engine(text.format(FAILS), ROOT) == set()


@pytest.mark.parametrize(
    "condition",
    ["count(//a[1]) = 20000", "count(//i[a][last()]) = 1", "not(//none[1])", "count(//b[2]) = 0"],
)
def test_a_place_among_children_of_all_nodes_costs_what_it_finds(condition: str) -> None:
    """A step at each node would exceed the budget of one expression (`_deep`)."""
    text = f"<r>{'<i><a/>x<b/></i>' * 20_000}</r>"
    with xscl.Engine() as engine:
        engine.subscribe("q", f"S//r[{condition}]->x")
        assert len(engine.push([xscl.Document("S", "d", 1, text.encode())])) == 1


@pytest.mark.parametrize("kind", sorted(TYPES - {"string", "untypedAtomic"}))
def test_a_failed_cast_names_the_type_that_was_asked_for(kind: str) -> None:
    texts = "nope", "P", "2000-99-99", "9-9", "99999999999999999999:99", "9" * 50
    times = ("date", "2000-01-01"), ("time", "12:00:00"), ("duration", "P1Y")
    told = set()
    for value in (*texts, 1, math.nan, math.inf, *starmap(cast, times)):
        try:
            cast(kind, value)
        except ERRORS as error:
            told.add(str(error))
    assert len(told) > 3
    assert not [one for one in told if not one.endswith(f" is no xs:{kind}")]


def test_the_owner_is_shown_what_was_not_evaluated(engine: xscl.Engine) -> None:
    long = "Q" * 900
    grown = f"replace(replace(zz, '.', '{long}'), '.', '{long}')"
    engine.subscribe("number", f"S/a[not({FAILS})]")
    engine.subscribe("grown", f"S/a[not({grown} = 'x')]")
    engine.subscribe("other", "S/a[n > m]")
    found = engine.push(
        [
            xscl.Document("S", "d1", 1, b"<a><zz>q</zz><n>3</n><m>2</m></a>"),
            xscl.Document("S", "d2", 2, b"<a><zz>3</zz></a>"),
            xscl.Document("S", "d3", 3, b"<a><zz>" + b"q" * 2_000 + b"</zz></a>"),
        ]
    ).matches
    assert {(one.subscription, one.documents[0]) for one in found} == {
        *(("number", "d2"), ("grown", "d1"), ("grown", "d2"), ("other", "d1"))
    }
    (number,) = engine.queries.unevaluated("number")
    assert (number.expression, number.documents, number.latest) == (FAILS, 2, "d3")
    assert number.reason.endswith("is no xs:integer")
    (long_text,) = engine.queries.unevaluated("grown")
    assert (long_text.documents, long_text.latest) == (1, "d3")
    assert "a text of over 1,000,000 characters" in engine.explain("grown")
    assert f"not evaluated in 2 documents, the latest: d3: [{FAILS}]" in engine.explain("number")
    assert engine.queries.unevaluated("other") == []
    assert "not evaluated" not in engine.explain("other")


def test_the_latest_expressions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unevaluated, "MOST", 2)
    tallies = ExpressionTallies()
    for document, expression in enumerate(["a", "b", "a", "c"]):
        tallies.note(document, [NotEvaluated(expression, "why")] * 2)
        tallies.count(lambda docs: {doc: f"d{doc}" for doc in docs})
    assert [tuple(one) for one in tallies.of("abc")] == [
        *(("a", 2, "d2", "why"), ("c", 1, "d3", "why"))
    ]


def tree(elements: int) -> DocumentTree:
    return number_nodes(etree.fromstring(f"<a>{'<b/>' * (elements - 1)}</a>"))


def kept(cache: TreeCache) -> list[int]:
    return [doc for doc in range(10) if doc in cache]


def test_documents_and_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_cache, "TREES", 3)
    monkeypatch.setattr(tree_cache, "NODES", 100)
    cache = TreeCache()
    for doc in range(4):
        cache.put(doc, tree(10))
    assert kept(cache) == [1, 2, 3]
    assert cache.get(1) is not None
    cache.put(4, tree(85))
    assert kept(cache) == [1, 4], "the least recently used leave first"
    cache.put(5, tree(500))
    assert kept(cache) == [5], "a single one may be larger"
    cache.put(5, tree(10))
    cache.put(6, tree(80))
    assert kept(cache) == [5, 6], "a document that is replaced counts once"
