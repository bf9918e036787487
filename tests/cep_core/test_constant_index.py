"""The constant index finds the queries whose constants satisfy a condition, as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from cep_core.algebra import expressions as ex
from cep_core.dataflow.constant_index import ConstantIndex, ConstantTest, constants_in


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
