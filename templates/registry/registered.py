"""R_T of a template in memory, to be found by the pairs of variables that have joined.

A batch touches few rows of R_T: those all of whose value joins are among the
batch's.  Only they take part in the template's query, so it costs the same
with ten rows and with a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from templates.columns.columns import Column, Columns, Growing, among, distinct
from templates.columns.sorted_runs import Runs
from templates.model.join_graph import JoinGraph


class Registered:
    """The rows of R_T of one template; see `registry` for its columns.

    What is added is indexed when it is asked for.  Rows that are removed stay
    until half of them are such.
    """

    def __init__(self, graph: JoinGraph) -> None:
        self._asked = [f"e{i}" for i, _ in enumerate(graph.equalities)]
        self._asked = self._asked or [f"p{i}" for i, _ in enumerate(graph.pairs)]
        self.names = (
            "qid",
            *(f"p{i}" for i, _ in enumerate(graph.pairs)),
            *(f"e{i}" for i, _ in enumerate(graph.equalities)),
            *("op", "wl", "keep"),
        )
        self._rows = Growing(dict.fromkeys((*self.names, "alive"), np.int64))
        self._found = 0  # rows that are indexed
        self._indexes = [Runs() for _ in self._asked]
        self._dead = 0

    def add(self, rows: Mapping[str, Sequence[int]]) -> None:
        """Add rows as columns, which have the names of `names`."""
        alive = [1] * len(rows["qid"])
        self._rows.extend({**{name: rows[name] for name in self.names}, "alive": alive})

    def remove(self, qid: int) -> None:
        """Take a row away."""
        self._rows["alive"][np.flatnonzero(self._rows["qid"] == qid)] = 0
        self._dead += 1
        if self._dead > self._rows.size // 2:
            self._rows.only(np.flatnonzero(self._rows["alive"]))
            self._dead, self._found = 0, 0
            self._indexes = [Runs() for _ in self._asked]

    def touched(self, present: Column) -> Columns:
        """Return the rows whose value joins are all among some, which are sorted and distinct.

        A value join is a number for two pairs of variables (`columns.pack`); of
        a template with one side it is the pairs of variables themselves.
        """
        _, rows = self.having(0, present)
        for name in self._asked[1:]:
            rows = rows[among(self._rows[name][rows], present)]
        rows.sort()
        return {name: self._rows[name][rows] for name in self.names}

    def any_of(self, present: Column) -> Columns:
        """Return the rows some value join of which is among some, sorted and distinct."""
        rows = distinct(np.concatenate([self.having(at, present)[1] for at in self._places]))
        return {name: self._rows[name][rows] for name in self.names}

    @property
    def _places(self) -> range:
        return range(len(self._asked))

    def having(self, place: int, present: Column) -> tuple[Column, Column]:
        """Return the places of `present`, each with a row one of whose value joins it is."""
        self._settle()
        which, rows = self._indexes[place].rows(present, present)
        alive = self._rows["alive"][rows] > 0
        return which[alive], rows[alive]

    def column(self, name: str, rows: Column) -> Column:
        """Return a column of some rows."""
        return self._rows[name][rows]

    def _settle(self) -> None:
        """Index what was added since the last time."""
        size = self._rows.size
        if self._found == size:
            return
        for name, index in zip(self._asked, self._indexes, strict=True):
            index.add(self._rows[name][self._found :], np.arange(self._found, size))
        self._found = size
