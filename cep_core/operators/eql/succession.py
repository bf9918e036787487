"""Succession: states that take the first of their successors, and that guards can empty.

The complete-history time model (White, Riedewald, Gehrke and Demers 2007; Schultz-Møller,
Migliavacca and Pietzuch 2009, section 3.2) knows one first among rows that end together: SUCC are
those with the least rank.  So a state collects what it may put out in an epoch, and puts it out
when the epoch has all its right rows: by depth, as aggregates do.  A row that is taken as a
successor consumes the instance, whatever becomes of it above: no instance waits until memory ends.

A guard is the failed-detection state of NEXT CEP's automata (section 3.3): a row of another stream
that ends the detection.  One of the same epoch comes before the successor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from cep_core.dataflow.channels import Members
from cep_core.dataflow.mop import Operator, Wanted
from cep_core.dataflow.predicates import BoundPredicate, Columns, values_of
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.active import ActiveIndex, Place
from cep_core.operators.cayuga.state import Instance, StateMOp


class Succession(NamedTuple):
    """The definition of ;φ: what is a successor, which is first, the result, what ends it.

    ``result`` is None if it is the values of both rows and nothing else.
    """

    filter: BoundPredicate
    rank: Columns | None
    result: Columns | None
    guards: tuple[BoundPredicate, ...]


class Repetition(NamedTuple):
    """The definition of the steps of an iteration."""

    filter: BoundPredicate
    rebind: BoundPredicate
    rank: Columns | None
    next: Columns
    guards: tuple[BoundPredicate, ...]


class First:
    """The successors of an instance in an epoch so far: those of the least rank."""

    __slots__ = ("instance", "rank", "rows")

    def __init__(self, instance: Instance, rank: Any, row: Row) -> None:
        self.instance = instance
        self.rank = rank
        self.rows = [row]


class Watch:
    """A guard of a state: in the AN-index of its own stream while the state has instances."""

    def __init__(self, state: GuardedMOp, filter: BoundPredicate, index: ActiveIndex) -> None:
        self.active = index
        self.place: Place | None = index.place(filter)
        self.constants = filter.constants
        self.scan = filter.shape.instances()
        self.key_of = _key_of(state, filter)
        self._state = state

    @property
    def label(self) -> str:
        """The name for messages."""
        return self._state.label

    def match(self, row: Row) -> None:
        """Cancel the instances that a guard's row concerns."""
        self._state.cancel(row, self)


class GuardedMOp(StateMOp):
    """Instances that wait for the first of their successors, under guards."""

    def __init__(
        self,
        first: Wanted,
        number: int,
        filter: BoundPredicate,
        rank: Columns | None,
        guards: Sequence[BoundPredicate],
        width: int | None,
        indexes: Sequence[ActiveIndex],
    ) -> None:
        super().__init__(first, number, filter, width, indexes[0])
        self.depth = 1 + max(one.depth for one in first.inputs[1:])
        self._rank = rank
        self._firsts: dict[int, First] = {}
        self._cancelled: set[int] = set()
        self._watches = [
            Watch(self, guard, index) for guard, index in zip(guards, indexes[1:], strict=True)
        ]

    # -- the plan --------------------------------------------------------------------------

    def accepts(self, wanted: Wanted) -> bool:
        """Return True if the slot is free and the guards read the same streams."""
        rights = [self.active.right, *(watch.active.right for watch in self._watches)]
        return super().accepts(wanted) and list(wanted.inputs[1:]) == rights

    def add(self, wanted: Wanted) -> Operator:
        new = not self.operators
        operator = super().add(wanted)
        if new:
            for watch, source in zip(self._watches, wanted.inputs[2:], strict=True):
                watch.active.attend(watch, source)
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        if not self.operators:
            for watch in self._watches:
                watch.active.leave(watch)

    def wake(self) -> None:
        super().wake()
        for watch in self._watches:
            watch.active.activate(watch)

    def rest(self) -> None:
        super().rest()
        for watch in self._watches:
            watch.active.deactivate(watch)

    # -- rows ------------------------------------------------------------------------------

    def match(self, row: Row) -> None:
        found = self._meet(row)
        if not found:
            return
        rank = self._rank_of(row)
        firsts = self._firsts
        if not firsts:
            self._lane.flush_later(self)
        for instance in found:
            first = firsts.get(id(instance))
            if first is None or rank < first.rank:
                firsts[id(instance)] = First(instance, rank, row)
            elif rank == first.rank:
                first.rows.append(row)

    def cancel(self, row: Row, watch: Watch) -> None:
        """End the instances that a guard's row concerns."""
        if row[2] < self._since:
            return
        groups = self._groups
        keys: Sequence[Any] = list(groups)
        if watch.key_of is not None:
            key = watch.key_of(row)
            keys = [key] if key in groups else ()
        for key in keys:
            found = watch.scan(groups[key], row, watch.constants)
            self._cancelled.update(map(id, found))
            self._note(key, found)

    def flush(self, now: int) -> None:
        """Emit the results of the epoch's successors; all its rows have arrived."""
        firsts, self._firsts = self._firsts, {}
        for identity, first in firsts.items():
            if identity not in self._cancelled:
                older, members = first.instance
                for row in first.rows:
                    self._complete(older, row, members)

    def finish(self, now: int) -> None:
        self._cancelled.clear()
        super().finish(now)

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        guards = len(self._watches)
        watched = [f"{guards} guard{'s' * (guards != 1)}"] if guards else []
        return "; ".join(part for part in (super().indexes(), *watched) if part)

    def _complete(self, older: Row, row: Row, members: Members) -> None:
        raise AssertionError(f"{self.label} completes nothing")

    def _rank_of(self, row: Row) -> tuple[bool, Any]:
        """Return the rank of a row; null and NaN come first."""
        if self._rank is None:
            return (False, None)
        rank = self._rank.shape.make(None, row, self._rank.constants)[VALUES]
        return (False, None) if rank is None or rank != rank else (True, rank)


class SuccessorMOp(GuardedMOp):
    """Successions of one definition, over streams of one left channel and one right stream."""

    kind = "successor"

    def __init__(
        self, first: Wanted, number: int, width: int, indexes: Sequence[ActiveIndex]
    ) -> None:
        definition = cast(Succession, first.definition)
        filter, rank, self._result, guards = definition
        pairs = width if self._result is None else None
        super().__init__(first, number, filter, rank, guards, pairs, indexes)

    def _complete(self, older: Row, row: Row, members: Members) -> None:
        if self._result is None:
            self._output.emit_pair(older, row, members)
        else:
            made = self._result.shape.make(older, row, self._result.constants)
            self._output.emit(made, members)


class RepeatMOp(GuardedMOp):
    """Iterations of one definition, over streams of one left channel and one right stream."""

    kind = "repeat"

    def __init__(self, first: Wanted, number: int, indexes: Sequence[ActiveIndex]) -> None:
        definition = cast(Repetition, first.definition)
        filter, rank, guards = definition.filter, definition.rank, definition.guards
        super().__init__(first, number, filter, rank, guards, None, indexes)
        self._rebind = definition.rebind
        self._next = definition.next

    def _complete(self, older: Row, row: Row, members: Members) -> None:
        if self._rebind.shape.holds(older, row, self._rebind.constants):
            made = self._next.shape.make(older, row, self._next.constants)
            self._output.emit(made, members)
            self._pend(made, members)


def _key_of(state: StateMOp, filter: BoundPredicate) -> Callable[[Row], Any] | None:
    """Return a function from a guard's row to the key of the group it ends, or None."""
    shape = filter.shape
    if state.joined is None or len(shape.disjuncts) != 1:
        return None
    rights = {left: right for left, right, _ in shape.disjuncts[0].joins}
    if not rights.keys() >= set(state.joined):
        return None
    return values_of([rights[left] for left in state.joined])
