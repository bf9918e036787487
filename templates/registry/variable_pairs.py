"""Variables and pairs of adjacent ones, numbered by their definitions.

Stage 1 binds pairs; a row of R_T has one in each place of its template.  Memory is the index,
`state.variable` and `state.pair` are the source of truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import duckdb
import numpy as np

from templates.columns.columns import Column, grown
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.model.relations import OPERATORS, Horizon, Pair
from templates.registry.members import Rows, add

Variable: TypeAlias = tuple[int, str]
"""The number and the definition of a variable."""


@dataclass(slots=True)
class _PairUse:
    """A pair of variables with its reference counts: rows of R_T that have it or join its value."""

    first: int
    second: int
    rows: int = 0
    valued: int = 0


class VariablePairs:
    """All variables and pairs; `waiting` buffers new rows by table until they are written."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, waiting: Mapping[str, list[tuple[object, ...]]]
    ) -> None:
        self._connection = connection
        self._waiting = waiting
        self._variables: dict[str, int] = {}
        self._definitions: dict[int, str] = {}
        self._uses: dict[int, _PairUse] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._pairs_of: dict[int, int] = {}  # how many pairs a variable is in
        self._next_variable = self._next_pair = 1
        self._changed: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        return iter(self._uses)

    def load(self) -> None:
        """Read variables and pairs from the database."""
        fetch = self._connection.execute
        for number, definition in fetch("SELECT id, definition FROM state.variable").fetchall():
            self._know_variable(number, definition)
        pairs = fetch("SELECT id, var1, var2 FROM state.pair ORDER BY id").fetchall()
        for number, first, second in pairs:
            self._know_pair(number, (first, second))
        self._next_variable = max(self._definitions, default=0) + 1
        self._next_pair = max(self._uses, default=0) + 1

    def variable(self, definition: str) -> int:
        """Return the number of a variable; assign one if it is new."""
        number = self._variables.get(definition)
        if number is None:
            number, self._next_variable = self._next_variable, self._next_variable + 1
            self._know_variable(number, definition)
            self._waiting["state.variable"].append((number, definition))
        return number

    def pair(self, ends: tuple[int, int]) -> int:
        """Return the number of a pair of variables; assign one if it is new."""
        number = self._numbers.get(ends)
        if number is None:
            number, self._next_pair = self._next_pair, self._next_pair + 1
            self._know_pair(number, ends)
            self._waiting["state.pair"].append((number, *ends))
        return number

    def describe(self, number: int) -> Pair:
        """Return the definition of a pair of variables."""
        use = self._uses[number]
        first, second = self._definitions[use.first], self._definitions[use.second]
        return Pair(number, first, second, use.valued > 0)

    def named(self, pairs: Iterable[int]) -> list[tuple[int, Variable, Variable]]:
        """Return pairs with their variables, without dropped ones; thread-safe."""
        found = []
        for number in pairs:
            use = self._uses.get(number)
            if use is not None:
                first, second = map(self._definitions.get, (use.first, use.second))
                if first is not None and second is not None:
                    found.append((number, (use.first, first), (use.second, second)))
        return found

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last call."""
        changed = [self.describe(number) for number in sorted(self._changed)]
        self._changed.clear()
        return changed

    def count(self, counts: Mapping[int, int], by: int, compared: bool) -> None:
        """Add `by` for each row of R_T, given the rows of each pair in one place of the template.

        `compared` is True if the value of the second variable joins there.
        """
        for number, rows in counts.items():
            use = self._uses[number]
            if by > 0 and (not use.rows or (compared and not use.valued)):
                self._changed.add(number)
            use.rows += by * rows
            use.valued += by * rows * compared

    def drop_unused(self, pairs: Iterable[int]) -> tuple[int, ...]:
        """Drop the pairs without rows of R_T, and their variables in no other pair.

        Returns the dropped pairs.
        """
        dropped = []
        for number in dict.fromkeys(pairs):
            use = self._uses[number]
            if not use.rows:
                del self._uses[number], self._numbers[use.first, use.second]
                self._changed.discard(number)
                self._connection.execute("DELETE FROM state.pair WHERE id = ?", [number])
                for variable in {use.first, use.second}:
                    self._drop_variable(variable)
                dropped.append(number)
        return tuple(dropped)

    def _drop_variable(self, number: int) -> None:
        """Decrement the pair count of a variable; delete the variable at 0."""
        add(self._pairs_of, number, -1)
        if number not in self._pairs_of:
            del self._variables[self._definitions.pop(number)]
            self._connection.execute("DELETE FROM state.variable WHERE id = ?", [number])

    def _know_variable(self, number: int, definition: str) -> None:
        self._variables[definition] = number
        self._definitions[number] = definition

    def _know_pair(self, number: int, ends: tuple[int, int]) -> None:
        self._numbers[ends] = number
        self._uses[number] = _PairUse(*ends)
        for variable in set(ends):
            self._pairs_of[variable] = self._pairs_of.get(variable, 0) + 1


class WitnessRetention:
    """Retention of witnesses and counts of value joins per variable pair, aggregated over R_T.

    Arrays are indexed by pair number.
    """

    def __init__(self) -> None:
        self.keeps: Column = np.full(64, -1, dtype=np.int64)
        """Retention of each pair's witnesses in ticks; -1 if they are not kept."""
        self._joined = [np.zeros(64, dtype=np.int64) for _ in (LEFT, RIGHT)]
        self._rows: Counter[int] = Counter()  # of two sides, by how long they keep
        self._rows_of: defaultdict[int, dict[int, int]] = defaultdict(dict)  # the same by pair
        self._symmetric = 0  # rows with the operator JOIN
        self._changed = False

    def horizon(self) -> Horizon:
        """Return the smallest horizon that covers the windows of all registered two-sided joins."""
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
        """Return a mask of the pairs whose witnesses are kept: those in joins of two sides."""
        needed: Column = self.keeps[pairs] >= 0
        return needed

    def joined(self, side: int) -> Column:
        """Return the number of value joins of each pair on one side (`LEFT` or `RIGHT`)."""
        return self._joined[side]

    def count(self, graph: JoinGraph, places: Sequence[Sequence[int]], rows: Rows, by: int) -> None:
        """Add `by` (1 or -1) for each of some rows of a template.

        `places` are the columns of pair numbers, one for each place of the template.
        """
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
