"""Variables and pairs of adjacent ones, numbered by their definitions.

Stage 1 binds pairs; a row of R_T has one in each place of its template.  Memory is the index,
`state.variable` and `state.pair` are the source of truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import duckdb

from templates.model.relations import Pair
from templates.registry.members import add

Variable: TypeAlias = tuple[int, str]
"""The number and the definition of a variable."""


@dataclass(slots=True)
class _PairUse:
    """A pair of variables, with the numbers of rows of R_T that have it or join its value."""

    first: int
    second: int
    rows: int = 0
    valued: int = 0


class VariablePairs:
    """All variables and pairs; `waiting` has the new rows by table until they are written."""

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
        """Return the number of a variable, a new one if it is unknown."""
        number = self._variables.get(definition)
        if number is None:
            number, self._next_variable = self._next_variable, self._next_variable + 1
            self._know_variable(number, definition)
            self._waiting["state.variable"].append((number, definition))
        return number

    def pair(self, ends: tuple[int, int]) -> int:
        """Return the number of a pair of variables, a new one if it is unknown."""
        number = self._numbers.get(ends)
        if number is None:
            number, self._next_pair = self._next_pair, self._next_pair + 1
            self._know_pair(number, ends)
            self._waiting["state.pair"].append((number, *ends))
        return number

    def describe(self, number: int) -> Pair:
        """Return a pair of variables by its number."""
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
        """Count rows of R_T by their pair in one place; `compared`: its second value joins."""
        for number, rows in counts.items():
            use = self._uses[number]
            if by > 0 and (not use.rows or (compared and not use.valued)):
                self._changed.add(number)
            use.rows += by * rows
            use.valued += by * rows * compared

    def drop_unused(self, pairs: Iterable[int]) -> tuple[int, ...]:
        """Drop the unused ones of some pairs, and their variables; return these pairs."""
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
        """Drop a variable from one pair, and altogether if it is in no other."""
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
