"""An index in memory that is only added to: sorted runs of values, each with its row.

Each run is less than half as long as the one
before: a new one is merged with those before it as long as that is not so.
Adding costs the logarithm of what is there, and so does finding, for each run.
"""

from __future__ import annotations

import numpy as np

from templates.columns.columns import Column, spread


class Runs:
    """Finds the rows whose values are within bounds."""

    def __init__(self) -> None:
        self._runs: list[tuple[Column, Column]] = []

    def __len__(self) -> int:
        return sum(len(values) for values, _ in self._runs)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries take."""
        return sum(values.nbytes + rows.nbytes for values, rows in self._runs)

    def add(self, values: Column, rows: Column) -> None:
        """Add rows with their values."""
        if not len(values):
            return
        while self._runs and len(self._runs[-1][0]) < 2 * len(values):
            before = self._runs.pop()
            values = np.concatenate((before[0], values))
            rows = np.concatenate((before[1], rows))
        order = np.argsort(values, kind="stable")
        self._runs.append((values[order], rows[order]))

    def cut(self, row: int) -> None:
        """Take out the rows from some number on."""
        stays = [rows < row for _, rows in self._runs]
        self._runs = [
            run if these.all() else (run[0][these], run[1][these])
            for run, these in zip(self._runs, stays, strict=True)
            if these.any()
        ]

    def counts(self, low: Column, high: Column) -> Column:
        """Return how many rows have a value within each of some bounds, both included."""
        found = np.zeros(len(low), dtype=np.int64)
        for values, _ in self._runs:
            found += np.searchsorted(values, high, "right")
            found -= np.searchsorted(values, low, "left")
        return found

    def rows(self, low: Column, high: Column) -> tuple[Column, Column]:
        """Return all pairs of a place of the bounds and a row with a value within them."""
        places, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for values, rows in self._runs:
            first = np.searchsorted(values, low, "left")
            last = np.searchsorted(values, high, "right")
            which, at = spread(first, last)
            places.append(which)
            found.append(rows[at])
        return np.concatenate(places), np.concatenate(found)
