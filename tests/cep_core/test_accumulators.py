"""Running aggregates equal aggregates computed anew."""

from __future__ import annotations

from fractions import Fraction
from math import isinf, isnan
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from cep_core.operators.cayuga.accumulators import Best, Total, accumulator, result

VALUES = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
)


def anew(function: str, rows: list[tuple[Any, Any]]) -> Any:
    """The aggregate of (argument, by) from its definition; sums are exact and rounded once."""
    proper = [value for value, _ in rows if value is not None and value == value]
    if function == "COUNT":
        return len(proper)
    if function in ("SUM", "AVG"):
        if not proper:
            return None
        infinite = {value for value in proper if isinf(value)}
        if infinite:
            return sum(infinite)
        exact = sum((Fraction(value) for value in proper), Fraction(0))
        try:
            if function == "AVG":
                return float(exact / len(proper))
            return int(exact) if all(type(value) is int for value in proper) else float(exact)
        except OverflowError:
            return float("inf") if exact > 0 else float("-inf")
    if function in ("MIN", "MAX"):
        return {"MIN": min, "MAX": max}[function](proper, default=None)
    by = [b for _, b in rows if b is not None and b == b]
    if not by:
        return None
    best = min(by) if function == "ARGMIN" else max(by)
    arguments = [a for a, b in rows if b == best and a is not None and a == a]
    return min(arguments, default=None)


FUNCTIONS = ["COUNT", "SUM", "AVG", "MIN", "MAX", "ARGMIN", "ARGMAX"]


@given(
    function=st.sampled_from(FUNCTIONS),
    parts=st.lists(st.lists(st.tuples(VALUES, VALUES), max_size=8), min_size=1, max_size=3),
    data=st.data(),
)
def test_window_equals_anew(
    function: str, parts: list[list[tuple[Any, Any]]], data: st.DataObject
) -> None:
    held, kept = [], []
    for rows in parts:
        running = accumulator(function)
        left = data.draw(st.integers(0, len(rows)))
        for number, (argument, by) in enumerate(rows):
            if isinstance(running, Total):
                running.enter(argument)
            else:
                decides = by if function.startswith("ARG") else argument
                running.enter(number, decides, argument)
        for number, (argument, _) in enumerate(rows[:left]):
            if isinstance(running, Best):
                running.leave(number)
            else:
                running.leave(argument)
        held.append(running)
        kept += rows[left:]
    found, expected = result(function, False, held), anew(function, kept)
    if isinstance(expected, float) and isnan(expected):
        assert isnan(found)
    else:
        assert found == expected


def test_count_of_rows_counts_nulls_too() -> None:
    total = Total()
    total.enter(None)
    assert result("COUNT", True, [total]) == 1
    assert result("COUNT", False, [total]) == 0


def test_sums_do_not_drift() -> None:
    total = Total()
    for number in range(10_000):
        total.enter(0.1)
        if number >= 10:
            total.leave(0.1)
    assert result("SUM", False, [total]) == 1.0
