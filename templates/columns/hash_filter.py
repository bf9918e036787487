"""Which numbers were seen, in memory: what was not need not be asked for in the database.

Eight bytes for each number.  Sorted runs, each less than half as long as the
one before: a new one is merged with those before it as long as that is not so,
so adding costs the logarithm of what is there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]


class Seen:
    """A set of 64-bit numbers that only grows."""

    def __init__(self, numbers: Keys) -> None:
        self._runs = [np.sort(numbers)]

    def add(self, numbers: Keys) -> None:
        """Add numbers."""
        run = np.unique(numbers[~self.among(numbers)])
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate((self._runs.pop(), run)), kind="stable")
        self._runs.append(run)

    def among(self, numbers: Keys) -> npt.NDArray[np.bool_]:
        """Return for each of some numbers whether it was seen."""
        found = np.zeros(len(numbers), dtype=np.bool_)
        for run in self._runs:
            if len(run):
                place = np.searchsorted(run, numbers)
                place[place == len(run)] = 0
                found |= run[place] == numbers
        return found
