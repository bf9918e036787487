"""Variables and pairs of adjacent ones, numbered by their definitions.

Stage 1 binds pairs; a row of R_T has one in each place of its template.  Memory is the index, the
relations `variable` and `pair` of the storage are the source of truth.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, columns_of, grown
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.model.relations import Horizon, Pair
from templates.registry.members import RowColumns
from templates.storage import Storage

NumberedVariable: TypeAlias = tuple[int, str]
"""The number and the definition of a variable."""


NUMBERS = 40
"""Bits of a number in a key that has another number above them.

A dictionary with such keys has a third of the memory of one with a dictionary, or a tuple, in each
entry.
"""


class _PairUses:
    """Pairs of variables with reference counts, as columns by number: 0 is no pair.

    `rows` are the rows of R_T that have a pair, `valued` those that join its value.
    """

    def __init__(self) -> None:
        self.firsts, self.seconds = array("q", [0]), array("q", [0])  # variables
        self.rows, self.valued = array("q", [0]), array("q", [0])

    def __iter__(self) -> Iterator[int]:
        return (number for number, first in enumerate(self.firsts) if first)

    def add(self, ends: tuple[int, int]) -> int:
        """Add a pair without rows; return its number."""
        for column, value in ((self.seconds, ends[1]), (self.rows, 0), (self.valued, 0)):
            column.append(value)
        self.firsts.append(ends[0])  # last, for readers in other threads
        return len(self.firsts) - 1

    def put(self, numbers: Column, firsts: Column, seconds: Column) -> None:
        """Record pairs that have numbers, without rows so far."""
        size = max(int(numbers.max(initial=0)) + 1, len(self.firsts))
        for column in (self.firsts, self.seconds, self.rows, self.valued):
            column.frombytes(bytes(8 * (size - len(column))))
        for column, values in ((self.firsts, firsts), (self.seconds, seconds)):
            np.frombuffer(column, np.int64)[numbers] = values

    def ends(self, number: int) -> tuple[int, int] | None:
        """Return the variables of a pair; None if it was dropped.  For any thread."""
        first = self.firsts[number] if number < len(self.firsts) else 0
        return (first, self.seconds[number]) if first else None

    def drop(self, number: int) -> None:
        """Forget a pair, whose number is not assigned again."""
        self.firsts[number] = self.seconds[number] = 0


class VariablePairs:
    """All variables and pairs; `new` collects new rows by relation until they are written."""

    def __init__(self, storage: Storage, new: Mapping[str, list[tuple[object, ...]]]) -> None:
        self._storage = storage
        self._new = new
        self._variables: dict[str, int] = {}
        self._definitions: list[str | None] = [None]  # by number
        self._uses = _PairUses()
        self._numbers: dict[int, int] = {}  # of pairs, by their variables: `NUMBERS`
        self._pairs_of = array("q", [0])  # how many pairs a variable is in
        self._changed: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        return iter(self._uses)

    def add_stored(self, variables: pa.Table, pairs: pa.Table) -> None:
        """Add variables and pairs that have numbers; they may be known."""
        known = variables.to_pydict()
        self._variables.update(zip(known["definition"], known["id"], strict=True))
        missing = max(known["id"], default=0) + 1 - len(self._definitions)
        self._definitions += [None] * missing
        self._pairs_of.frombytes(bytes(8 * max(0, missing)))
        for number, definition in zip(known["id"], known["definition"], strict=True):
            self._definitions[number] = definition
        columns = columns_of(pairs)
        keys = (columns["var1"].astype(np.int64) << NUMBERS | columns["var2"]).tolist()
        new = [place for place, key in enumerate(keys) if key not in self._numbers]
        numbers, firsts, seconds = (columns[name][new] for name in ("id", "var1", "var2"))
        self._uses.put(numbers, firsts, seconds)
        self._numbers.update(zip((keys[place] for place in new), numbers.tolist(), strict=True))
        each = np.concatenate((firsts, seconds[seconds != firsts]))
        uses = np.bincount(each, minlength=len(self._definitions))
        np.frombuffer(self._pairs_of, np.int64)[:] += uses

    def variable(self, definition: str) -> int:
        """Return the number of a variable; assign one if it is new."""
        number = self._variables.get(definition)
        if number is None:
            number = self._variables[definition] = len(self._definitions)
            self._definitions.append(definition)
            self._pairs_of.append(0)
            self._new["variable"].append((number, definition))
        return number

    def pair(self, ends: tuple[int, int]) -> int:
        """Return the number of a pair of variables; assign one if it is new."""
        key = ends[0] << NUMBERS | ends[1]
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._uses.add(ends)
            for variable in set(ends):
                self._pairs_of[variable] += 1
            self._new["pair"].append((number, *ends))
        return number

    def describe(self, number: int) -> Pair:
        """Return the definition of a pair of variables."""
        (pair,) = self.described((number,))
        return pair

    def described(self, numbers: Iterable[int]) -> list[Pair]:
        """Return the definitions of pairs, without unknown and dropped ones."""
        valued = self._uses.valued
        return [
            Pair(number, first, second, valued[number] > 0)
            for number, (_, first), (_, second) in self.named(numbers)
        ]

    def named(self, pairs: Iterable[int]) -> list[tuple[int, NumberedVariable, NumberedVariable]]:
        """Return pairs with their variables, without dropped ones; thread-safe."""
        found = []
        for number in pairs:
            ends = self._uses.ends(number)
            if ends is not None:
                first, second = map(self._definitions.__getitem__, ends)
                if first is not None and second is not None:
                    found.append((number, (ends[0], first), (ends[1], second)))
        return found

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last call."""
        changed = self.described(sorted(self._changed))
        self._changed.clear()
        return changed

    def count(self, counts: Mapping[int, int], by: int, compared: bool) -> None:
        """Add `by` for each row of R_T, given the rows of each pair in one place of the template.

        `compared` is True if the value of the second variable joins there.
        """
        rows_of, valued = self._uses.rows, self._uses.valued
        for number, rows in counts.items():
            if by > 0 and (not rows_of[number] or (compared and not valued[number])):
                self._changed.add(number)
            rows_of[number] += by * rows
            valued[number] += by * rows * compared

    def drop_unused(self, pairs: Iterable[int]) -> tuple[int, ...]:
        """Drop the pairs without rows of R_T, and their variables in no other pair.

        Returns the dropped pairs.
        """
        dropped = []
        for number in dict.fromkeys(pairs):
            ends = self._uses.ends(number)
            if ends is not None and not self._uses.rows[number]:
                del self._numbers[ends[0] << NUMBERS | ends[1]]
                self._uses.drop(number)
                self._changed.discard(number)
                self._storage.discard("pair", pa.table({"id": [number]}))
                for variable in set(ends):
                    self._drop_variable(variable)
                dropped.append(number)
        return tuple(dropped)

    def _drop_variable(self, number: int) -> None:
        """Decrement the pair count of a variable; delete the variable at 0."""
        self._pairs_of[number] -= 1
        definition = self._definitions[number]
        if not self._pairs_of[number] and definition is not None:
            del self._variables[definition]
            self._definitions[number] = None
            self._storage.discard("variable", pa.table({"id": [number]}))


class WitnessRetention:
    """Retention of witnesses and counts of value joins per variable pair, aggregated over R_T.

    Arrays are indexed by pair number.
    """

    def __init__(self) -> None:
        self.keeps: Column = np.full(64, -1, dtype=np.int64)
        """Retention of each pair's witnesses in ticks; -1 if they are not kept."""
        self._joined = [np.zeros(64, dtype=np.int64) for _ in (LEFT, RIGHT)]
        self._backward = 0  # rows whose relation looks back
        self._horizon: Horizon | None = None  # None: to be made
        self._changed = False

    def horizon(self) -> Horizon:
        """Return the smallest horizon that covers the windows of all registered two-sided joins."""
        if self._horizon is None:
            keep = int(self.keeps.max(initial=0))
            self._horizon = Horizon(-keep if self.looks_back else 1, keep, keep)
        return self._horizon

    @property
    def looks_back(self) -> bool:
        """True if a right side may end before the left one of some join, or with it."""
        return self._backward > 0

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

    def count(
        self, graph: JoinGraph, places: Sequence[Sequence[int]], rows: RowColumns, by: int
    ) -> None:
        """Add `by` (1 or -1) for each of some rows of a template.

        `places` are the columns of pair numbers, one for each place of the template.
        """
        self._backward += by * sum(lower < 1 for lower in rows["lower"])
        self._horizon = None
        last = max(map(max, places))
        self.keeps = grown(self.keeps, last, -1)
        self._joined = [grown(counts, last, 0) for counts in self._joined]
        if graph.two_sided and by > 0:
            for pairs in map(list, places):
                before = self.keeps[pairs]
                np.maximum.at(self.keeps, pairs, rows["keep"])
                self._note_change(pairs, before)
        for ends in graph.value_joins:
            for joined, place in zip(self._joined, ends, strict=True):
                np.add.at(joined, list(places[place]), by)

    def shorten(self, keeps: Mapping[int, int]) -> None:
        """Set the retention that the other rows of R_T ask for, by pair of a removed row."""
        pairs = list(keeps)
        before = self.keeps[pairs]
        self.keeps[pairs] = list(keeps.values())
        self._note_change(pairs, before)

    def _note_change(self, pairs: list[int], before: Column) -> None:
        self._changed |= bool(((before >= 0) & (before != self.keeps[pairs])).any())
        self._horizon = None
