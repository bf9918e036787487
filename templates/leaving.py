"""How much of the join state has left its windows, told from when it came.

Deleting looks at all that is kept, so it waits until an eighth of that is
expected to go: the cost of a row's deletion does not depend on how many stay.
Windows count as up to an eighth longer than they are, so there are few kinds of them.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

import numpy as np

from templates.columns import Column
from templates.relations import INFINITE

SHARE = 8


class Leaving:
    """Counts the rows that are kept, and those that nobody needs any more.

    Of `unknown` rows that were there before it is not known when they leave:
    the first look at them tells.
    """

    def __init__(self, unknown: int = 0) -> None:
        self._kept = unknown
        self._left = unknown
        self._leave: list[tuple[int, int]] = []  # when, and how many

    def note(self, keeps: Column, ts: int) -> None:
        """Note rows that were added: how long each is kept, and the latest time of all."""
        self._kept += len(keeps)
        lengths, counts = np.unique(keeps[keeps < INFINITE], return_counts=True)
        classes: Counter[int] = Counter()
        for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
            classes[_rounded(length)] += count
        for length, count in classes.items():
            heappush(self._leave, (ts + length, count))

    def due(self, clock: int) -> bool:
        """Whether enough rows have left by a time for them to be looked for."""
        while self._leave and self._leave[0][0] < clock:
            self._left += heappop(self._leave)[1]
        return bool(self._left) and SHARE * self._left >= self._kept

    def gone(self, count: int) -> None:
        """Note that all rows that had left were deleted."""
        self._kept -= count
        self._left = 0


def _rounded(length: int) -> int:
    """Return a length rounded up to its first four binary digits."""
    step = 1 << max(0, length.bit_length() - 4)
    return -(-length // step) * step
