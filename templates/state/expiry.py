"""How much of the join state has left its windows, told from when it came.

Deleting looks at all that is kept, so it waits until an eighth of that is
expected to go: the cost of a row's deletion does not depend on how many stay.
Windows count as up to an eighth longer than they are, so there are few kinds of them.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

import numpy as np

from templates.columns.columns import Column
from templates.model.relations import INFINITE

SHARE = 8
PARTS = 256
"""Times that rows are told apart by when they leave, if they were there before."""


class Leaving:
    """Counts the rows that are kept, and those that nobody needs any more."""

    def __init__(self) -> None:
        self._kept = 0
        self._left = 0
        self._leave: list[tuple[int, int]] = []  # when, and how many

    @classmethod
    def of(cls, keeps: Column, times: Column) -> Leaving:
        """Return what is to be told of rows: how long each is kept, and since when."""
        made = cls()
        made._kept = len(keeps)
        finite = keeps < INFINITE
        leave = times[finite] + np.maximum(keeps[finite], 0)
        if len(leave):
            step = max(1, int(leave.max() - leave.min()) // PARTS)
            first = int(leave.min())
            counts = np.bincount((leave - first) // step)
            parts = np.flatnonzero(counts)
            when = first + (parts + 1) * step
            made._leave = list(zip(when.tolist(), counts[parts].tolist(), strict=True))
        return made

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


def _rounded(length: int) -> int:
    """Return a length rounded up to its first four binary digits."""
    step = 1 << max(0, length.bit_length() - 4)
    return -(-length // step) * step
