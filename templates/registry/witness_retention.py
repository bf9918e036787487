"""Retention of witnesses: the time for which joins need those of each pair of variables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np

from templates.columns.columns import Column, grown
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.model.relations import OPERATORS, Horizon
from templates.registry.members import Rows, add


class WitnessRetention:
    """Counts over the rows of R_T; columns have an entry for each pair, by its number."""

    def __init__(self) -> None:
        self.keeps: Column = np.full(64, -1, dtype=np.int64)
        """How long the witnesses of each pair are kept, in ticks; -1: not at all."""
        self._joined = [np.zeros(64, dtype=np.int64) for _ in (LEFT, RIGHT)]
        self._rows: Counter[int] = Counter()  # of two sides, by how long they keep
        self._rows_of: defaultdict[int, dict[int, int]] = defaultdict(dict)  # the same by pair
        self._symmetric = 0  # rows with the operator JOIN
        self._changed = False

    def horizon(self) -> Horizon:
        """Return the horizon that no registered join of two sides exceeds."""
        keep = max(self._rows, default=0)
        return Horizon(keep, keep, not self._symmetric)

    @property
    def looks_back(self) -> bool:
        """True if some join has results in both orders of its documents."""
        return self._symmetric > 0

    def take_changed(self) -> bool:
        """Return True if the retention of some pair has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def kept(self, pairs: Column) -> Column:
        """Return a mask: pairs whose witnesses are kept, those of joins of two sides."""
        needed: Column = self.keeps[pairs] >= 0
        return needed

    def joined(self, side: int) -> Column:
        """Return the number of value joins with each pair on a side."""
        return self._joined[side]

    def count(self, graph: JoinGraph, places: Sequence[Sequence[int]], rows: Rows, by: int) -> None:
        """Count rows of a template; `places` are their columns of pairs."""
        self._symmetric += by * rows["op"].count(OPERATORS["JOIN"])
        last = max(map(max, places))
        self.keeps = grown(self.keeps, last, -1)
        self._joined = [grown(counts, last, 0) for counts in self._joined]
        if graph.two_sided:
            self._count_keeps(places, rows["keep"], by)
        for ends in graph.value_joins:
            for joined, place in zip(self._joined, ends, strict=True):
                np.add.at(joined, list(places[place]), by)

    def _count_keeps(self, places: Sequence[Sequence[int]], keeps: Sequence[int], by: int) -> None:
        for keep, rows in Counter(keeps).items():
            add(self._rows, keep, by * rows)
        counts = Counter(chain.from_iterable(zip(pairs, keeps, strict=True) for pairs in places))
        for (number, keep), rows in counts.items():
            add(self._rows_of[number], keep, by * rows)
        numbers = [number for number, _ in counts]
        longest = [max(self._rows_of[number], default=-1) for number in numbers]
        before = self.keeps[numbers]
        self._changed |= bool(((before >= 0) & (before != longest)).any())
        self.keeps[numbers] = longest
        for number in numbers:
            if not self._rows_of[number]:
                del self._rows_of[number]
