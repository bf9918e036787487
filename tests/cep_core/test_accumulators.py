"""Running aggregates equal aggregates computed anew."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from cep_core.decimals import CONTEXT, BoundedDecimal
from cep_core.operators.cayuga.accumulators import Total, result

HUGE = 10**400
DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1).map(
    lambda units: BoundedDecimal(Decimal(units).scaleb(-18, CONTEXT))
)


@given(
    function=st.sampled_from(["SUM", "AVG"]),
    numbers=st.lists(
        st.sampled_from([HUGE, -HUGE, 3, BoundedDecimal("0.1")]) | DECIMALS | st.floats(-9, 9),
        max_size=6,
    ),
)
@example("SUM", [HUGE, BoundedDecimal("0.1")])
def test_sums_with_decimals_are_exact_and_have_no_error(function: str, numbers: list[Any]) -> None:
    total = Total()
    for number in [*numbers, BoundedDecimal("0.2")]:
        total.enter(0, number, None)
    exact = sum(map(Fraction, numbers), Fraction("0.2"))
    if function == "AVG":
        exact /= len(numbers) + 1
    found, rounded = result(function, False, [total]), Fraction(round(exact * 10**18), 10**18)
    if abs(rounded) >= 10**20 or any(type(one) is float for one in numbers):
        try:
            assert found == float(exact)
        except OverflowError:
            assert found == (math.inf if exact > 0 else -math.inf)
    else:
        assert type(found) is BoundedDecimal
        assert Fraction(found) == rounded


@pytest.mark.parametrize("sign", [1, -1])
def test_arithmetic_of_a_decimal_and_a_huge_int_is_that_of_doubles(sign: int) -> None:
    one, huge = BoundedDecimal("1.5"), sign * HUGE
    assert one + huge == huge + one == huge - one == one * huge == sign * math.inf
    assert one / huge == 0
    assert math.isnan(huge % one)
    for number in (one, BoundedDecimal(0)):
        for divided in (operator.truediv, operator.mod):
            with pytest.raises(ZeroDivisionError):
                divided(number, 0)
