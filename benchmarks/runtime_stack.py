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

from cep_core.dataflow.channels import Members, Port
from cep_core.dataflow.clock import BEGINNING
from cep_core.dataflow.mop import MOp, Operator, Wanted, Wire
from cep_core.events import Row
from cep_core.operators.sase.construction import Construction, RowSequence, construction
from cep_core.operators.sase.pattern import Pattern
from cep_core.operators.sase.scan import SequenceScanMOp
from cep_core.operators.sase.scans import has_runs, scan_for
from cep_core.plan.plan import Builder, Plan

# an instance: [itself in the cell before, the state before it there, the event if it is there]
Instance: TypeAlias = list[Any]
Cell: TypeAlias = tuple[int, list[Instance | None]]  # the time, and an instance for each state
_ROOT: Instance = [None, None, None, BEGINNING]


class RuntimeStack(SequenceScanMOp):
    """Sequences by a search over the whole stack; conditions are tested on whole sequences."""

    def __init__(self, first: Wanted, number: int, bystanders: Sequence[Operator] = ()) -> None:
        """``bystanders`` are the streams of the same event stream that no component reads."""
        super().__init__(first, number)
        self._bystanders = bystanders
        self._others: list[Wire] = []
        self._cells: deque[Cell] = deque()

    def build(self, pattern: Pattern) -> Construction:
        built = construction(pattern, pattern.conjuncts)

        def search(
            d: Row, n: int, p: Sequence[Instance | None], k: Sequence[Any], oldest: int
        ) -> list[RowSequence]:
            found = self._search(d, n, p, k, oldest)
            return [one for one in found if built.holds(one, k)] if pattern.conjuncts else found

        return built._replace(
            search=search,
            every=self._search,
            rows=lambda *arguments: built.make(search(*arguments)),
        )

    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        taken = self.pattern.reading(input)

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
        self._prune(watermark - self._window)
        if self._cells:
            self._arm(watermark, self._window)

    def kept(self) -> Iterator[tuple[int, Row]]:
        for _, instances in self._cells:
            for component, instance in enumerate(instances):
                if instance is not None and instance[2] is not None:
                    yield component, instance[2]

    def instances(self) -> int:
        return sum(one is not None for _, instances in self._cells for one in instances)

    def active(self) -> list[tuple[int, list[int]]]:
        """Return the time of each cell with the states that are active in it."""
        return [
            (time, [state for state, one in enumerate(instances, 1) if one is not None])
            for time, instances in self._cells
        ]

    def clear(self) -> None:
        self._cells.clear()

    def load_row(self, component: int, row: Row) -> None:
        self.advance(row, (component,))

    def way(self) -> str:
        return "a runtime stack"

    # -- rows ------------------------------------------------------------------------------

    def advance(self, row: Row, taken: Sequence[int]) -> None:
        """Make the transitions of an event; those into the last state complete sequences."""
        time = row[1]
        before = self._cells[-1][1] if self._cells else [None] * self._last
        if self._last in taken and (not self._last or before[self._last - 1] is not None):
            self._complete(row, 0, before)
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
        if self._window >= 0:
            self._prune(time - self._window)
            self._arm(time, self._window)

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

    def _search(
        self, d: Row, n: int, p: Sequence[Instance | None], k: Sequence[Any], oldest: int
    ) -> list[RowSequence]:
        """Return the sequences that a row completes, going back from a cell."""
        if not self._last:
            return [(d,)]
        found: list[RowSequence] = []
        self._walk(p[self._last - 1], self._last - 1, (d,), oldest, found)
        return found

    def _walk(
        self,
        instance: Instance | None,
        state: int,
        later: RowSequence,
        limit: int,
        found: list[RowSequence],
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


def _scan(plan: Plan, wanted: Wanted, number: int) -> MOp:
    if has_runs(wanted):
        return scan_for(wanted, number)
    channels = {one.channel for one in wanted.inputs}
    others = [one for one in plan.sources.values() if one.channel in channels]
    return RuntimeStack(wanted, number, [one for one in others if one not in wanted.inputs])


BASIC: Mapping[str, Builder] = {"sequence_scan": _scan}
"""The builders of an engine that finds sequences by the basic algorithm."""
