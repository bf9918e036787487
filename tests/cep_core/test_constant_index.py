"""The constant index finds the queries whose constants satisfy a condition, as one by one."""

from __future__ import annotations

from math import inf, nan
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core.algebra import expressions as ex
from cep_core.dataflow import code
from cep_core.dataflow.constant_index import ConstantIndex, ConstantTest, constants_in

VALUES: list[Any] = [0, 1, -1, 3, 2**53, -(2**60), 10**309, 0.0, -0.0, 0.5, -2.0, 1e308, 5e-324]
SEEN = [*VALUES, inf, -inf, nan, None]
COLUMNS = 2
SLOTS = 3
leaves = st.one_of(
    st.builds(ex.Column, st.just(2), st.integers(0, COLUMNS - 1)),
    st.builds(ex.Parameter, st.integers(0, SLOTS - 1), st.just(float)),
)
sides = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.builds(ex.Negative, below),
        st.builds(ex.Arithmetic, st.sampled_from("+-*/%"), below, below),
    ),
    max_leaves=3,
)
conditions = st.builds(ex.Compare, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), sides, sides)


class Asked(NamedTuple):
    """A row, and the queries that are asked about."""

    row: tuple[Any, ...]
    mask: int


def read(node: ex.Expression) -> ConstantTest:
    holds = code.condition(node, ex.FUNCTIONS, False)
    return ConstantTest(lambda cells, row, k: holds(None, row, k), *constants_in(node))


def one_by_one(
    tests: list[ConstantTest], queries: list[tuple[Any, ...]], asked: Asked, gone: int
) -> int:
    return sum(
        1 << query
        for query, constants in enumerate(queries)
        if asked.mask >> query & 1
        and not gone >> query & 1
        and all(test.holds((), asked.row, constants) for test in tests)
    )


@given(
    st.lists(conditions, min_size=1, max_size=2),
    st.lists(st.tuples(*[st.sampled_from(VALUES)] * SLOTS), min_size=1, max_size=12),
    st.lists(
        st.builds(
            Asked,
            st.tuples(*[st.just(0)] * 3, *[st.sampled_from(SEEN)] * COLUMNS),
            st.integers(0, 2**12 - 1),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 2**12 - 1),
)
def test_the_index_answers_as_each_query_would(
    nodes: list[ex.Expression],
    queries: list[tuple[Any, ...]],
    asked: list[Asked],
    gone: int,
) -> None:
    index, tests = ConstantIndex(), [read(node) for node in nodes]
    for query, constants in enumerate(queries):
        index.add(constants, query)
    everyone = (1 << len(queries)) - 1
    for removed in (0, gone & everyone):
        for query in range(len(queries)):
            if removed >> query & 1:
                index.remove(query)
        for one in asked:
            one = one._replace(mask=one.mask & everyone & ~removed)
            found = index.holding(tests, (), one.row, one.mask)
            assert found == one_by_one(tests, queries, one, removed)


@pytest.mark.parametrize("number", [5, 1_000, 2_500])
def test_a_monotone_condition_is_tested_a_few_times(number: int) -> None:
    """Also where sums of queries are kept for each third place only."""
    calls = 0

    def counting(cells: Any, row: Any, k: Any) -> bool:
        nonlocal calls
        calls += 1
        return bool(row[3] > row[4] * k[0])

    product = ex.Arithmetic("*", ex.Column(2, 1), ex.Parameter(0, float))
    reads = constants_in(ex.Compare(">", ex.Column(2, 0), product))
    index, test = ConstantIndex(), ConstantTest(counting, *reads)
    for query in range(number):
        index.add((1 + query, "other"), query)
    everyone = (1 << number) - 1
    for last in {0, 1, number // 2, number - 1, number}:
        calls = 0
        found = index.holding([test], (), (0, 0, 0, 10 * last + 5, 10), everyone)
        assert found == (1 << last) - 1
        assert calls <= 14


def test_in_what_a_condition_is_monotone() -> None:
    c, d, x = ex.Parameter(0, float), ex.Parameter(1, float), ex.Column(2, 0)

    def monotone(left: ex.Expression, operator: ex.ComparisonOperator = "<") -> tuple[int, ...]:
        return constants_in(ex.Compare(operator, left, x))[1]

    assert monotone(c) == monotone(ex.Arithmetic("/", c, x)) == monotone(ex.Negative(c)) == (0,)
    assert monotone(ex.Arithmetic("-", x, c)) == (0,)
    assert monotone(ex.Arithmetic("*", c, d)) == (0, 1)
    assert monotone(c, "=") == monotone(c, "!=") == ()
    assert monotone(ex.Arithmetic("/", x, c)) == monotone(ex.Arithmetic("%", c, x)) == ()
    assert monotone(ex.Arithmetic("*", c, c)) == ()
