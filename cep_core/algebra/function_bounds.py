"""Bounds of what functions of queries make, and of their work.

A text that a function or `+` makes is at most `LONGEST` characters long, or as long as its longest
argument.  Work is counted in steps of some microseconds: a replaced or cut part of a text is a
step, and so are `SHARE` characters of a text that is read.  All functions of one evaluation of an
expression share one budget.  Whatever is beyond a bound raises `BeyondBounds` before it is made.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LONGEST = 1_000_000
"""Characters of a text that a function makes, at most, unless an argument is longer."""
LARGEST = 1_000
"""Decimal digits of a whole number that arithmetic makes."""
ITEMS = 10_000
"""Items of a list that + makes."""
STEPS = 100_000
"""The budget of steps for all functions of one evaluation of an expression."""
SHARE = 128
"""Characters of a text that are read in one step."""
_BITS = LARGEST * 10 // 3
_log = logging.getLogger(__name__)


class BeyondBounds(ValueError):
    """The result of a function, or its work, would be over a bound."""


class Budget:
    """The steps that are left to the functions of an evaluation."""

    __slots__ = ("left",)

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Count steps; raise BeyondBounds if there are too few left."""
        self.left -= steps
        if self.left < 0:
            raise BeyondBounds(f"functions with over {STEPS:,} steps")


class _Current(threading.local):
    budget: Budget | None = None


_current = _Current()


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Give the functions of this thread one budget while the block runs."""
    before, _current.budget = _current.budget, budget
    try:
        yield
    finally:
        _current.budget = before


def current_budget() -> Budget:
    """Return the budget of the evaluation in this thread; without one, a budget of `STEPS`."""
    return _current.budget or Budget()


def read(text: str) -> None:
    """Spend steps of the current budget for reading a text."""
    if len(text) > SHARE:
        current_budget().spend(len(text) // SHARE)


def expect_length(length: int, longest: int) -> None:
    """Raise BeyondBounds for a text above `LONGEST` that is longer than the `longest` argument."""
    if length > LONGEST and length > longest:
        raise BeyondBounds(f"a text of over {LONGEST:,} characters")


def within_bounds(value: Any) -> Any:
    """Return a value that arithmetic has made; raise BeyondBounds for one that is too large."""
    match value:
        case float():
            pass
        case int() if value.bit_length() > _BITS:
            raise BeyondBounds(f"a number of over {LARGEST:,} digits")
        case tuple() if len(value) > ITEMS:
            raise BeyondBounds(f"a list of over {ITEMS:,} items")
    return value


def added(one: Any, other: Any) -> Any:
    """Return `one + other`, of numbers, texts or lists."""
    if type(one) is str and type(other) is str:
        expect_length(len(one) + len(other), max(len(one), len(other)))
    elif type(one) is tuple and type(other) is tuple and len(one) + len(other) > ITEMS:
        raise BeyondBounds(f"a list of over {ITEMS:,} items")
    return one + other


_given_up: dict[str, int] = {}
_MOST_GIVEN_UP = 10_000


def report(what: str, error: BeyondBounds) -> None:
    """Log that the text ``what`` was not evaluated: only the 1st, 10th, 100th ... time of each."""
    if len(_given_up) > _MOST_GIVEN_UP:
        _given_up.clear()
    count = _given_up[what] = _given_up.get(what, 0) + 1
    if str(count).strip("0") == "1":
        _log.warning("not evaluated: %.1000s: %s (%d times so far)", what, error, count)
