"""The oracle of the whole XSCL itself: cases worked by hand, one for every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TypeAlias

import pytest

from tests.examples import ROUNDS, cases_of, usually
from tests.oracle import composites as rows
from tests.oracle import evaluation, formulas, patterns
from tests.oracle.composites import Composite
from tests.oracle.evaluation import Match, identity, matches, renamed, replay
from tests.oracle.formulas import Value, choices, holds
from tests.oracle.output import document_of
from tests.oracle.patterns import values
from tests.oracle.queries import (
    And,
    Arithmetic,
    Call,
    Case,
    Comparison,
    Constant,
    Copy,
    Decorated,
    Doc,
    Element,
    Event,
    Expression,
    Fold,
    FollowedBy,
    Formula,
    Join,
    Next,
    Not,
    Operand,
    Or,
    Push,
    Query,
    Subscribe,
    Subscription,
    TextTest,
    Unsubscribe,
    Var,
    blocks,
)
from tests.oracle.steps import Block, Condition, Exists, Step
from tests.oracle.trees import Binding, Node, descendants, read
from tests.strategies import joins
from tests.strategies.language import chains, functions, mixes, ordered, published, residuals
from xscl.language.normalform import normalise
from xscl.language.parser import parse


def _doc(name: str, timestamp: int, xml: str = "<k>u</k>", stream: str = "S") -> Push:
    return Push(Doc((stream,), name, timestamp, xml.encode()))


def _block(variable: str, stream: str = "S", name: str = "k") -> Block:
    return Block(stream, Step("descendant", name, variable))


def _same(left: str, right: str) -> Formula:
    return Comparison("=", Var(left), Var(right))


A, B, C, D = _block("a"), _block("b"), _block("c"), _block("d")
SAME = _same("a", "b")


def _history(*events: Event, **lateness: int) -> set[Match]:
    return set(matches(events, lateness))


def _found(expression: Expression, *pushed: Push, **lateness: int) -> set[str]:
    """Return the ids of the documents of the matches, joined by blanks."""
    subscribed = Subscribe(Subscription("Q", Query(expression)))
    found = _history(subscribed, *pushed, **lateness)
    return {" ".join(name.rpartition("/")[2] for name in match[1]) for match in found}


def _at(*times: int) -> list[Push]:
    return [_doc(f"d{number}", time) for number, time in enumerate(times, start=1)]


# -- Chains --------------------------------------------------------------------------------


def test_a_chain_of_three_is_all_its_composites() -> None:
    chain = FollowedBy(FollowedBy(A, B, SAME, 5), C, _same("b", "c"), 5)
    assert _found(chain, *_at(1, 2, 3)) == {"d1 d2 d3"}
    assert _found(chain, *_at(1, 2, 3, 4)) == {"d1 d2 d3", "d1 d2 d4", "d1 d3 d4", "d2 d3 d4"}


def test_the_window_of_a_chain_is_between_last_times() -> None:
    chain = FollowedBy(FollowedBy(A, B, SAME, 5), C, _same("a", "c"), 3)
    assert _found(chain, *_at(0, 5, 8)) == {"d1 d2 d3"}
    assert _found(chain, *_at(0, 5, 9)) == set()


def test_a_composite_on_the_right_begins_after_the_left_ends() -> None:
    inner = Join(B, C, _same("b", "c"), 5)
    outer = FollowedBy(A, inner, SAME, 5)
    assert _found(outer, *_at(1, 2, 6)) == {"d1 d2 d3", "d1 d3 d2"}
    assert _found(outer, *_at(1, 1, 6)) == set()
    assert _found(outer, *_at(1, 2, 7)) == set()


def test_join_is_of_pairwise_different_documents_in_all_orders() -> None:
    chain = Join(Join(A, B, SAME, 0), C, _same("b", "c"), 0)
    assert len(_found(chain, *_at(1, 1, 1))) == 6


def test_a_chain_of_four_with_parentheses() -> None:
    pairs = Join(FollowedBy(A, B, SAME, 9), FollowedBy(C, D, _same("c", "d"), 9), _same("a", "c"))
    assert pairs.text() == (
        "S//k->a FOLLOWED BY{a = b, 9} S//k->b JOIN{a = c, INF} "
        "(S//k->c FOLLOWED BY{c = d, 9} S//k->d)"
    )
    found = _found(pairs, *_at(1, 2, 3, 4))
    assert len(found) == 6
    assert {"d1 d3 d2 d4", "d1 d4 d2 d3"} <= found


def test_the_newcomer_is_what_has_the_newest_document() -> None:
    """The clock at d3 is 9; the pair (d1, d2) ends at 4, so it is kept until 4 + T."""
    chain = Join(Join(A, B, SAME, 9), _block("c", "R"), _same("a", "c"), 4)
    arrived = (*_at(3, 4), _doc("z", 9, "<z/>"), _doc("d3", 4, stream="R"))
    assert _found(chain, *arrived) == set()
    assert _found(chain, *arrived, R=1) == {"d1 d2 d3", "d2 d1 d3"}


def test_the_lateness_of_all_blocks_below_counts() -> None:
    chain = Join(Join(A, _block("b", "R"), SAME, 9), C, _same("a", "c"), 4)
    arrived = (_doc("d1", 3), _doc("d2", 4, stream="R"), _doc("z", 9, "<z/>"), _doc("d3", 4))
    assert _found(chain, *arrived) == set()
    assert _found(chain, *arrived, R=1) == {"d1 d2 d3"}


def test_no_two_versions_of_a_document_meet() -> None:
    query = Query(FollowedBy(FollowedBy(A, B, SAME), C, _same("b", "c")))
    events = (
        Subscribe(Subscription("Q", query, updates=True)),
        _doc("d1", 1),
        _doc("d2", 2),
        _doc("d1", 3, "<k>u<!--2--></k>"),
        _doc("d3", 4),
    )
    assert {match[1] for match in _history(*events)} == {("d1", "d2", "d3"), ("d2", "d1@2", "d3")}


def test_a_subscriber_sees_composites_of_what_comes_while_it_is_there() -> None:
    d1, d2, d3, d4, d5 = _at(1, 2, 3, 4, 5)
    query = Query(FollowedBy(FollowedBy(A, B, SAME), C, _same("b", "c")))
    here, gone = Subscribe(Subscription("Q", query)), Unsubscribe("Q")
    found = _history(d1, here, d2, d3, d4, gone, d5)
    assert {match[1] for match in found} == {("d2", "d3", "d4")}


# -- Matches and predicates ----------------------------------------------------------------

TWO = "<k><x>u</x><x>v</x></k>"


def _with_x(variable: str, x: str) -> Block:
    return Block("S", Step("child", "k", variable, (Exists(Step("child", "x", x)),)))


def test_a_match_has_the_nodes_of_all_variables_in_predicates() -> None:
    left, right = _with_x("a", "p"), _with_x("b", "q")
    query = Query(FollowedBy(left, right, Comparison("!=", Var("p"), Var("q")), 5))
    events = (Subscribe(Subscription("Q", query)), _doc("d1", 1, TWO), _doc("d2", 2, TWO))
    assert _history(*events) == {
        ("Q", ("d1", "d2"), (("p", "d1", 1), ("q", "d2", 2))),
        ("Q", ("d1", "d2"), (("p", "d1", 2), ("q", "d2", 1))),
    }


def test_distinct_is_one_match_for_the_documents() -> None:
    left, right = _with_x("a", "p"), _with_x("b", "q")
    query = Query(FollowedBy(left, right, _same("p", "q"), 5), distinct=True)
    events = (Subscribe(Subscription("Q", query)), _doc("d1", 1, TWO), _doc("d2", 2, TWO))
    assert _history(*events) == {("Q", ("d1", "d2"), ())}
    assert query.text().startswith("SELECT DISTINCT * FROM S/k->a")


def test_both_disjuncts_true_is_one_match_and_binds_the_variables_of_both() -> None:
    left, right = _with_x("a", "p"), _with_x("b", "q")
    formula = Or((SAME, _same("p", "q")))
    query = Query(FollowedBy(left, right, formula, 5))
    events = (
        Subscribe(Subscription("Q", query)),
        _doc("d1", 1, "<k><x>u</x></k>"),
        _doc("d2", 2, "<k><x>u</x></k>"),
    )
    nodes = (("a", "d1", 0), ("b", "d2", 0), ("p", "d1", 1), ("q", "d2", 1))
    assert _history(*events) == {("Q", ("d1", "d2"), nodes)}


def _root(xml: str) -> Node:
    (root,) = read(xml.encode()).content
    assert isinstance(root, Node)
    return root


SCOPE = {
    "x": _root("<k><n>3</n><n>4</n> U </k>"),
    "three": _root("<k>3.0</k>"),
    "word": _root("<k> Big:Word  here </k>"),
    "none": _root("<k/>"),
    "nine": _root("<k>9</k>"),
    "ten": _root("<k>10</k>"),
    "exponent": _root("<k> 1.0E1 </k>"),
    "nan": _root("<k>NaN</k>"),
    "day": _root("<k>2026-01-02</k>"),
    "time": _root("<k>2026-01-02T00:30:00+01:00</k>"),
}
X, THREE, WORD, NONE, NINE, TEN, EXPONENT = (Var(name) for name in (*SCOPE,)[:7])
N = Var("x", Step("child", "n"))
ABSENT = Var("x", Step("child", "z"))
OTHER = Comparison("=", X, WORD)


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (N, ["3", "4"]),
        (Var("x", None, "/text()"), [" U "]),
        (Call("lower-case", (WORD,)), [" big:word  here "]),
        (Call("upper-case", (X,)), ["34 U "]),
        (Call("normalize-space", (WORD,)), ["Big:Word here"]),
        (Call("substring-before", (WORD, Constant(":"))), [" Big"]),
        (Call("substring-before", (WORD, Constant(""))), [""]),
        (Call("substring-before", (WORD, Constant("?"))), [""]),
        (Call("substring-after", (WORD, Constant(":W"))), ["ord  here "]),
        (Call("substring-after", (X, Constant(""))), ["34 U "]),
        (Call("string-length", (N,)), [1.0, 1.0]),
        (Call("number", (WORD,)), [None]),
        (Call("string", (Call("number", (THREE,)),)), ["3"]),
        (Call("lower-case", (Call("number", (WORD,)),)), [None]),
        (Call("string", (Constant(0.1),)), ["0.1"]),
        (Arithmetic("+", N, Constant(1)), [4.0, 5.0]),
        (Arithmetic("div", Constant(1), Constant(0)), [float("inf")]),
        (Arithmetic("mod", Arithmetic("-", Constant(0), Constant(5)), Constant(3)), [-2.0]),
    ],
)
def test_operands(operand: Operand, expected: list[Value]) -> None:
    assert choices(operand, SCOPE) == expected


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (Comparison("=", N, THREE), False),
        (Comparison("=", N, Call("number", (THREE,))), True),
        (Comparison("=", THREE, Constant(3)), True),
        (Comparison("=", THREE, Constant("3")), False),
        (Comparison("!=", N, Constant("3")), True),
        (Not(Comparison("=", N, Constant("3"))), False),
        (Comparison("!=", ABSENT, Constant("3")), False),
        (Not(Comparison("=", ABSENT, ABSENT)), True),
        (Comparison("=", WORD, Constant(3)), False),
        (Comparison("!=", WORD, Constant(3)), True),
        (Comparison("<", Call("number", (WORD,)), Constant(3)), False),
        (Comparison(">=", Call("number", (WORD,)), Constant(3)), False),
        (Comparison("!=", Call("number", (WORD,)), WORD), True),
        (Comparison("<", Constant("10"), THREE), True),
        (Comparison("<", Constant(10), THREE), False),
        (Comparison(">", Arithmetic("*", N, N), Constant(15)), True),
        (Comparison("<", WORD, THREE), False),
        (Not(Comparison("<", WORD, THREE)), True),
        (Comparison("<", NINE, TEN), True),
        (Comparison(">=", NINE, TEN), False),
        (Comparison("<=", TEN, EXPONENT), True),
        (Comparison("<", TEN, EXPONENT), False),
        (Comparison("<", NINE, Var("nan")), False),
        (Comparison("<", NONE, WORD), True),
        (Comparison("<", NONE, NINE), False),
        (Comparison("<", Call("string", (TEN,)), NINE), True),
        (Comparison("<", Var("day"), Var("time")), False),
        (Comparison(">", Var("day"), Var("time")), True),
        (Comparison("<", Var("day"), WORD), False),
        (Comparison("<", Var("day"), NINE), False),
        (TextTest("contains", N, Constant("4")), False),
        (TextTest("starts-with", N, Constant("3")), True),
        (TextTest("contains", ABSENT, NONE), True),
        (TextTest("contains", WORD, ABSENT), True),
        (And((Comparison("=", X, X), Or((Comparison("=", X, WORD), Not(OTHER))))), True),
        (And((Comparison("=", X, X), OTHER)), False),
    ],
)
def test_formulas(formula: Formula, expected: bool) -> None:
    assert holds(formula, SCOPE) is expected


def test_formulas_are_written_with_parentheses() -> None:
    one, other = Comparison("<", X, Arithmetic("+", N, Constant(1))), TextTest("contains", X, WORD)
    formula = And((Or((one, Not(other))), Comparison("=", Decorated(1, "p"), Decorated(0, "n"))))
    assert formula.text() == "(x < (x/n + 1) OR not(contains(x, word))) AND $1.p = $.n"


# -- NOT FOLLOWED BY, ELSE -----------------------------------------------------------------

NOTHING = FollowedBy(A, _block("b", "R"), SAME, 3, negated=True)
OTHERWISE = FollowedBy(A, _block("b", "R"), SAME, 3, otherwise=True)


@pytest.mark.parametrize(
    ("time", "answered"), [(4, False), (5, True), (7, True), (8, False)], ids=str
)
def test_absence_ends_at_exactly_t(time: int, answered: bool) -> None:
    pushed = (_doc("d1", 4), _doc("d2", time, stream="R"), _doc("d3", 20, "<z/>"))
    assert _found(NOTHING, *pushed) == (set() if answered else {"d1"})
    assert _found(OTHERWISE, *pushed) == ({"d1 d2"} if answered else {"d1"})


def test_else_gives_all_pairs() -> None:
    pushed = (_doc("d1", 4), _doc("d2", 5, stream="R"), _doc("d3", 6, stream="R"))
    assert _found(OTHERWISE, *pushed) == {"d1 d2", "d1 d3"}
    assert _found(OTHERWISE, *pushed, _doc("d4", 6)) == {"d1 d2", "d1 d3", "d4"}


def test_what_answers_must_satisfy_the_predicate() -> None:
    pushed = (_doc("d1", 4), _doc("d2", 5, "<k>v</k>", "R"))
    assert _found(NOTHING, *pushed) == {"d1"}


def test_a_match_of_absence_has_no_variable_of_the_right() -> None:
    assert _history(Subscribe(Subscription("Q", Query(NOTHING))), _doc("d1", 1)) == {
        ("Q", ("d1",), (("a", "d1", 0),))
    }


@pytest.mark.parametrize(("lateness", "answered"), [(0, False), (2, False), (3, True)])
def test_a_late_answer_is_missed(lateness: int, answered: bool) -> None:
    pushed = (_doc("d1", 4), _doc("z", 9, "<z/>"), _doc("d2", 6, stream="R"))
    assert _found(NOTHING, *pushed, S=lateness) == (set() if answered else {"d1"})


def test_a_late_row_waits_for_nothing() -> None:
    pushed = (_doc("z", 9, "<z/>"), _doc("d1", 4))
    assert _found(NOTHING, *pushed) == set()
    assert _found(NOTHING, *pushed, R=5) == {"d1"}


def test_an_epoch_is_closed_by_what_is_later_than_the_lateness() -> None:
    here, gone = Subscribe(Subscription("Q", Query(NOTHING))), Unsubscribe("Q")
    d1, at, after = _doc("d1", 1), _doc("z", 6, "<z/>"), _doc("y", 7, "<z/>")
    assert _history(here, d1, at, gone, after, R=2) == set()
    assert len(_history(here, d1, at, after, gone, R=2)) == 1


# -- NEXT, FOLD ----------------------------------------------------------------------------


def test_next_takes_the_earliest_that_satisfies_the_predicate() -> None:
    query = Next(A, _block("b", "R"), SAME)
    other = _doc("d2", 2, "<k>v</k>", "R")
    simultaneous = (_doc("d3", 3, stream="R"), _doc("d4", 3, stream="R"))
    pushed = (_doc("d1", 1), other, *simultaneous, _doc("d5", 4, stream="R"))
    assert _found(query, *pushed) == {"d1 d3", "d1 d4"}
    assert _found(Next(A, _block("b", "R")), *pushed) == {"d1 d2"}


def test_next_begins_after_the_left_row() -> None:
    query = Next(A, _block("b", "R"))
    assert _found(query, _doc("d1", 1), _doc("d2", 1, stream="R")) == set()


def test_next_is_in_event_time_within_lateness() -> None:
    query = Next(A, _block("b", "R"))
    pushed = (_doc("d1", 1), _doc("d3", 5, stream="R"), _doc("d2", 3, stream="R"))
    assert _found(query, *pushed, R=2) == {"d1 d2"}
    assert _found(query, *pushed, R=1) == {"d1 d3"}


def _item(number: int, time: int, value: str) -> Push:
    return _doc(f"d{number}", time, f"<k><n>{value}</n></k>")


FIRST, NEW = (
    Block("S", Step("child", "k", None, (Exists(Step("child", "n", name)),)))
    for name in ("k_1", "k")
)
RISING = Comparison("<", Call("number", (Decorated(0, "k"),)), Decorated(2, "k"))
SOME = Comparison(">", Decorated(2, "k"), Constant(0))
ANY = Comparison("!=", Decorated(1, "k_1"), Constant(""))


def test_fold_goes_on_from_the_last_row() -> None:
    rising = Fold(FIRST, NEW, ANY, RISING)
    assert rising.text() == ('S/k[./n->k_1] FOLD{$1.k_1 != "", number($.k) < $2.k} S/k[./n->k]')
    items = [_item(n, n, v) for n, v in enumerate(("1", "2", "3", "2", "5"), start=1)]
    assert _found(rising, *items) == {"d1 d2", "d1 d3", "d2 d3", "d4 d5"}


def test_fold_skips_what_does_not_satisfy_its_first_predicate() -> None:
    rising = Fold(FIRST, NEW, And((ANY, RISING)), SOME)
    items = [_item(n, n, v) for n, v in enumerate(("1", "3", "2", "4"), start=1)]
    assert _found(rising, *items) == {"d1 d2", "d1 d4", "d2 d4", "d3 d4"}


def test_fold_has_aggregates() -> None:
    total = ("total", Arithmetic("+", Decorated(0, "total"), Decorated(2, "k")))
    few = Comparison("<", Decorated(0, "n"), Constant(2))
    count = ("n", Arithmetic("+", Decorated(0, "n"), Constant(1)))
    fold = Fold(FIRST, NEW, And((ANY, few)), SOME, (count, total))
    items = [_item(n, n, str(n)) for n in range(1, 6)]
    assert _found(fold, *items) == {
        *("d1 d2", "d1 d3", "d2 d3", "d2 d4", "d3 d4", "d3 d5", "d4 d5"),
    }
    rows = replay((Subscribe(Subscription("Q", Query(fold))), *items), {}).values()
    totals = {tuple(d.id for _, d in row.documents): row.aggregates["total"] for (row,) in rows}
    assert (totals["d1", "d2"], totals["d1", "d3"], totals["d3", "d5"]) == (2.0, 5.0, 9.0)


# -- Ordered and monotone operators together -----------------------------------------------


def test_absence_above_a_join_begins_when_the_pair_ends() -> None:
    pairs = FollowedBy(
        FollowedBy(A, B, SAME, 5), _block("c", "R"), _same("b", "c"), 3, negated=True
    )
    assert _found(pairs, *_at(1, 3), _doc("d3", 6, stream="R")) == set()
    assert _found(pairs, *_at(1, 3), _doc("d3", 7, stream="R")) == {"d1 d2"}


def test_a_join_above_absence_meets_its_row_at_the_deadline() -> None:
    silence = Query(NOTHING)
    query = FollowedBy(silence, _block("c", "T"), _same("a", "c"), 2)
    assert query.text() == (
        "(SELECT * FROM S//k->a NOT FOLLOWED BY{a = b, 3} R//k->b) FOLLOWED BY{a = c, 2} T//k->c"
    )
    for time, expected in ((4, set()), (5, {"d1 d2"}), (6, {"d1 d2"}), (7, set[str]())):
        assert _found(query, _doc("d1", 1), _doc("d2", time, stream="T")) == expected


def test_an_ordered_row_is_in_time_for_documents_that_came_before_its_epoch_closed() -> None:
    """The row ends at 4; d2 came when the clock was 1, long before the epoch closes."""
    query = Join(NOTHING, _block("c", "T"), _same("a", "c"), 9)
    assert _found(query, _doc("d1", 1), _doc("d2", 13, stream="T")) == {"d1 d2"}
    late = (_doc("d1", 1), _doc("z", 14, "<z/>"), _doc("d2", 5, stream="T"))
    assert _found(query, *late) == set()
    assert _found(query, *late, T=1) == {"d1 d2"}


# -- Publishing ----------------------------------------------------------------------------

PAIRS = FollowedBy(_with_x("a", "p"), _with_x("b", "q"), _same("p", "q"), 5)
ONE = "<k><x>u</x></k>"


def test_output_documents() -> None:
    made = Element("hit", (Element("l", (Copy("p"),)), "to", Element("r", (Copy("q", True),))))
    query = Query(PAIRS, publish="P", select=made)
    assert query.text() == (
        "SELECT <hit><l>{p}</l>to<r>{string(q)}</r></hit> FROM "
        "S/k->a[./x->p] FOLLOWED BY{p = q, 5} S/k->b[./x->q] PUBLISH P"
    )
    events = (Subscribe(Subscription("Q", query)), _doc("d1", 1, TWO), _doc("d2", 2, ONE))
    (rows,) = replay(events, {}).values()
    assert document_of(query, rows) == "<hit><l><x>u</x></l>to<r>u</r></hit>"
    assert document_of(Query(PAIRS), rows) == f"<result>{TWO}{ONE}</result>"


def test_published_documents_are_read_with_the_time_of_their_match() -> None:
    reader = FollowedBy(_block("m", "P", "x"), _block("c", "S", "x"), _same("m", "c"), 2)
    subscribed = (
        Subscribe(Subscription("P1", Query(PAIRS, publish="P"))),
        Subscribe(Subscription("Q", Query(reader))),
    )
    found = _history(*subscribed, *(_doc(f"d{t}", t, ONE) for t in (1, 2, 4)))
    pair = next(match for match in found if match[1] == ("d1", "d2"))
    name = identity(pair)
    assert {match for match in found if match[0] == "Q"} == {
        ("Q", (name, "d4"), (("c", "d4", 1), ("m", name, 2))),
        ("Q", (name, "d4"), (("c", "d4", 1), ("m", name, 4))),
    }


def test_an_engines_names_of_published_documents_are_replaced() -> None:
    pair: Match = ("P1", ("d1", "d2"), (("p", "d1", 1),))
    reader: Match = ("Q", ("8f3a", "d4"), (("c", "d4", 1), ("m", "8f3a", 2)))
    name = "P1(d1 d2|p=d1#1)"
    assert set(renamed({"8f3a": pair, "07bc": reader})) == {
        pair,
        ("Q", (name, "d4"), (("c", "d4", 1), ("m", name, 2))),
    }


def test_a_reader_sees_what_is_made_of_later_documents_only() -> None:
    publisher = Subscribe(Subscription("P1", Query(PAIRS, publish="P")))
    reader = Subscribe(Subscription("Q", Query(_block("m", "P", "result"))))
    pushed = [_doc(f"d{t}", t, ONE) for t in (1, 2, 3)]
    found = _history(publisher, pushed[0], reader, *pushed[1:])
    assert {match[1][0] for match in found if match[0] == "Q"} == {
        identity(match) for match in found if match[1] == ("d2", "d3")
    }


# -- The cases that the engine is tried with -------------------------------------------------

STRATEGIES = {
    "patterns": joins.cases(),
    "histories": joins.histories(),
    "chains": chains(),
    "residuals": residuals(),
    "functions": functions(),
    "ordered": ordered(),
    "mixes": mixes(),
    "published": published(),
    "waiting": published(waiting=True),
}
NAMES = usually(STRATEGIES, *(name for name in STRATEGIES if name != "mixes"))
"""Mixes are of the others, and expensive."""

SIZES = {name: {"mixes": 100, "residuals": 50}.get(name, 25) for name in STRATEGIES}
"""How many cases have all that is asked for; to draw one takes some 50 ms."""


@cache
def collected(name: str, seeded: int | None = None) -> list[tuple[Case, Counter[Match]]]:
    """Return some cases of a strategy and the matches of each."""
    cases = cases_of(STRATEGIES[name], SIZES[name], seeded)
    return [(case, matches(case.events, case.lateness)) for case in cases]


SEEDS = (None, *range(ROUNDS))


@pytest.mark.parametrize("name", NAMES)
def test_well_over_a_third_of_the_subscriptions_have_matches(name: str) -> None:
    fired = sum(len({match[0] for match in found}) for _, found in collected(name))
    assert fired / sum(len(case.subscriptions) for case, _ in collected(name)) > 0.4


@pytest.mark.parametrize("name", NAMES)
def test_every_query_is_one(name: str) -> None:
    """The parser takes the text, and the normal form its names, windows and predicates."""
    for case, _ in collected(name):
        for subscription in case.subscriptions:
            text = subscription.query.text()
            normal = normalise(parse(text), text)
            assert len(normal.blocks) == len(blocks(subscription.query)), text


FEATURES = {
    "patterns": (
        *(
            " TO ",
            " TO INF}",
            "JOIN{",
            "FOLLOWED BY{",
            ", INF}",
            " ms}",
            ", 0}",
            "//*",
            "*:",
            "p:",
            "dc:",
            "/@",
            "//@",
        ),
        *("starts-with(", "contains(", "text()", " and ", " or ", "not(", " AND ", "!=", " < "),
    ),
    "histories": ("JOIN{", "FOLLOWED BY{"),
    "chains": ("JOIN{", "FOLLOWED BY{", "} (", ", INF}", " ms}", " ms TO ", "DISTINCT"),
    "residuals": (" OR ", " AND ", "not(", "contains(", " < ", " >= ", " + ", " != "),
    "functions": ("lower-case(", "normalize-space(", "substring-before(", "number("),
    "ordered": ("NEXT{", "NOT FOLLOWED BY{", " ELSE", "FOLD{", "$.k", " AS n", " TO "),
    "mixes": ("NEXT{", "NOT FOLLOWED BY{", " ELSE) ", " JOIN{", "(SELECT"),
    "published": ("PUBLISH P1", "PUBLISH P3", "<hit>", "JOIN{"),
    "waiting": ("NOT FOLLOWED BY{", " ELSE PUBLISH P1", "NEXT{"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_feature_occurs_in_a_query_that_has_matches(name: str) -> None:
    missing = set(FEATURES[name])
    for seeded in SEEDS:
        for case, found in collected(name, seeded) if missing else ():
            fired = {match[0] for match in found}
            for one in case.subscriptions:
                if one.name in fired:
                    missing -= {feature for feature in missing if feature in one.query.text()}
    assert missing == set()


# -- Planted faults: what is done wrong must show in some case -------------------------------

Patch: TypeAlias = tuple[ModuleType, str, Callable[..., object]]


def _shorter(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    window = None if operator.window is None else operator.window - 1
    return IN_TIME(replace(operator, window=window), a, b)


def _without_lower(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    return IN_TIME(replace(operator, lower=None), a, b)


def _open_below(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    lower = None if operator.lower is None else operator.lower + 1
    return IN_TIME(replace(operator, lower=lower), a, b)


def _overlapping(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    return IN_TIME(operator, a, b) or (
        a.t1 == b.t0 and isinstance(operator, FollowedBy) and bool(operator.window)
    )


def _by_arrival(a: Composite, b: Composite, window: int | None, late: int) -> bool:
    return KEPT(a, b, window, 0)


def _as_strings(operator: str, a: Value, b: Value, numeric: bool) -> bool:
    return COMPARES(operator, str(a), str(b), False)


def _as_texts(operator: str, a: Value, b: Value) -> bool:
    return COMPARES(operator, str(a), str(b), False)


def _as_numbers(operator: str, a: Value, b: Value) -> bool:
    return COMPARES(operator, a, b, True)


def _without_branches(node: Node, condition: Condition) -> Iterator[Binding]:
    return iter([{}]) if "->" not in condition.text() else WAYS(node, condition)


COMPARES, WAYS = formulas._compares, patterns.ways
VALUES, PLAIN = values, document_of
IN_TIME, KEPT = rows.in_time, rows.kept
ALWAYS: Callable[..., bool] = lambda *_: True  # noqa: E731
FAULTS: dict[str, tuple[Patch, str]] = {
    "window": ((rows, "in_time", _shorter), "chains"),
    "no lower bound": ((rows, "in_time", _without_lower), "chains"),
    "an open lower bound": ((rows, "in_time", _open_below), "chains"),
    "an answer before the lower bound": ((rows, "in_time", _without_lower), "ordered"),
    "absence at exactly T": ((rows, "in_time", _shorter), "ordered"),
    "simultaneous": ((rows, "in_time", _overlapping), "chains"),
    "nothing is forgotten": ((rows, "kept", ALWAYS), "chains"),
    "lateness": ((rows, "kept", _by_arrival), "residuals"),
    "the same document twice": ((rows, "_different", ALWAYS), "chains"),
    "nothing is late": ((rows, "_timely", lambda found, _: list(found)), "ordered"),
    "not the earliest": ((rows, "_earliest", lambda r, t: [b for b in r if t < b.t0]), "ordered"),
    "numbers as strings": ((formulas, "_compares", _as_strings), "functions"),
    "an order of texts": ((formulas, "_in_order", _as_texts), "residuals"),
    "an order of numbers": ((formulas, "_in_order", _as_numbers), "residuals"),
    "no order of dates": ((formulas, "moment", lambda _: None), "residuals"),
    "strings as numbers": ((formulas, "_is_number", ALWAYS), "residuals"),
    "a path as its first node": ((formulas, "values", lambda n, p: VALUES(n, p)[:1]), "chains"),
    "no predicate": ((rows, "holds", ALWAYS), "mixes"),
    "child as descendant": ((patterns, "children", descendants), "patterns"),
    "no conditions": ((patterns, "holds", ALWAYS), "patterns"),
    "no branches": ((patterns, "ways", _without_branches), "patterns"),
    "sides swapped": ((rows, "in_time", lambda o, a, b: IN_TIME(o, b, a)), "patterns"),
    "a version is another document": ((evaluation, "named", lambda _, i, __: i), "histories"),
    "nobody goes": ((evaluation, "Unsubscribe", Query), "histories"),
    "no constructor": (
        (evaluation, "document_of", lambda q, r: PLAIN(Query(q.expression), r)),
        "published",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_shows(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (module, name, wrong), where = FAULTS[fault]

    def shows(seeded: int | None) -> bool:
        cases = collected(where, seeded)  # before there is the fault
        with monkeypatch.context() as patched:
            patched.setattr(module, name, wrong)
            return any(matches(case.events, case.lateness) != found for case, found in cases)

    assert any(map(shows, SEEDS))
