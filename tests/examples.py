"""The number of cases of properties.

In a run of all tests a quarter of them, so that it ends within five minutes. XSCL_EXAMPLES=8 in the
environment stands for eight times as many, and `make test-slow` tries every property so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

T = TypeVar("T")
MORE = int(os.environ.get("XSCL_EXAMPLES", "1"))
FEW = 2
"""Cases that the usual run tries at least, if there are so many."""

USUAL = 50
"""Cases of a property that says nothing itself."""


def tried(number: int) -> int:
    """Return the number of cases that this run tries: a quarter, or XSCL_EXAMPLES times as many."""
    return number * MORE if MORE > 1 else min(number, max(FEW, number // 4))


def examples(number: int, *, all_of_them: bool = False) -> settings:
    """Return settings for so many cases of a property; `all_of_them` in the usual run as well."""
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=number * MORE if all_of_them else tried(number),
        deadline=None,
        suppress_health_check=slow,
    )


def usually(values: Iterable[Any], *usual: Any, several: bool = False) -> list[Any]:
    """Return the values of a parameter of a test, all but the usual ones marked as slow.

    For expensive tests whose variants differ little: some represent all.  Each
    value is a tuple of `several` parameters, or of one.
    """
    known = list(values)
    assert all(one in known for one in usual), usual
    return [
        pytest.param(
            *(one if several else (one,)), marks=() if one in usual else (pytest.mark.slow,)
        )
        for one in known
    ]


ROUNDS = 12
"""Seeds to try for what is seldom."""


def until(enough: Callable[[], bool], agrees: Callable[[], None]) -> None:
    """Try a property with cases of other seeds, a few times, until they were `enough`.

    What is seldom may not have occurred in few cases.
    """
    for number in range(ROUNDS):
        if enough():
            return
        seed(number)(agrees)()


def demand(enough: Callable[[], bool], agrees: Callable[[], None]) -> None:
    """Fail in a slow run unless its cases are `enough`, or become so with other seeds.

    The few cases of the usual run need not have what is seldom.
    """
    if MORE > 1:
        until(enough, agrees)
        assert enough()


def cases_of(strategy: st.SearchStrategy[T], size: int, seeded: int | None = None) -> list[T]:
    """Return so many cases of a strategy, drawn from the seed given or from a fixed one.

    Two runs may still differ: Hypothesis also draws constants that it reads in the modules
    imported so far, and these depend on the order of the tests.  A test that needs something to
    occur therefore tries the ROUNDS one after the other.
    """
    collected = list[T]()

    @settings(
        max_examples=size,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: T) -> None:
        collected.append(case)

    (collect if seeded is None else seed(seeded)(collect))()
    return collected
