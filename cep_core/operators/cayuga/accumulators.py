"""Running aggregates over a window: rows enter at one end and leave at the other.

Sums are exact: a float is a whole number of 2**-1074, so a sum is an integer and is rounded once,
when it is read.  A decimal is a whole number of 10**-18, and so is a sum of decimals.  The result
depends neither on the order of rows nor on who shares the sum, and nothing drifts however long the
stream.  MIN, MAX, ARGMIN and ARGMAX keep the rows that can still become the best (a monotone
queue), amortised constant time for each row.
What cannot be compared with the best so far is passed over, as null is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf, isinf, nan
from typing import Any, TypeAlias

from cep_core.decimals import DIGITS_AFTER, BoundedDecimal, of_units, quotient, units_of

_SHIFT = 1074  # the smallest float is 2**-1074
_UNITS = 10**DIGITS_AFTER  # of decimals in 1


class Total:
    """The accumulator of COUNT, SUM and AVG."""

    __slots__ = ("decimals", "floats", "infinities", "rows", "scaled", "units", "values")

    def __init__(self) -> None:
        self.rows = 0
        self.values = 0  # the number of values that are neither null nor NaN
        self.floats = 0
        self.decimals = 0
        self.scaled = 0  # the sum of integers and floats, in units of 2**-1074
        self.units = 0  # the sum of decimals, in units of 10**-18
        self.infinities = [0, 0]  # negative, positive

    def enter(self, number: int, argument: Any, by: Any) -> None:
        """Add the argument of a row; its serial `number` and its `by` are used by `Best` only."""
        self._change(argument, 1)

    def leave(self, number: int, argument: Any) -> None:
        """Remove an argument that `enter` has added, whatever the number of its row."""
        self._change(argument, -1)

    def _change(self, value: Any, sign: int) -> None:
        self.rows += sign
        if value is None or value != value:
            return
        self.values += sign
        if type(value) is not float:
            if type(value) is int:
                self.scaled += sign * (value << _SHIFT)
            elif type(value) is BoundedDecimal:
                self.decimals += sign
                self.units += sign * units_of(value)
            return
        self.floats += sign
        if isinf(value):
            self.infinities[value > 0] += sign
            return
        numerator, denominator = value.as_integer_ratio()
        self.scaled += sign * (numerator << (_SHIFT + 1 - denominator.bit_length()))


class Best:
    """The accumulator of MIN, MAX, ARGMIN and ARGMAX.

    It keeps the values that can still become the result as rows leave the window, best first.
    """

    __slots__ = ("_largest", "queue")

    def __init__(self, largest: bool) -> None:
        self._largest = largest
        # (number of the row, compared value, argument)
        self.queue: deque[tuple[int, Any, Any]] = deque()

    def enter(self, number: int, argument: Any, by: Any) -> None:
        """Add a row with its serial number.

        The row with the best ``by`` gives the result, which is its ``argument``.
        """
        if by is None or by != by:
            return
        if argument is not None and argument != argument:
            argument = None
        kept = len(self.queue)
        try:
            while kept and self.beats((by, argument), self.queue[kept - 1][1:]):
                kept -= 1
        except Exception:  # from a type of the user's: it cannot be compared, and counts as null
            return
        while len(self.queue) > kept:
            self.queue.pop()
        self.queue.append((number, by, argument))

    def leave(self, number: int, argument: Any) -> None:
        """Remove the oldest row, given its number, if it is still in the queue."""
        if self.queue and self.queue[0][0] == number:
            self.queue.popleft()

    def beats(self, one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
        """Return True if ``one``, (compared value, argument), is at least as good as ``other``.

        Of equal values the one with the smaller argument is better; a null argument is the worst.
        """
        if one[0] != other[0]:
            return bool(other[0] < one[0]) is self._largest
        if other[1] is None or one[1] is None:
            return other[1] is None
        return not other[1] < one[1]


WindowAccumulator: TypeAlias = Total | Best


def accumulator(function: str) -> WindowAccumulator:
    """Return a new accumulator for a function of `algebra.AGGREGATES`."""
    if function in ("COUNT", "SUM", "AVG"):
        return Total()
    return Best(function in ("MAX", "ARGMAX"))


def result(function: str, counts_rows: bool, parts: Sequence[WindowAccumulator]) -> Any:
    """Return a function's value over several accumulators, as if they were one.

    COUNT counts rows, null ones as well, if ``counts_rows``, else values.
    """
    if isinstance(parts[0], Best):
        return _best([part for part in parts if isinstance(part, Best)])
    totals = [part for part in parts if isinstance(part, Total)]
    values = sum(total.values for total in totals)
    if function == "COUNT":
        return sum(total.rows for total in totals) if counts_rows else values
    if not values:
        return None
    infinite = [sum(total.infinities[sign] for total in totals) for sign in (0, 1)]
    if any(infinite):
        return nan if all(infinite) else (inf if infinite[1] else -inf)
    scaled = sum(total.scaled for total in totals)
    count = values if function == "AVG" else 1
    floats = any(total.floats for total in totals)
    if any(total.decimals for total in totals):
        units = sum(total.units for total in totals)
        if not floats:
            return of_units(units + (scaled >> _SHIFT) * _UNITS, count)
        return quotient(scaled * _UNITS + (units << _SHIFT), count * _UNITS << _SHIFT)
    if function == "AVG" or floats:
        return quotient(scaled, count << _SHIFT)
    return scaled >> _SHIFT


def _best(parts: list[Best]) -> Any:
    chosen: tuple[Any, Any] | None = None
    for part in parts:
        if part.queue:
            candidate = part.queue[0][1:]
            try:
                if chosen is None or part.beats(candidate, chosen):
                    chosen = candidate
            except Exception:  # as in `Best.enter`
                continue
    return None if chosen is None else chosen[1]
