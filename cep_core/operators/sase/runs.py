"""Runs: sequences by an automaton whose partial matches go forward, event by event.

It computes what stacks cannot: repeated components, and strategies that select by the rows in
between (`cep_core.algebra.patterns`).  A *run* is a partial match that waits for its next row;
runs lie by
partition and state.  A row meets the runs that ended before it began.  Runs are deleted and
installed when the epoch ends, so that simultaneous rows meet the same ones.

The strategies differ in the runs that are deleted:

- *any*: a run that is met stays; the longer run is added.
- *next*: a run that is met is deleted.
- *strict*: all runs are deleted when any input has had a row; *partition*: those of the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members, Port, members_of
from cep_core.dataflow.clock import END
from cep_core.dataflow.mop import Number, Operator, OrderedMOp, SoleMOp, Wanted, Wire
from cep_core.events import VALUES, Row
from cep_core.operators.sase.pattern import Scan
from cep_core.operators.sase.scan import KeyOf, key_function
from cep_core.operators.sase.transitions import Cells, Transitions


class Run:
    """A partial match: cells, times, the last component that is bound, and whether it was met."""

    __slots__ = ("cells", "end", "first", "first_end", "met", "start", "state")

    def __init__(
        self, cells: Cells, start: int, end: int, first: int, first_end: int, state: int
    ) -> None:
        self.cells = cells
        self.start = start
        self.end = end
        self.first = first
        self.first_end = first_end
        self.state = state
        self.met = False


class Runs(SoleMOp, OrderedMOp):
    """Sequences of one definition."""

    kind = "sequence_scan"

    def __init__(self, first: Wanted, number: int, *, partitioned: bool = True) -> None:
        """``partitioned`` says whether equivalence tests make partitions."""
        super().__init__(first, number)
        definition = cast(Scan, first.definition)
        pattern = definition.pattern
        self.pattern = pattern
        self._constants = definition.constants
        self._strategy = pattern.strategy
        self._size = len(pattern.components)
        self._repeated = [component.repeated for component in pattern.components]
        self._window = END if first.window is None else first.window
        self._widths = [first.inputs[c.input].wanted.width for c in pattern.components]
        self._keys: list[KeyOf | None] = [None] * self._size
        self._inputs_keys: list[KeyOf | None] = [None] * len(first.inputs)
        rest = self._read_keys(partitioned)
        self._transitions = Transitions(pattern, rest)
        self._wires = [
            Wire(Port(self, self._receiver(i)), self._lane) for i in range(len(first.inputs))
        ]
        self._groups: dict[Any, list[list[Run]]] = {}
        self._pending: list[tuple[Any, Run]] = []
        self._broken: dict[Any, None] = {}  # partitions that had a row, or runs that were met

    # -- the plan --------------------------------------------------------------------------

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self._lane.drop(self)

    def instances(self) -> int:
        return sum(1 for _ in self.kept())

    def entries(self) -> int:
        return len(self._groups) if self._keys[0] is not None else 0

    def indexes(self) -> str:
        """Describe how sequences are found."""
        if self._keys[0] is None:
            return "runs of an automaton"
        return f"runs of an automaton, partitioned by {counted(self._tests, 'test', 'tests')}"

    def saved(self, kept: Run, number: Number) -> list[Any]:
        return [self._flat(kept), list(map(number, self.operators)), kept.state]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        start, end, first, first_end, *values = row
        held = iter(values)
        cells = [self._cell(component, held) for component in range(side + 1)]
        run = Run(tuple(cells), start, end, first, first_end, side)
        last = cells[side][1] if self._repeated[side] else cells[side]
        self._install(self._group_key(side, last), run)

    # -- rows ------------------------------------------------------------------------------

    def finish(self, now: int) -> None:
        """Delete runs and install the new ones."""
        super().finish(now)
        strategy = self._strategy
        if strategy == "strict":
            self._groups.clear()
        elif strategy == "partition":
            for key in self._broken:
                self._groups.pop(key, None)
        elif strategy == "next":
            for key in self._broken:
                self._keep(key, lambda run: not run.met)
        self._broken.clear()
        pending, self._pending = self._pending, []
        for key, run in pending:
            self._install(key, run)

    def evict(self, watermark: int) -> None:
        """Drop runs that began too long before any row from the watermark on."""
        super().evict(watermark)
        oldest = watermark - self._window
        for key in list(self._groups):
            self._keep(key, lambda run: run.first_end > oldest)
        if self._groups:
            self._arm(watermark, self._window)

    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the receiver of an input's rows."""
        taken = self.pattern.reading(input)
        key_of = self._inputs_keys[input]
        strict, partition = self._strategy == "strict", self._strategy == "partition"

        def receive(row: Row, members: Members) -> None:
            if row[2] < self._since:
                return
            if strict:
                self._touch()
            elif partition and key_of is not None:
                key = key_of(row)
                if key is not None:
                    self._broken[key] = None
                    self._touch()
            for component in taken:
                self._meet(component, row)

        return receive

    def _meet(self, component: int, row: Row) -> None:
        """Extend runs with a row as a component."""
        key = self._group_key(component, row)
        if key is None and self._keys[component] is not None:
            return
        constants, transitions = self._constants, self._transitions
        groups = self._groups.get(key)
        begins = transitions.begin[component]
        if component == 0:
            if begins((), row, constants):
                cell = transitions.started(0, row)
                self._advance(key, Run((cell,), row[0], row[1], row[2], row[1], 0))
        elif groups is not None:
            for run in groups[component - 1]:
                if self._reaches(run, row) and begins(run.cells, row, constants):
                    cells = (*run.cells, transitions.started(component, row))
                    self._follow(key, run, cells, row, component)
        if groups is not None and self._repeated[component]:
            takes = transitions.take[component]
            for run in groups[component]:
                if self._reaches(run, row) and takes(run.cells, row, constants):
                    cell = transitions.longer(component, run.cells[component], row)
                    self._follow(key, run, (*run.cells[:component], cell), row, component)

    def _reaches(self, run: Run, row: Row) -> bool:
        return bool(run.end < row[0] and row[1] - run.first_end < self._window)

    def _follow(self, key: Any, run: Run, cells: Cells, row: Row, state: int) -> None:
        if self._strategy == "next" and not run.met:
            run.met = True
            self._broken[key] = None
            self._touch()
        first = min(run.first, row[2])
        self._advance(key, Run(cells, run.start, row[1], first, run.first_end, state))

    def _advance(self, key: Any, run: Run) -> None:
        """Emit a run if it is whole, and keep it if it may become longer."""
        whole = run.state == self._size - 1
        if whole and self._transitions.accept(run.cells, (), self._constants):
            values = self._transitions.values(run.cells)
            self._output.emit((run.start, run.end, run.first, *values), members_of([self._slot]))
        if not whole or self._repeated[run.state]:
            self._pending.append((key, run))
            self._touch()

    def _install(self, key: Any, run: Run) -> None:
        groups = self._groups.get(key)
        if groups is None:
            groups = self._groups[key] = [[] for _ in range(self._size)]
        groups[run.state].append(run)
        self._arm(run.end, self._window)

    def _keep(self, key: Any, lives: Callable[[Run], bool]) -> None:
        """Keep the runs of a partition that live."""
        groups = self._groups.get(key)
        if groups is None:
            return
        kept = [[run for run in runs if lives(run)] for runs in groups]
        if any(kept):
            self._groups[key] = kept
        else:
            del self._groups[key]

    def kept(self) -> Iterator[Run]:
        for groups in self._groups.values():
            for runs in groups:
                yield from runs

    # -- partitions ------------------------------------------------------------------------

    def _read_keys(self, partitioned: bool) -> list[Any]:
        """Set the partition keys; return the conditions that they do not answer."""
        pattern = self.pattern
        conjuncts = list(pattern.conjuncts)
        self._tests = 0
        if self._size == 1 and not self._repeated[0]:
            return conjuncts  # nothing follows, so nothing need be of one partition
        if self._strategy == "partition":
            self._inputs_keys = [
                None if columns is None else key_function(columns) for columns in pattern.partition
            ]
            self._keys = [self._inputs_keys[c.input] for c in pattern.components]
            self._tests = max(len(columns or ()) for columns in pattern.partition)
        elif partitioned and pattern.tests:
            self._tests = len(pattern.tests)
            self._keys = [
                key_function(tuple([test.columns[c] for test in pattern.tests]))
                for c in range(self._size)
            ]
            answered = {one for test in pattern.tests for one in test.conjuncts}
            conjuncts = [one for one in conjuncts if one not in answered]
        return conjuncts

    def _group_key(self, component: int, row: Row) -> Any:
        key_of = self._keys[component]
        return None if key_of is None else key_of(row)

    # -- snapshots -------------------------------------------------------------------------

    @property
    def _slot(self) -> int:
        return next(iter(self.operators)).slot

    def _flat(self, run: Run) -> Row:
        """Return a run as one row."""
        values: list[Any] = []
        for component, cell in enumerate(run.cells):
            if not self._repeated[component]:
                values += cell
                continue
            first, last, count, *held = cell
            values += [*first, *last, count]
            known = self._transitions.accumulators[component]
            for one, value in zip(known, held, strict=True):
                values += value if one.role == "AVG" else [value]
        return (run.start, run.end, run.first, run.first_end, *values)

    def _cell(self, component: int, values: Iterator[Any]) -> Any:
        """Return the cell of a component from the next values of a run's row."""
        size = VALUES + self._widths[component]
        first = tuple(islice(values, size))
        if not self._repeated[component]:
            return first
        last, count = tuple(islice(values, size)), next(values)
        held = [
            tuple(islice(values, 2)) if one.role == "AVG" else next(values)
            for one in self._transitions.accumulators[component]
        ]
        return (first, last, count, *held)
