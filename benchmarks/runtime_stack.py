"""The basic algorithm: a runtime stack of the automaton's active states (SS and SC).

The automaton has a state for each component, with a self-loop that any event takes.  Each event
pushes a cell on the stack: the states that are active now, as instances with one or two
predecessors.  These are itself in the cell before (the self-loop) and the state before it there
(the event's own transition).  Sequences are found by a search from the newest cell back to the
oldest of the window (Wu, Diao and Rizvi 2006, section 3.2, with the window tested in the search).

It is the baseline of the paper's experiments: `BASIC` makes an engine scan so.  An event is any row
of the inputs' channels: streams that are labelled sharable are one event stream, as the paper's is,
whatever their types.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from cep_core.algebra.patterns import conjuncts_in
from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.clock import BEGINNING
from cep_core.dataflow.mop import MOp, Operator, Wanted, Wire
from cep_core.events import Row
from cep_core.operators.pattern.conditions import Cells
from cep_core.operators.pattern.matching import matching_for
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.operators.shared_runs import members_in
from cep_core.plan.plan import Builder, Plan

# an instance: [itself in the cell before, the state before it there, the event if it is there]
Instance: TypeAlias = list[Any]
Cell: TypeAlias = tuple[int, list[Instance | None]]  # the time, and an instance for each state
_ROOT: Instance = [None, None, None, BEGINNING]


class RuntimeStack(ActiveStacks):
    """One sequence by a search over the whole stack; conditions are tested on whole sequences."""

    def __init__(self, first: Wanted, number: int, bystanders: Sequence[Operator] = ()) -> None:
        """``bystanders`` are the streams of the same event stream that no component reads."""
        super().__init__(first, number)
        self._bystanders = bystanders
        self._others: list[Wire] = []
        self._cells: deque[Cell] = deque()
        self._conditions = self._shape.on_whole(
            conjuncts_in(self._shape.pattern.predicate, self._shape.parts)
        )

    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        taken = [place for place, one in enumerate(self._inputs) if one == input]

        def receive(row: Row, members: Members) -> None:
            if row[2] >= self._since:
                self.advance(row, taken)

        return receive

    def add(self, wanted: Wanted) -> Operator:
        first = not self.operators
        operator = super().add(wanted)
        if first:
            for source in self._bystanders:
                wire = Wire(Port(self, lambda row, members: self.advance(row, ())), self._lane)
                wire.connect(source)
                self._others.append(wire)
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        if not self.operators:
            for wire, source in zip(self._others, self._bystanders, strict=True):
                wire.disconnect(source)

    def evict(self, watermark: int) -> None:
        super().evict(watermark)
        self._prune(watermark - self._queries.longest)
        if self._cells:
            self._arm(watermark, self._queries.longest)

    def _kept(self) -> Iterator[tuple[int, Row, int]]:
        for _, instances in self._cells:
            for component, instance in enumerate(instances):
                if instance is not None and instance[2] is not None:
                    yield component, instance[2], 1

    def instances(self) -> int:
        return sum(one is not None for _, instances in self._cells for one in instances)

    def active(self) -> list[tuple[int, list[int]]]:
        """Return the time of each cell with the states that are active in it."""
        return [
            (time, [state for state, one in enumerate(instances, 1) if one is not None])
            for time, instances in self._cells
        ]

    # -- rows ------------------------------------------------------------------------------

    def advance(self, row: Row, taken: Sequence[int]) -> None:
        """Make the transitions of an event; those into the last state complete sequences."""
        time = row[1]
        before = self._cells[-1][1] if self._cells else [None] * self._last
        if self._last in taken and (not self._last or before[self._last - 1] is not None):
            self._find(row, before)
        if not self._last:
            return
        cell: list[Instance | None] = []
        for state in range(self._last):
            loop, forward = before[state], None
            if state in taken:
                forward = before[state - 1] if state else _ROOT
            if forward is not None:
                cell.append([loop, forward, row, time])
            else:
                cell.append(None if loop is None else [loop, None, None, time])
        self._cells.append((time, cell))
        window = self._queries.longest
        self._prune(time - window)
        self._arm(time, window)

    def _prune(self, oldest: int) -> None:
        """Drop the cells up to a time; what remains points to them no more."""
        cells = self._cells
        dropped = False
        while cells and cells[0][0] <= oldest:
            cells.popleft()
            dropped = True
        if dropped and cells:
            for state, instance in enumerate(cells[0][1]):
                if instance is not None:
                    instance[0] = None
                    instance[1] = _ROOT if not state and instance[2] is not None else None

    def _find(self, row: Row, before: Sequence[Instance | None]) -> None:
        """Emit the sequences that a row completes, going back from a cell."""
        found: list[Cells] = []
        if self._last:
            oldest = row[1] - self._queries.longest
            self._walk(before[self._last - 1], self._last - 1, (row,), oldest, found)
        else:
            found.append((row,))
        holding, everyone = self._queries.constants.holding, self._mask_of(list(self.operators))
        if self._conditions:
            found = [one for one in found if holding(self._conditions, one, (), everyone)]
        if found:
            values = self._shape.values
            made = [(m[0][0], row[1], min([e[2] for e in m]), *values(m)) for m in found]
            self._output.emit_all(made, members_in(everyone))

    def _walk(
        self,
        instance: Instance | None,
        state: int,
        later: Cells,
        limit: int,
        found: list[Cells],
    ) -> None:
        begins = later[0][0]
        while instance is not None and instance[3] > limit:
            row = instance[2]
            if row is not None and row[1] < begins:
                if state:
                    self._walk(instance[1], state - 1, (row, *later), limit, found)
                else:
                    found.append((row, *later))
            instance = instance[0]


def _basic(plan: Plan, wanted: Wanted, number: int) -> MOp:
    made = matching_for(wanted, number)
    if not isinstance(made, ActiveStacks):
        return made
    channels = {one.channel for one in wanted.inputs}
    others = [one for one in plan.sources.values() if one.channel in channels]
    return RuntimeStack(wanted, number, [one for one in others if one not in wanted.inputs])


BASIC: Mapping[str, Builder] = {"pattern_match": _basic}
"""The builders of an engine that finds sequences by the basic algorithm."""
