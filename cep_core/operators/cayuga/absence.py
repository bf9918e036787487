"""Absence: left rows that no right row answers in time; with `otherwise`, answering pairs as well.

A right row b answers an instance a iff a.t1 < b.t0, b.t1 - a.t1 <= T and the predicate holds.  An
unanswered instance is emitted when the epoch of its deadline a.t1 + T has all its rows.  Its
interval is [a.t0, a.t1 + T], the whole time that was observed.

It extends the algebra of Hong 2009, and has two relatives.

- SASE's negated end (Wu, Diao and Rizvi 2006) is WITHIN(SEQ(A, !B), T).  There the window begins
  with the first row of the left sequence and its last tick is t0 + T - 1.  Here T counts from the
  end of the left row, and a row at exactly T answers.
- NEXT's exception E1 \\ E2 (Schultz-Møller, Migliavacca and Pietzuch 2009) fails a pattern when
  E2 occurs, but has no end of its own.  Its time operator E1@T has one: it is an absence whose
  result is the moment of the deadline.

It is a state as `;` is: candidates come from its AN-index and AI-index.  What differs is that each
instance has a deadline, also one that nothing can answer.  A new deadline sets a timer for the
tick before; there the m-op asks to be flushed in the epoch of the deadline.  So it takes its turn
by depth: after the aggregates (and absences) that its right rows come from, before those that its
own rows go to.  An m-op without a deadline in an epoch does nothing in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from cep_core.dataflow.channels import members_of, paired, slots_of, without_slot
from cep_core.dataflow.mop import Operator, OperatorNumber, Wanted
from cep_core.dataflow.predicates import BoundPredicate
from cep_core.events import Row
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.cayuga.state import Instance, StateMOp


class Expectation(NamedTuple):
    """The definition of an absence: what answers, for how many ticks, whether pairs are put out.

    Of a ``moment`` what is put out begins at the deadline.
    """

    filter: BoundPredicate
    window: int
    otherwise: bool
    moment: bool = False


class AbsenceMOp(StateMOp):
    """Absences of one definition, over streams of one left channel and one right stream.

    With `otherwise` it puts out pairs; that of an instance without answer has a right row of nulls.
    """

    kind = "absence"

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        definition = cast(Expectation, first.definition)
        super().__init__(first, number, definition.filter, index)
        self._bounds = []  # instances leave at their deadlines, not when they are dead
        self._window = definition.window
        self._otherwise = definition.otherwise
        self._moment = definition.moment
        self._nulls = (None,) * first.inputs[1].wanted.width
        self._due: dict[int, dict[int, Instance]] = {}  # by deadline and identity
        self._answered: set[int] = set()  # of these, which are kept for further pairs
        self._over: list[Instance] = []  # their deadline is the current epoch

    # -- the plan --------------------------------------------------------------------------

    def accepts(self, wanted: Wanted) -> bool:
        return super().accepts(wanted) and wanted.inputs[1] is self.active.right

    def _forget(self, slot: int) -> None:
        kept, answered = list(self.kept()), self._answered
        self._answered = set()
        self._kept.clear()
        for due in self._due.values():
            due.clear()
        for instance in kept:
            row, members = instance
            left = without_slot(members, slot)
            if left != members:
                self._lane.journal.drop((instance,))
            if left is not None:
                same = instance if left == members else (row, left)
                self._restore(same, id(instance) in answered)

    def instances(self) -> int:
        return sum(map(len, self._due.values()))

    @property
    def keeps(self) -> int:
        return self._window

    def kept(self) -> Iterator[Instance]:
        for due in self._due.values():
            yield from due.values()

    def saved(self, kept: Instance, number: OperatorNumber) -> list[Any]:
        return [*super().saved(kept, number), int(id(kept) in self._answered)]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        had = self._kept.count
        members = members_of(sorted(operator.slot for operator in operators))
        self._restore((row, members), bool(side))
        if self._kept.count and not had:
            self.wake()

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        leave = f"instances leave after {self._window} ticks"
        return "; ".join(part for part in (super().indexes(), leave) if part)

    # -- rows ------------------------------------------------------------------------------

    def match(self, row: Row) -> None:
        for instance in self._meet(row):
            self._answer(instance)
            if self._otherwise:
                self._output.emit(paired(instance[0], row), instance[1])

    def install(self, instance: Instance) -> None:
        deadline = instance[0][1] + self._window
        if deadline not in self._due:
            self._due[deadline] = {}
            self._lane.expect(deadline, self)  # or `finish` prepares, at the end of the epoch
        self._due[deadline][id(instance)] = instance
        self._lane.journal.keep(self, instance)
        super().install(instance)

    def fire(self, deadline: int) -> None:
        """Schedule `finish` for the end of the epoch."""
        self._touch()

    def awaiting(self, time: int) -> Iterator[Operator]:
        for deadline in (time, time + 1):  # for the one after it something is prepared
            for identity, (_, members) in self._due.get(deadline, {}).items():
                if identity not in self._answered:
                    yield from [self._owners[slot] for slot in slots_of(members)]

    def flush(self, now: int) -> None:
        """Emit the instances that nobody has answered until their deadline."""
        due = self._due.pop(now, None)
        if due is None:
            return
        self._lane.journal.drop(due.values())
        self._over += due.values()
        self.fire(now)
        for identity, (row, members) in due.items():
            if identity in self._answered:
                continue
            begin = now if self._moment else row[0]
            if self._otherwise:
                self._output.emit(paired(row, (now, now, row[2], *self._nulls)), members)
            else:
                self._output.emit((begin, now, *row[2:]), members)
        self._answered.difference_update(due)

    def finish(self, now: int) -> None:
        """Delete and install instances; prepare for a deadline at the next tick."""
        if self._otherwise:
            self._met.clear()  # what is answered stays until its deadline
        for instance in self._over:
            key = None if self._left_key is None else self._left_key(instance[0])
            if key in self._kept.groups:
                met = self._met.setdefault(key, set())
                if met is not None:
                    met.add(id(instance))
        self._over.clear()
        super().finish(now)
        if now + 1 in self._due:
            self._lane.prepare(now + 1, self)

    def _restore(self, instance: Instance, answered: bool) -> None:
        self.install(instance)
        if answered:
            self._answer(instance)

    def _answer(self, instance: Instance) -> None:
        """Mark an instance as answered; it may have been before."""
        due = self._due[instance[0][1] + self._window]
        if id(instance) in self._answered or id(instance) not in due:
            return
        journal = self._lane.journal
        journal.drop((instance,))
        if self._otherwise:
            self._answered.add(id(instance))
            journal.keep(self, instance)
        else:
            del due[id(instance)]
