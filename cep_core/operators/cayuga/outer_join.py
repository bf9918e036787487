"""Outer join: pairs of rows within bounds of time, and rows that have no partner there.

A left row a and a right row b are a pair iff lower <= b.t1 - a.t1 <= upper and the predicate holds.
A row without one comes out alone, with nulls for the other side, in the epoch in which its last
partner could come: a in a.t1 + max(upper, 0), b in b.t1 - min(lower, 0).  Its interval ends there,
as that of an absence.  So a row is in pairs or alone, never both.

It extends the algebra of Hong 2009, as `absence` does.  Rows come epoch by epoch, so the partners
of a row that come first are kept already, and the others come while the row is kept.  Rows of
both sides are kept in groups by the equalities of the predicate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, cast

from cep_core.dataflow.channels import Members, Port, members_of
from cep_core.dataflow.mop import Operator, OperatorNumber, OrderedMOp, SoleMOp, Wanted, Wire
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import VALUES, Row

_LEFT, _RIGHT = 0, 1
_ANSWERED = 2
"""Added to the side of a saved row that has had a partner."""


class OuterPairs(NamedTuple):
    """The definition of an outer join: its pairs, and which sides come out alone."""

    filter: BoundPredicate
    lower: int
    upper: int
    alone: tuple[bool, bool]


class UnpairedRow(NamedTuple):
    """A row of a side that may have partners yet, and whether it has had one."""

    row: Row
    side: int
    answered: bool


class OuterJoinMOp(SoleMOp, OrderedMOp):
    """One outer join of two streams."""

    kind = "outer_join"
    journals = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        definition = cast(OuterPairs, first.definition)
        self._lower, self._upper = definition.lower, definition.upper
        self._alone = definition.alone
        self._reach = max(self._upper, 0), max(-self._lower, 0)
        shape, self._constants = definition.filter
        self._holds, self._keys = shape.holds, shape.keys
        self._nulls = tuple((None,) * one.wanted.width for one in reversed(first.inputs))
        self._last = 0
        self._kept: list[dict[Any, dict[int, UnpairedRow]]] = [{}, {}]  # by key and number
        self._due: dict[int, list[tuple[int, Any, int]]] = defaultdict(list)
        self._wires = [
            Wire(Port(self, lambda row, members: self._arrive(_LEFT, row, members)), self._lane),
            Wire(Port(self, lambda row, members: self._arrive(_RIGHT, row, members)), self._lane),
        ]

    # -- the plan --------------------------------------------------------------------------

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self._lane.journal.drop(self.kept())
        self._kept, self._due = [{}, {}], defaultdict(list)
        self._lane.drop(self)

    @property
    def keeps(self) -> int:
        """For how many ticks a row is kept at most."""
        return max(self._reach)

    def kept(self) -> Iterator[UnpairedRow]:
        """Yield the rows that wait."""
        for group in chain(*(kept.values() for kept in self._kept)):
            yield from group.values()

    def instances(self) -> int:
        return sum(1 for _ in self.kept())

    def entries(self) -> int:
        return sum(map(len, self._kept))

    def saved(self, kept: UnpairedRow, number: OperatorNumber) -> list[Any]:
        numbers = [number(operator) for operator in self.operators]
        return [kept.row, numbers, kept.side + _ANSWERED * kept.answered]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        self._keep(UnpairedRow(row, side % _ANSWERED, side >= _ANSWERED))

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        hashed = "hash on dynamic equality; " if self._keys else ""
        left, right = self._reach
        return f"{hashed}left rows leave after {left} ticks, right ones after {right}"

    # -- rows ------------------------------------------------------------------------------

    def _arrive(self, side: int, row: Row, members: Members) -> None:
        if row[2] < self._since:
            return
        answered = False
        key = self._key(side, row)
        group = self._kept[1 - side].get(key, {}) if key is not None or not self._keys else {}
        for number, other in list(group.items()):
            a, b = (row, other.row) if side == _LEFT else (other.row, row)
            if not self._lower <= b[1] - a[1] <= self._upper:
                continue
            if self._holds(a, b, self._constants):
                answered = True
                if not other.answered:
                    group[number] = self._with_partner(other)
                times = min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2])
                self._emit((*times, *a[VALUES:], *b[VALUES:]))
        self._keep(UnpairedRow(row, side, answered))

    def _emit(self, row: Row) -> None:
        self._output.emit(row, members_of([operator.slot for operator in self.operators]))

    def _key(self, side: int, row: Row) -> Any:
        """Return the key of a row; None if it equals none, or there are no keys."""
        return self._keys[side](row) if self._keys else None

    def _keep(self, one: UnpairedRow) -> None:
        key = self._key(one.side, one.row)
        self._last += 1
        self._kept[one.side].setdefault(key, {})[self._last] = one
        self._lane.journal.keep(self, one)
        deadline = one.row[1] + self._reach[one.side]
        is_new = deadline not in self._due
        self._due[deadline].append((one.side, key, self._last))
        if not is_new:
            return
        if deadline == self._lane.now:
            self._lane.flush_later(self)
        elif not self._lane.expect(deadline, self):
            self._touch()  # `finish` prepares, at the end of the epoch

    def _with_partner(self, one: UnpairedRow) -> UnpairedRow:
        self._lane.journal.drop((one,))
        made = one._replace(answered=True)
        self._lane.journal.keep(self, made)
        return made

    # -- deadlines -------------------------------------------------------------------------

    def fire(self, deadline: int) -> None:
        """Schedule `finish` for the end of the epoch."""
        self._touch()

    def awaiting(self, time: int) -> Iterator[Operator]:
        """Yield the operator if rows may come out alone at a time, or at the one after it."""
        if time in self._due or time + 1 in self._due:
            yield from self.operators

    def flush(self, now: int) -> None:
        """Drop the rows whose deadline this epoch is; emit those that had no partner."""
        for side, key, number in self._due.pop(now, ()):
            group = self._kept[side][key]
            one = group.pop(number)
            if not group:
                del self._kept[side][key]
            self._lane.journal.drop((one,))
            if one.answered or not self._alone[side]:
                continue
            row, nulls = one.row, self._nulls[side]
            values = row[VALUES:]
            both = (*values, *nulls) if side == _LEFT else (*nulls, *values)
            self._emit((row[0], now, row[2], *both))

    def finish(self, now: int) -> None:
        """Prepare for a deadline at the next tick."""
        super().finish(now)
        if now + 1 in self._due:
            self._lane.prepare(now + 1, self)
