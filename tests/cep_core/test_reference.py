"""The second opinion on aggregates, window joins and missing values, computed by hand.

`tests.golden.test_dissertation_3_2` has the worked examples of the other operators.
"""

from __future__ import annotations

from typing import Any

import pytest

from cep_core import algebra
from cep_core.algebra import Aggregate
from cep_core.algebra.expressions import (
    FUNCTIONS,
    TRUE,
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
from cep_core.events import Row, Schema
from tests.cep_core.reference import World, evaluate, holds, value

QUOTE = Schema(("Name", "Price"), (str, float))
STOCK = algebra.stream("Stock", QUOTE)
LATER = algebra.rename(STOCK, {"Name": "Name2", "Price": "Price2"})
NAME_1, PRICE_1 = Column(1, 0), Column(1, 1)
NAME_2, PRICE_2 = Column(2, 0), Column(2, 1)


def rows(*events: tuple[Any, ...]) -> list[Row]:
    """Return rows from (values..., t0, t1), numbered in order of arrival."""
    return [(e[-2], e[-1], number, *e[:-2]) for number, e in enumerate(events)]


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
