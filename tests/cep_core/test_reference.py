"""The second opinion on the worked examples of Hong 2009, section 3.2, computed by hand.

Two of its formulas are misprints: the average of 80 and 82 is 81, not 14.5, and the second formula
of section 3.3.4 that is printed S1;(S2;S3) is (S1;S2);S3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cep_core import algebra
from cep_core.algebra import Aggregate, Node
from cep_core.algebra.expressions import (
    FUNCTIONS,
    TRUE,
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Comparison,
    Constant,
    Duration,
    Expression,
    Missing,
    Negative,
    Not,
    Or,
    Parameter,
)
from cep_core.events import VALUES, Event, Row, Schema
from tests.cep_core.reference import Input, World, evaluate, holds, iterations, results, value

QUOTE = Schema(("Name", "Price"), (str, float))
STOCK = algebra.stream("Stock", QUOTE)
LATER = algebra.rename(STOCK, {"Name": "Name2", "Price": "Price2"})
NAME_1, PRICE_1 = Column(1, 0), Column(1, 1)
NAME_2, PRICE_2 = Column(2, 0), Column(2, 1)


def rows(*events: tuple[Any, ...]) -> list[Row]:
    """Return rows from (values..., t0, t1), numbered in order of arrival."""
    return [(e[-2], e[-1], number, *e[:-2]) for number, e in enumerate(events)]


def shown(found: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return rows as the dissertation prints them: (values..., t0, t1), sorted."""
    return sorted((*row[VALUES:], row[0], row[1]) for row in found)


def named(name: str) -> algebra.Select:
    return algebra.select(STOCK, Compare("=", NAME_2, Constant(name)))


def test_concatenation_of_two_events() -> None:
    """Section 3.2.2: both prices are kept here; overwriting is a projection above."""
    left = algebra.stream("A", Schema(("Name", "Price", "Vol"), (str, int, int)))
    right = algebra.stream("B", Schema(("company", "Price"), (str, int)))
    pair = algebra.sequence(left, right)
    streams = {"A": rows(("IBM", 85, 1000, 1, 1)), "B": rows(("MSFT", 27, 2, 3))}
    assert shown(evaluate(pair, streams)) == [("IBM", 85, 1000, "MSFT", 27, 1, 3)]
    assert pair.schema.names == ("Name_1", "Price_1", "Vol_1", "company", "Price")
    columns = [("Name", Column(2, 0)), ("Price", Column(2, 4)), ("Vol", Column(2, 2))]
    overwritten = algebra.project(pair, [*columns, ("company", Column(2, 3))])
    assert shown(evaluate(overwritten, streams)) == [("IBM", 27, 1000, "MSFT", 1, 3)]


def test_figure_3_1() -> None:
    """e2 overlaps e1; e3 begins before e4, but e4 ends first; e5 ends after e4."""
    first = algebra.stream("S1", Schema(("a",), (str,)))
    second = algebra.stream("S2", Schema(("b",), (str,)))
    streams = {
        "S1": rows(("e1", 1, 4)),
        "S2": rows(("e2", 3, 5), ("e3", 5, 9), ("e4", 6, 8), ("e5", 9, 10)),
    }
    assert shown(evaluate(algebra.sequence(first, second), streams)) == [("e1", "e4", 1, 8)]


def test_simultaneous_events_all_follow() -> None:
    streams = {"Stock": rows(("a", 1.0, 1, 1), ("b", 2.0, 3, 4), ("c", 3.0, 2, 4))}
    found = evaluate(algebra.sequence(named("a"), LATER), streams)
    assert shown(found) == [("a", 1.0, "b", 2.0, 1, 4), ("a", 1.0, "c", 3.0, 1, 4)]


ALERTS = rows(
    *[("a", 1.0, 1, 1), ("a", 2.0, 2, 3), ("b", 1.0, 3, 4), ("b", 1.0, 4, 6), ("b", 2.0, 3, 5)],
    ("a", 3.0, 6, 6),
)


def test_absence_and_its_complement() -> None:
    """In 3 ticks b(1) of [3, 4] answers a(1); b(2) begins too early for a(2), others differ."""
    same = Compare("=", PRICE_1, PRICE_2)
    silent = algebra.absence(named("a"), named("b"), same, Constant(3))
    assert silent.schema == QUOTE
    assert shown(evaluate(silent, {"Stock": ALERTS})) == [("a", 2.0, 2, 6), ("a", 3.0, 6, 9)]
    both = algebra.alternative(named("a"), named("b"), same, Constant(5))
    assert both.schema.names == ("Name_1", "Price_1", "Name", "Price")
    assert evaluate(both, {"Stock": ALERTS}) == [
        *[(1, 4, 0, "a", 1.0, "b", 1.0), (1, 6, 0, "a", 1.0, "b", 1.0)],
        *[(2, 8, 1, "a", 2.0, None, None), (6, 11, 5, "a", 3.0, None, None)],
    ]


def test_a_negated_end_of_sase() -> None:
    """WITHIN(SEQ(A, !B), T) at t: A at t - T + 1, no B until t.  That is an absence in T - 1."""
    streams = {"Stock": rows(("a", 1.0, 1, 1), ("b", 1.0, 4, 4), ("a", 1.0, 5, 5))}
    for within in (2, 3, 4, 5):
        negated_end = algebra.absence(named("a"), named("b"), TRUE, Constant(within - 1))
        found = [t1 for *_, t1 in shown(evaluate(negated_end, streams))]
        assert found == [a + within - 1 for a in (1, 5) if not (a < 4 <= a + within - 1)]


CROSSING = rows(
    *[("IBM", 99.0, 1, 1), ("IBM", 101.0, 2, 2), ("MSFT", 30.0, 3, 3), ("IBM", 102.0, 4, 4)],
    *[("IBM", 98.0, 5, 5), ("MSFT", 40.0, 6, 6), ("IBM", 103.0, 7, 7)],
)


def test_example_2_just_crossed_above_100() -> None:
    pair = algebra.sequence(
        named("IBM"), algebra.rename(named("IBM"), {"Name": "Name2", "Price": "Price2"})
    )
    low = Compare("<=", Column(2, 1), Constant(100.0))
    high = Compare(">", Column(2, 3), Constant(100.0))
    found = evaluate(algebra.select(pair, And((low, high))), {"Stock": CROSSING})
    assert shown(found) == [("IBM", 98.0, "IBM", 103.0, 5, 7), ("IBM", 99.0, "IBM", 101.0, 1, 2)]


def test_example_3_five_percent_above_the_previous_of_that_stock() -> None:
    pair = algebra.sequence(STOCK, LATER, Compare("=", NAME_1, NAME_2))
    raised = Arithmetic("*", Constant(1.05), Column(2, 1))
    query = algebra.select(pair, Compare("<=", raised, Column(2, 3)))
    found = evaluate(query, {"Stock": CROSSING})
    assert shown(found) == [("IBM", 98.0, "IBM", 103.0, 5, 7), ("MSFT", 30.0, "MSFT", 40.0, 3, 6)]


def test_a_selection_above_is_no_condition_of_the_sequence() -> None:
    """Section 3.2.2, "Understanding Sequencing": the stocks are interleaved."""
    streams = {"Stock": rows(("IBM", 1.0, 1, 1), ("MSFT", 2.0, 2, 2), ("IBM", 3.0, 3, 3))}
    above = algebra.select(algebra.sequence(STOCK, LATER), Compare("=", Column(2, 0), Column(2, 2)))
    inside = algebra.sequence(STOCK, LATER, Compare("=", NAME_1, NAME_2))
    assert evaluate(above, streams) == []
    assert shown(evaluate(inside, streams)) == [("IBM", 1.0, "IBM", 3.0, 1, 3)]


RISING = rows(
    *[("IBM", 80, 1, 1), ("Dell", 22, 2, 2), ("IBM", 82, 3, 3)],
    *[("Dell", 24, 4, 4), ("IBM", 84, 5, 5), ("Dell", 22, 6, 6)],
)
RISE = algebra.iterate(
    STOCK, STOCK, Compare("=", Column(1, 0), NAME_2), Compare(">", PRICE_2, Column(1, 3))
)


def test_iteration_with_its_intermediate_sets() -> None:
    """Section 3.2.3, "Understanding Iteration"."""
    sets = [shown(found) for found in iterations(RISE, {"Stock": RISING})]
    assert RISE.schema.names == ("Name_1", "Price_1", "Name", "Price")
    assert sets == [
        [
            *[("Dell", 22, "Dell", 22, 2, 2), ("Dell", 22, "Dell", 22, 6, 6)],
            *[("Dell", 24, "Dell", 24, 4, 4), ("IBM", 80, "IBM", 80, 1, 1)],
            *[("IBM", 82, "IBM", 82, 3, 3), ("IBM", 84, "IBM", 84, 5, 5)],
        ],
        [
            *[("Dell", 22, "Dell", 24, 2, 4), ("IBM", 80, "IBM", 82, 1, 3)],
            ("IBM", 82, "IBM", 84, 3, 5),
        ],
        [("IBM", 80, "IBM", 84, 1, 5)],
    ]
    assert shown(evaluate(RISE, {"Stock": RISING})) == sorted(sets[1] + sets[2])


def test_example_4_a_run_that_lasts() -> None:
    lasting = algebra.select(RISE, Compare(">=", Duration(), Constant(4)))
    assert shown(evaluate(lasting, {"Stock": RISING})) == [("IBM", 80, "IBM", 84, 1, 5)]


def test_attribute_introduction() -> None:
    """Section 3.2.4; the average is printed as 14.5."""
    pair = algebra.sequence(STOCK, LATER, Compare("=", NAME_1, NAME_2))
    half = Arithmetic("/", Arithmetic("+", Column(2, 1), Column(2, 3)), Constant(2))
    names = ["Name", "Price", "Name2", "Price2"]
    kept: list[tuple[str, Expression]] = [(name, Column(2, i)) for i, name in enumerate(names)]
    query = algebra.project(pair, [*kept, ("AVG", half), ("lacking", Missing())])
    streams = {"Stock": rows(("IBM", 80, 1, 1), ("IBM", 82, 3, 3))}
    assert [row[VALUES:] for row in evaluate(query, streams)] == [
        ("IBM", 80, "IBM", 82, 81.0, None)
    ]


def yearly_average(weeks: int, filter: Expression) -> algebra.Select:
    """Formula (3.3) over the quotes of a stock, with AVG and COUNT carried along."""
    begun = algebra.project(
        STOCK, [("Name", NAME_2), ("Price", PRICE_2), ("AVG", PRICE_2), ("COUNT", Constant(1))]
    )
    average, count = Column(1, 6), Column(1, 7)
    more = Arithmetic("+", count, Constant(1))
    total = Arithmetic("+", Arithmetic("*", count, average), PRICE_2)
    accumulated = [("AVG", Arithmetic("/", total, more), float), ("COUNT", more, int)]
    running = algebra.iterate(begun, STOCK, filter, TRUE, accumulated)
    return algebra.select(running, Compare("=", Duration(), Constant(weeks)))


def test_example_5_above_the_average_of_so_many_weeks() -> None:
    """In small: quotes of IBM only, four weeks, one tick a week."""
    prices = [10.0, 20.0, 30.0, 20.0, 40.0, 25.0, 50.0]
    streams = {"Stock": rows(*[("IBM", price, t, t) for t, price in enumerate(prices)])}
    average = yearly_average(4, TRUE)
    found = evaluate(average, streams)
    means = [(row[0], row[1], row[VALUES + 6], row[VALUES + 7]) for row in found]
    assert sorted(means) == [(0, 4, 24.0, 5), (1, 5, 27.0, 5), (2, 6, 33.0, 5)]
    above = algebra.sequence(average, LATER)
    query = algebra.select(above, Compare(">", Column(2, 9), Column(2, 6)))
    assert [(row[0], row[1], row[-1]) for row in evaluate(query, streams)] == [
        (0, 5, 25.0),
        (1, 6, 50.0),
    ]


def test_example_9_the_stock_with_the_largest_average() -> None:
    """β with an anchor event: the averages are made simultaneous by the Google quote."""
    same = Compare("=", Column(1, 0), NAME_2)
    streams = {
        "Stock": rows(
            *[("IBM", 10.0, 1, 1), ("Dell", 30.0, 2, 2), ("IBM", 20.0, 3, 3)],
            *[("Dell", 50.0, 4, 4), ("Goog", 399.0, 5, 5), ("Goog", 401.0, 6, 6)],
        )
    }
    dear = And((Compare("=", NAME_2, Constant("Goog")), Compare(">", PRICE_2, Constant(400.0))))
    anchored = algebra.sequence(yearly_average(2, same), LATER, dear)
    best = Aggregate("ARGMAX", Column(2, 0), Column(2, 6))
    least = Aggregate("MIN", Column(2, 6))
    query = algebra.instance_aggregate(anchored, (), [("stock", best), ("least", least)])
    assert len(evaluate(anchored, streams)) == 2
    assert evaluate(query, streams) == [(6, 6, 0, "Dell", 15.0)]


def test_sequencing_is_not_associative() -> None:
    """Section 3.3.4, the IBM, Microsoft and Dell quotes."""
    streams = {
        "Stock": rows(("IBM", 80, 1, 1), ("MSFT", 50, 2, 2), ("MSFT", 49, 3, 3), ("Dell", 24, 4, 4))
    }

    def column_names(node: Node, suffix: str) -> Node:
        return algebra.rename(node, {name: name + suffix for name in node.schema.names})

    ibm, msft, dell = (column_names(named(n), n) for n in ("IBM", "MSFT", "Dell"))
    nested = algebra.sequence(ibm, algebra.sequence(msft, dell))
    chained = algebra.sequence(algebra.sequence(ibm, msft), dell)
    assert shown(evaluate(algebra.sequence(msft, dell), streams)) == [
        ("MSFT", 49, "Dell", 24, 3, 4),
        ("MSFT", 50, "Dell", 24, 2, 4),
    ]
    assert shown(evaluate(nested, streams)) == [
        ("IBM", 80, "MSFT", 49, "Dell", 24, 1, 4),
        ("IBM", 80, "MSFT", 50, "Dell", 24, 1, 4),
    ]
    assert shown(evaluate(chained, streams)) == [("IBM", 80, "MSFT", 50, "Dell", 24, 1, 4)]


def test_instance_aggregate_by_epoch_and_group() -> None:
    streams = {
        "Stock": rows(
            *[("IBM", 1.0, 1, 2), ("IBM", 2.0, 2, 2), ("Dell", 5.0, 2, 2)],
            *[(None, 7.0, 3, 3), (None, None, 2, 3), ("IBM", None, 4, 4)],
        )
    }
    aggregates = [
        ("rows", Aggregate("COUNT", None)),
        ("values", Aggregate("COUNT", PRICE_2)),
        ("sum", Aggregate("SUM", PRICE_2)),
        ("mean", Aggregate("AVG", PRICE_2)),
    ]
    query = algebra.instance_aggregate(STOCK, (0,), aggregates)
    assert sorted(evaluate(query, streams), key=lambda row: row[2]) == [
        (2, 2, 0, "IBM", 2, 2, 3.0, 1.5),
        (2, 2, 2, "Dell", 1, 1, 5.0, 5.0),
        (3, 3, 3, None, 2, 1, 7.0, 7.0),
        (4, 4, 5, "IBM", 1, 0, None, None),
    ]


def test_window_aggregate_leaves_its_first_edge_out() -> None:
    streams = {"Stock": rows(("a", 1, 1, 1), ("a", 2, 3, 3), ("a", 4, 4, 4), ("a", 8, 4, 4))}
    total = Aggregate("SUM", PRICE_2)
    query = algebra.window_aggregate(STOCK, (), [("sum", total)], Constant(3))
    assert sorted(evaluate(query, streams)) == [
        (1, 1, 0, 1),
        (3, 3, 0, 3),
        (4, 4, 1, 14),
        (4, 4, 1, 14),
    ]


def test_argmin_takes_the_least_argument_among_equals() -> None:
    streams = {"Stock": rows(("b", 1, 1, 1), (None, 1, 1, 1), ("a", 1, 1, 1), ("0", None, 1, 1))}
    for function in ("ARGMIN", "ARGMAX"):
        one = Aggregate(function, NAME_2, PRICE_2)
        query = algebra.instance_aggregate(STOCK, (), [("name", one)])
        assert evaluate(query, streams) == [(1, 1, 0, "a")]


def test_window_join_holds_both_edges_and_either_order_but_not_an_event_with_itself() -> None:
    streams = {"Stock": rows(("a", 1, 1, 1), ("b", 2, 4, 4), ("c", 3, 0, 7), ("d", 4, 8, 8))}
    query = algebra.window_join(STOCK, LATER, Compare("<", PRICE_1, PRICE_2), Constant(3))
    assert sorted(evaluate(query, streams)) == [
        (0, 7, 1, "b", 2, "c", 3),
        (0, 8, 2, "c", 3, "d", 4),
        (1, 4, 0, "a", 1, "b", 2),
    ]
    reverse = algebra.window_join(STOCK, LATER, Compare(">=", PRICE_1, PRICE_2), Constant(3))
    assert len(evaluate(reverse, streams)) == 3


def test_union_adds() -> None:
    streams = {"Stock": rows(("a", 1, 1, 1))}
    assert evaluate(algebra.union(STOCK, STOCK), streams) == streams["Stock"] * 2


NAN = float("nan")
HELD = [
    ("=", 1, 1.0, True),
    ("=", None, None, False),
    ("!=", None, 1, False),
    ("!=", NAN, 1, False),
    ("!=", NAN, NAN, False),
    ("<", None, 1, False),
    (">=", 2, 1, True),
]


@pytest.mark.parametrize(("comparison", "left", "right", "expected"), HELD)
def test_an_atom_without_a_value_is_false_and_not_complements_it(
    comparison: Comparison, left: Any, right: Any, expected: bool
) -> None:
    atom = Compare(comparison, Column(1, 0), Column(2, 0))
    assert holds(atom, (0, 0, 0, left), (0, 0, 0, right), World({})) is expected
    assert holds(Not(atom), (0, 0, 0, left), (0, 0, 0, right), World({})) is not expected


FAILING: list[Expression] = [
    Arithmetic("/", Constant(1), Constant(0)),
    Arithmetic("%", Constant(1), Constant(0)),
    Arithmetic("+", Constant(None), Constant(1)),
    Negative(Missing()),
    Call("length", (Constant(None),)),
    Call("floor", (Constant(NAN),)),
]


@pytest.mark.parametrize("expression", FAILING)
def test_an_expression_that_fails_is_null(expression: Expression) -> None:
    world = World({})
    assert value(expression, None, (0, 0, 0), world) is None
    assert not holds(Compare("=", expression, expression), None, (0, 0, 0), world)
    assert holds(Not(Compare("<", expression, Constant(1))), None, (0, 0, 0), world)
    either = Or((Compare("<", expression, Constant(1)), TRUE))
    assert holds(either, None, (0, 0, 0), world)


def test_duration_and_parameters() -> None:
    world = World({}, (7,), FUNCTIONS)
    assert value(Duration(), None, (2, 5, 0), world) == 3
    assert value(Duration(), (1, 2, 0), (4, 5, 0), world) == 4
    assert value(Arithmetic("%", Parameter(0, int), Constant(4)), None, (0, 0, 0), world) == 3


def event(name: str, price: float, t0: int, t1: int | None = None) -> Event:
    return Event("Stock", (name, price), t0, t1)


def test_a_query_sees_what_arrives_after_its_registration() -> None:
    inputs = [event("a", 1, 1), event("b", 2, 2), event("c", 3, 3)]
    pairs = algebra.sequence(STOCK, LATER)
    totals = algebra.window_aggregate(STOCK, (), [("sum", Aggregate("SUM", PRICE_2))], Constant(9))
    assert [seen.row for seen in results(pairs, inputs, 1)] == [(2, 3, 1, "b", 2, "c", 3)]
    assert [seen.row[VALUES:] for seen in results(totals, inputs, 1)] == [(2,), (5,)]


def test_a_row_is_emitted_when_the_clock_passes_its_epoch_by_the_lateness() -> None:
    inputs: list[Input] = [event("a", 1, 1), event("b", 2, 2), event("c", 3, 3), 9]
    pairs = algebra.sequence(STOCK, LATER)
    moments = {seen.row[3]: seen.moment[0] for seen in results(pairs, inputs)}
    assert moments == {"a": 2, "b": 3}
    patient = {seen.row[3]: seen.moment[0] for seen in results(pairs, inputs, 0, {"Stock": 6})}
    assert patient == {"a": 3, "b": float("inf")}


def test_a_late_event_is_lost_for_ordered_operators_only() -> None:
    inputs = [event("a", 1, 5), event("late", 2, 3), event("c", 3, 6)]
    pairs = algebra.sequence(STOCK, LATER)
    assert [seen.row[3] for seen in results(pairs, inputs)] == ["a"]
    assert [seen.row[3] for seen in results(pairs, inputs, 0, {"Stock": 2})] == ["a", "late"]
    assert len(results(STOCK, inputs)) == 3


def test_a_join_meets_what_is_kept() -> None:
    """Of a newcomer n: M(n) <= o.t1 + window + L."""
    inputs = [event("o", 1, 1), event("clock", 2, 6), event("n", 3, 3)]
    near = algebra.window_join(
        named("o"), algebra.rename(named("n"), {"Name": "n", "Price": "p"}), TRUE, Constant(4)
    )
    assert results(near, inputs) == []
    assert [seen.row for seen in results(near, inputs, 0, {"Stock": 1})] == [
        (1, 3, 0, "o", 1, "n", 3)
    ]
