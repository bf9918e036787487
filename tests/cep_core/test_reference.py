"""The second opinion on aggregates, window joins and missing values, computed by hand.

`tests.golden.test_dissertation_3_2` has the worked examples of the other operators.
"""

from __future__ import annotations

from typing import Any

from cep_core import algebra
from cep_core.algebra import Aggregate
from cep_core.algebra.expressions import (
    Column,
    Compare,
    Constant,
)
from cep_core.events import Row, Schema
from tests.cep_core.reference import evaluate

QUOTE = Schema(("Name", "Price"), (str, float))
STOCK = algebra.stream("Stock", QUOTE)
LATER = algebra.rename(STOCK, {"Name": "Name2", "Price": "Price2"})
NAME_1, PRICE_1 = Column(1, 0), Column(1, 1)
NAME_2, PRICE_2 = Column(2, 0), Column(2, 1)


def rows(*events: tuple[Any, ...]) -> list[Row]:
    """Return rows from (values..., t0, t1), numbered in order of arrival."""
    return [(e[-2], e[-1], number, *e[:-2]) for number, e in enumerate(events)]


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
