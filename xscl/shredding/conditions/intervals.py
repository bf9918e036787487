"""An index of intervals by cells: those that contain some numbers.

A number is in one *cell* of each width, a power of two.  An interval is in at
most two cells of the width next to its own, and at least a third of such a
pair.  So for each width in use there is one look-up by hash, which yields few
more intervals than those that contain the number.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

NARROWEST = -40  # the least width of cells, as a power of two
FARTHEST = 1e200  # numbers beyond are in no cell


class Interval(NamedTuple):
    """A condition on numbers: one above `low` and one below `high`, without these where `open`.

    One number may do both.  If `low` is above `high`, only two numbers of a node can satisfy it.
    """

    low: float
    low_open: bool
    high: float
    high_open: bool

    def kept_by(self, least: float, greatest: float) -> bool:
        """Return True if some number is above the lower bound, and some below the upper one."""
        return (greatest > self.low or (greatest == self.low and not self.low_open)) and (
            least < self.high or (least == self.high and not self.high_open)
        )


Cell = tuple[int, int]  # (w, n): the numbers from n * 2^w up to (n + 1) * 2^w


class IntervalIndex:
    """A set of intervals."""

    __slots__ = ("_cells", "_known", "_widths")

    def __init__(self) -> None:
        self._known: set[Interval] = set()
        self._cells: dict[Cell, list[Interval]] = {}
        self._widths: Counter[int] = Counter()

    def add(self, interval: Interval) -> None:
        """Insert a new interval."""
        self._known.add(interval)
        for cell in _cells(interval):
            self._cells.setdefault(cell, []).append(interval)
            self._widths[cell[0]] += 1

    def remove(self, interval: Interval) -> None:
        """Remove an interval."""
        self._known.remove(interval)
        for cell in _cells(interval):
            self._cells[cell].remove(interval)
            if not self._cells[cell]:
                del self._cells[cell]
            self._widths[cell[0]] -= 1
        self._widths = +self._widths

    def kept_by(self, least: float, greatest: float) -> list[Interval]:
        """Return the intervals that numbers satisfy, given the least and the greatest of them."""
        candidates: set[Interval] | list[Interval] = self._known
        if least == greatest and abs(least) < FARTHEST:
            candidates = [
                interval
                for width in self._widths
                for interval in self._cells.get((width, _place(least, width)), ())
            ]
        return [
            interval
            for interval in candidates
            if (interval[0] < greatest and least < interval[2])
            or (
                interval[0] <= greatest
                and least <= interval[2]
                and interval.kept_by(least, greatest)
            )
        ]


def _cells(interval: Interval) -> list[Cell]:
    """Return the cells that an interval is in, one or two; none if no number alone satisfies it."""
    low, _, high, _ = interval
    if low > high:
        return []
    width = max(math.frexp(high - low)[1], NARROWEST)
    return [(width, n) for n in range(_place(low, width), _place(high, width) + 1)]


def _place(number: float, width: int) -> int:
    """Return the cell of a width that contains a number."""
    return math.floor(math.ldexp(number, -width))
