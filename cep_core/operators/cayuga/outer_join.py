"""Outer join: pairs of rows within bounds of time, and rows without a partner within these.

A left row a and a right row b are a pair iff lower <= b.t1 - a.t1 <= upper and the predicate holds.
An unpaired row comes out alone, with nulls for the other side, in the epoch in which its last
partner could come: a in a.t1 + max(upper, 0), b in b.t1 - min(lower, 0).  Its interval ends there.
So a row is in pairs or alone, never both.

NOT FOLLOWED BY is an outer join of which only left rows alone are put out; b has to begin after a
has ended, so lower is 1.  FOLLOWED BY .. ELSE has the pairs as well.  A *moment*, E@T of NEXT CEP
(Schultz-Møller, Migliavacca and Pietzuch 2009), begins at the deadline.  SASE's negated end is
something else: WITHIN(SEQ(A, !B), T) counts T from the first row of the left sequence, and its last
tick is t0 + T - 1.

It extends the algebra of Hong 2009.  Rows come epoch by epoch, so the partners of a row that come
first are kept already, and the others come while the row is kept.  Rows of both sides are kept in
groups by the equalities of the predicate.  Right rows come through the AN-index, which passes none
while nothing waits for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple, cast

from cep_core.dataflow.channels import Members, members_of, slots_of, without_slots
from cep_core.dataflow.mop import (
    MatchBound,
    Operator,
    OperatorNumber,
    OrderedMOp,
    SlotWiseMOp,
    Wanted,
)
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.active import EACH_ROW, ActiveIndex

_LEFT, _RIGHT = 0, 1
_ANSWERED = 2
"""Added to the side of a saved row that has had a partner."""


class OuterPairs(NamedTuple):
    """The definition of an outer join: the condition of its pairs, the sides that come out alone.

    ``paired`` says that pairs are emitted, ``follows`` that a right row begins after the left one
    has ended, ``moment`` that a row that comes alone begins at its deadline.
    """

    filter: BoundPredicate
    lower: int
    upper: int
    alone: tuple[bool, bool]
    paired: bool = True
    follows: bool = False
    moment: bool = False


class UnpairedRow(NamedTuple):
    """A row that may still get partners; ``answered`` says that it has had one.

    ``members`` are the streams of a left row; ``key`` is that of its group, in which ``number``
    identifies it.
    """

    row: Row
    members: Members
    side: int
    answered: bool
    key: Any
    number: int


class OuterJoinMOp(SlotWiseMOp, OrderedMOp):
    """Evaluates outer joins of one definition over a left channel and one right stream."""

    journals = True

    def __init__(self, first: Wanted, number: int, active: ActiveIndex) -> None:
        super().__init__(first, number, ordered=True)
        self.active = active
        definition = cast(OuterPairs, first.definition)
        self._definition = definition
        lower, upper = definition.lower, definition.upper
        self._reach = max(upper, 0), max(-lower, 0)
        # A row of which no partner comes later is kept only if it may come out alone.
        self._keeps = upper >= 0 or definition.alone[0], lower <= 0 or definition.alone[1]
        # If right rows are kept, each of them concerns the m-op, whatever its values.
        self.place = EACH_ROW if self._keeps[_RIGHT] else active.place(definition.filter)
        shape, self._constants = definition.filter
        self._holds, self._keys = shape.holds, shape.keys
        # A scan of all rows that wait is about six times as fast as a test of each.
        joins = shape.disjuncts[0].joins if len(shape.disjuncts) == 1 else {}
        self._scan = shape.instances(frozenset(joins.values())) if definition.follows else None
        width = [one.wanted.width for one in reversed(first.inputs)]
        self._nulls = tuple((None,) * one * definition.paired for one in width)
        self._bound = MatchBound(self)
        self._last = 0
        self._kept: list[dict[Any, dict[int, UnpairedRow]]] = [{}, {}]  # by key and number
        self._due: dict[int, dict[int, UnpairedRow]] = defaultdict(dict)  # by deadline and number

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self.active.attend(self, wanted.inputs[1])
        self._attend()
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        for one in list(self.kept()):
            if not (one.side and self.operators):
                self._forget(one, {operator.slot})
        if self.operators:
            self._attend()
        else:
            self.active.leave(self)

    def _forget(self, one: UnpairedRow, slots: Collection[int]) -> None:
        """Remove the queries of some slots from a left row; drop the row if it has no others.

        A right row, which all queries share, is dropped.
        """
        left = None if one.side else without_slots(one.members, slots)
        if left != one.members:
            self._drop(one)
            if left is not None:
                self._keep(one.row, left, one.side, one.answered)

    def _attend(self) -> None:
        """Listen to right rows while left rows are kept or right rows have to be; else do not."""
        listens = self.operators and (self._kept[_LEFT] or self._keeps[_RIGHT])
        (self.active.activate if listens else self.active.deactivate)(self)

    @property
    def keeps(self) -> int:
        """The largest number of ticks for which a row is kept."""
        return max(self._reach)

    def kept(self) -> Iterator[UnpairedRow]:
        """Yield the rows that wait."""
        for group in chain(*(kept.values() for kept in self._kept)):
            yield from group.values()

    def instances(self) -> int:
        return sum(map(len, self._due.values()))

    def entries(self) -> int:
        return sum(map(len, self._kept))

    def saved(self, kept: UnpairedRow, number: OperatorNumber) -> list[Any]:
        slots = self._owners if kept.side else slots_of(kept.members)
        numbers = [number(self._owners[slot]) for slot in slots]
        return [kept.row, numbers, kept.side + _ANSWERED * kept.answered]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        members = members_of(sorted(operator.slot for operator in operators))
        self._keep(row, members, side % _ANSWERED, side >= _ANSWERED)
        self._attend()

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        left, right = self._reach
        if self.kind == "absence":
            hashed = "AI-index on dynamic equality; " if self._keys else ""
            return f"{hashed}instances leave after {left} ticks"
        hashed = "hash on dynamic equality; " if self._keys else ""
        given_up = f"; {self._bound}" if str(self._bound) else ""
        return f"{hashed}left rows leave after {left} ticks, right ones after {right}{given_up}"

    # -- rows ------------------------------------------------------------------------------

    def receive(self, row: Row, members: Members) -> None:
        """Consume a left row: it meets the right rows that wait, and may wait for later ones."""
        self._arrive(_LEFT, row, members)

    def match(self, row: Row) -> None:
        """Consume a right row: it meets the left rows that wait, and may wait for later ones."""
        self._arrive(_RIGHT, row, 0)

    def _arrive(self, side: int, row: Row, members: Members) -> None:
        if row[2] < self._since:
            return
        key = self._keys[side](row) if self._keys else None
        group = self._kept[1 - side].get(key, {}) if key is not None or not self._keys else {}
        now = self._lane.now
        # Rows that are too many to be tried come out neither in pairs nor alone.
        waiting = [(one.row, one.members if side else members) for one in group.values()]
        self._bound.attempt(now, len(group), waiting)
        over = self._bound.over
        tried = not (over and self._definition.paired)
        if over and tried:  # NOT FOLLOWED BY: only the streams over the bound lose their rows
            for one in list(group.values()):
                self._forget(one, over)
            group = self._kept[_LEFT].get(key, {})
        partners = self._partners(side, row, group) if tried else list(group.values())
        if self._definition.paired and tried:
            pairs: list[tuple[Row, Members]] = []
            for other in partners:
                a, b = (row, other.row) if side == _LEFT else (other.row, row)
                times = min(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2])
                readers = members if side == _LEFT else other.members
                pairs.append(((*times, *a[VALUES:], *b[VALUES:]), readers))
            for pair, readers in self._bound.within(now, pairs):
                self._output.emit(pair, readers)
        for other in partners:
            self._answer(other)
        if self._keeps[side]:
            self._keep(row, members, side, bool(partners))

    def _partners(self, side: int, row: Row, group: Mapping[int, UnpairedRow]) -> list[UnpairedRow]:
        """Return the rows of a group of the other side that make a pair with a row."""
        if self._scan is not None:
            return self._scan(tuple(group.values()), row, self._constants) if side else []
        definition, found = self._definition, []
        for other in group.values():
            a, b = (row, other.row) if side == _LEFT else (other.row, row)
            within = definition.lower <= b[1] - a[1] <= definition.upper
            if within and self._holds(a, b, self._constants):
                found.append(other)
        return found

    def _keep(self, row: Row, members: Members, side: int, answered: bool) -> None:
        key = self._keys[side](row) if self._keys else None
        self._last += 1
        self._store(UnpairedRow(row, members, side, answered, key, self._last))
        self._lane.touch(self)

    def _store(self, one: UnpairedRow) -> None:
        self._kept[one.side].setdefault(one.key, {})[one.number] = one
        self._lane.journal.keep(self, one)
        deadline = one.row[1] + self._reach[one.side]
        if deadline not in self._due:
            self._lane.flush_at(deadline, self)
        self._due[deadline][one.number] = one

    def _answer(self, one: UnpairedRow) -> None:
        """Note that a row has had a partner; drop it if pairs are not emitted."""
        if not self._definition.paired:
            self._drop(one)
        elif not one.answered:
            self._lane.journal.drop((one,))
            self._store(one._replace(answered=True))

    def _drop(self, one: UnpairedRow) -> None:
        del self._due[one.row[1] + self._reach[one.side]][one.number]
        group = self._kept[one.side][one.key]
        del group[one.number]
        if not group:
            del self._kept[one.side][one.key]
        self._lane.journal.drop((one,))
        self._lane.touch(self)

    # -- deadlines -------------------------------------------------------------------------

    def awaiting(self, time: int) -> Iterator[Operator]:
        for one in self._due.get(time, {}).values():
            if self._definition.alone[one.side] and not one.answered:
                slots = list(self._owners) if one.side else slots_of(one.members)
                yield from [self._owners[slot] for slot in slots]

    def flush(self, now: int) -> None:
        """Drop the rows whose deadline this epoch is; emit those that had no partner."""
        definition = self._definition
        for one in list(self._due.get(now, {}).values()):
            side = one.side
            self._drop(one)
            if one.answered or not definition.alone[side]:
                continue
            row, nulls = one.row, self._nulls[side]
            values = row[VALUES:]
            both = (*values, *nulls) if side == _LEFT else (*nulls, *values)
            readers = members_of(sorted(self._owners)) if side else one.members
            self._output.emit((now if definition.moment else row[0], now, row[2], *both), readers)
        self._due.pop(now, None)

    def finish(self, now: int) -> None:
        self._attend()
