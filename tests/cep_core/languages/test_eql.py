r"""EQL beside what the definitions say: sharing, time, other languages, what stays in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cep_core
from cep_core.events import Event
from cep_core.rewrite.cost import Estimate, followed, of_source, optimal_next
from tests.cep_core.engines import engine_with, values_found

AMOUNT: Mapping[str, type] = {"acc": str, "amount": float}


def engine(**streams: Mapping[str, type]) -> cep_core.Engine:
    return engine_with(streams)


def found(core: cep_core.Engine, query: str, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return values_found(core, query, events, "eql")


def pay(account: str, amount: float | None, time: int, stream: str = "t") -> Event:
    return Event(stream, (account, amount), time)


# -- SELECT --------------------------------------------------------------------------------


def test_items_of_select() -> None:
    core = engine(t=AMOUNT)
    query = "SELECT A.acc, A.amount + B.amount AS sum, B.acc AS other FROM t A ; t B"
    assert found(core, query, [pay("a", 1, 1), pay("b", 2, 2)]) == [("a", 3, "b")]
    assert core.query("q").schema.names == ("A_acc", "sum", "other")


# -- conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        *("A.amount / 0 > 1", "A.amount / 0 <> 1", "A.amount / (B.amount - 2) >= 0"),
        "-(A.amount / 0) < 1",
    ],
)
def test_what_is_undefined_makes_its_comparison_false(condition: str) -> None:
    events = [pay("a", 1, 1), pay("b", 2, 2)]
    query = f"SELECT * FROM t A ; t B WHERE {condition}"
    assert found(engine(t=AMOUNT), query, events) == []
    both = f"SELECT * FROM t A ; t B WHERE {condition} OR A.amount = 1"
    assert len(found(engine(t=AMOUNT), both, events)) == 1


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("ALL(A.acc) CONTAINS 'a'", [(("ab",), "ca"), (("ab", "ca"), "b"), (("ca",), "b")]),
        ("ALL(A.acc) > B.acc", [(("ca",), "b")]),
        ("ALL(A.acc) <> B.acc OR B.acc = 'b'", None),
        ("NOT ALL(A.acc) > B.acc, A[1].acc = 'ab'", [(("ab",), "ca"), (("ab", "ca"), "b")]),
    ],
)
def test_all_of_a_run_is_each_of_its_events(
    condition: str, rows: list[tuple[Any, ...]] | None
) -> None:
    events = [pay("ab", 1, 1), pay("ca", 1, 2), pay("b", 1, 3)]
    text = "SELECT ALL(A.acc) AS ids, B.acc FROM t A+ ; t B"
    every = found(engine(t=AMOUNT), text, events)
    assert sorted(found(engine(t=AMOUNT), f"{text} WHERE {condition}", events)) == sorted(
        every if rows is None else rows
    )


# -- alternatives --------------------------------------------------------------------------


def test_a_name_is_a_run_or_an_event() -> None:
    with pytest.raises(cep_core.QueryError, match="two components are called A"):
        engine(t=AMOUNT).register("q", "SELECT A.acc FROM t A | (t A)+", "eql")


def test_a_chain_of_times_is_as_large_as_its_text() -> None:
    """Each of them once doubled the algebra."""
    query = "SELECT A.acc FROM t A" + " @ 1 s" * 90
    assert found(engine(t=AMOUNT), query, [pay("a", 1, 1)]) == [("a",)]


# -- the plan ------------------------------------------------------------------------------


def test_queries_of_one_shape_are_prepared_once_and_share_what_is_equal() -> None:
    core = engine(t=AMOUNT)
    text = "SELECT * FROM t A ; t B WHERE FILTER(A.acc = B.acc), B.amount > {}"
    for number in range(50):
        core.register(f"q{number}", text.format(number), language="eql")
    assert len({id(core.query(name).compiled) for name in core.queries}) == 1
    stats = core.stats()
    assert stats["operators"] == 1 + 2 * 50
    for name in core.queries:
        core.unregister(name)
    left = core.stats()
    assert left["operators"] == left["mops"] == left["channels"] == left["index_entries"] == 0


def test_explain() -> None:
    core = cep_core.Engine(ticks_per_second=1)
    for name, rate in (("a", 64.0), ("b", 1.0), ("c", 32.0), ("z", 2.0)):
        core.stream(name, {"x": int}, rate=rate)
    query = (
        r"SELECT A.x, C.x FROM (a A ; b B ; c C) \ z Z"
        " WHERE Z.x = A.x, A.x < 5, (A, C) OCCURS WITHIN 1 min"
    )
    core.register("q", query, language="eql")
    core.register("pair", "SELECT * FROM a A ; b B WHERE A.x < 5", "eql")
    assert core.explain("q") == "\n".join(
        [
            "q (query 0, eql) reads a, b, c, z",
            "  pattern_match#1.0  PATTERN(a, b, c \\ z) {4.x = 1.x} ended unless"
            " {1.x < 5 AND (3.end - 1.start) <= 60} next within <= 1 min",
            "      reads a, b, c, z; used by this query only",
            "      runs of an automaton of 4 states",
            "  output  q(A_x int, C_x int)",
            "  PATTERN: a.t1 < b.t0, last.t1 - first.t1 < T (simultaneous events neither follow nor"
            " block one another; T itself counts with <= T, touching intervals with NONSTRICT; null"
            " neither holds nor blocks)",
        ]
    )
    assert core.explain("pair") == "\n".join(
        [
            "pair (query 1, eql) reads a, b",
            "  select#2.0  FILTER{x < 5}",
            "      reads a; used by this query only",
            "      predicate index: sorted list on an inequality",
            "  sequence#3.0  NEXT{TRUE}",
            "      reads select#2.0, b; used by this query only",
            "  project#4.0  SELECT 1.x AS A_x, 2.x AS B_x",
            "      reads sequence#3.0; used by this query only",
            "  output  pair(A_x int, B_x int)",
            "  NEXT: a.t1 < b.t0, b.t1 the smallest such (the earliest later b that satisfies the"
            " predicate, all of them if simultaneous)",
        ]
    )


def test_a_restored_engine_has_the_rates_of_its_streams() -> None:
    core = engine(z={"x": int})
    rates = {"a": 64.0, "b": 1.0, "c": 32.0}
    for stream, rate in rates.items():
        core.stream(stream, {"x": int}, rate=rate)
    core.register("one", "SELECT * FROM a ; b ; c WHERE a.x > 1", language="eql")
    core.push([Event("z", (0,), time) for time in range(30)])
    core.register("two", "SELECT * FROM a ; b ; c WHERE a.x > 2", language="eql")
    assert core.query("one").compiled is core.query("two").compiled
    restored = cep_core.Engine.restore(core.snapshot())
    assert restored.rates == core.rates == rates
    assert restored.explain("two") == core.explain("two")
    restored.register("three", "SELECT * FROM a ; b ; c WHERE a.x > 3", language="eql")
    assert "NEXT FIRST" in restored.explain("three")


def test_rewriting_can_be_switched_off() -> None:
    core = cep_core.Engine(ticks_per_second=1, options=cep_core.Options(rewriting=False))
    for name, rate in (("a", 64.0), ("b", 1.0), ("c", 32.0)):
        core.stream(name, {"x": int}, rate=rate)
    core.register("q", "SELECT * FROM a ; b ; c", language="eql")
    assert "NEXT FIRST" not in core.explain("q")


@given(st.lists(st.sampled_from([1.0, 3.0, 8.0, 40.0, 128.0]), min_size=2, max_size=6))
@settings(max_examples=60)
def test_no_form_of_a_sequence_is_cheaper_than_the_optimal_one(rates: list[float]) -> None:
    """Every form is tried; Figure 5 finds one that is not cheaper."""
    known = [of_source(rate) for rate in rates]

    def forms(first: int, last: int) -> list[Estimate]:
        if first == last:
            return [known[first]]
        return [
            followed(one, other)
            for middle in range(first, last)
            for one, other in product(forms(first, middle), forms(middle + 1, last))
        ]

    best = min(one.cost for one in forms(0, len(rates) - 1))
    assert optimal_next(known, known, followed).cost == best
    assert optimal_next(known, known, followed, 1).cost >= best


# -- time and memory -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t A ; u B ; u C WHERE (A, C) OCCURS WITHIN 10 s",
        "SELECT * FROM t A ; (t B ; u C) WHERE (A, C) OCCURS WITHIN 10 s",
        "SELECT * FROM (t A ; t B) ; u C WHERE (B, C) OCCURS WITHIN 10 s",
        "SELECT * FROM t A+ ; u C WHERE (A, C) OCCURS WITHIN 10 s, PREV(A.acc) <> A.acc",
        "SELECT * FROM t A ; (t B ; u C) WHERE FILTER((A, C) OCCURS WITHIN 10 s OR"
        " (A, C) OCCURS WITHIN 5 s AND A.acc = C.acc)",
        r"SELECT * FROM (t A @ 10 s) \ u C WHERE A.acc = C.acc",
        r"SELECT * FROM (t A ; u B) \ (t Z @ 10 s)",
        r"SELECT * FROM (t A ; u B) \ (t Z @ 10 s) WHERE A.acc = Z.acc",
        r"SELECT * FROM t A ; !u Z ; (t B @ 2 s) WITHIN 9 s",
    ],
)
def test_memory_is_bounded_over_ten_windows(query: str) -> None:
    """The second stream never comes: only time can end what waits."""
    core = engine(t=AMOUNT, u=AMOUNT)
    core.register("q", query, language="eql")
    kept = []
    for second in range(110):
        core.push([pay(str(second % 3), 1, second)])
        kept.append(core.stats()["instances"])
    assert max(kept[:30]) > 0
    assert max(kept[30:]) <= max(kept[:30])


def test_an_alias_after_as_is_refused_with_what_to_write() -> None:
    core = cep_core.Engine()
    core.stream("t", {"acc": str})
    with pytest.raises(cep_core.QueryError, match="not 'AS'") as caught:
        core.register("q", "SELECT * FROM t AS a ; t AS b", language="eql")
    assert caught.value.hint == "an alias stands right after its stream: t A"


def test_what_ends_a_time_may_read_when_its_event_was() -> None:
    r"""(E @ t) \ Z: Z is compared with times of E that the result does not have."""
    core = engine(t=AMOUNT, u=AMOUNT)
    query = (
        r"SELECT A.acc FROM (t A @ 9 s) \ u Z \ t Y WHERE (A, Z) OCCURS WITHIN 3 s, Y.amount > 5"
    )
    events = [pay("a", 1, 0), pay("z", 1, 3, "u"), pay("b", 1, 4), pay("z", 1, 8, "u")]
    assert found(core, query, [*events, pay("c", 6, 12), pay("d", 1, 14)]) == [("c",), ("d",)]
    again = engine(t=AMOUNT, u=AMOUNT)
    assert found(again, query, events) == [("b",)]
