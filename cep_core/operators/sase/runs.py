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

Queries of one shape share the m-op: a run has the set of queries for which it stands, as in
`operators.pattern.matching`, and is deleted for those of them that a strategy says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import islice
from typing import Any, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members, slots_of
from cep_core.dataflow.mop import Number, Operator, Saved, Wanted
from cep_core.events import VALUES, Row
from cep_core.operators.query_masks import members_in, shared_channels
from cep_core.operators.sase.pattern import Scan
from cep_core.operators.sase.scan import KeyOf, key_function
from cep_core.operators.sase.transitions import Cells, Transitions
from cep_core.operators.shared_runs import SharedRuns


class Run:
    """A partial match: cells, times, the last component that is bound, and masks of queries.

    ``mask`` has those for which it stands, ``met`` those for which it was met.
    """

    __slots__ = ("cells", "end", "first", "first_end", "mask", "met", "start", "state")

    def __init__(
        self, cells: Cells, start: int, end: int, first: int, first_end: int, state: int, mask: int
    ) -> None:
        self.cells = cells
        self.start = start
        self.end = end
        self.first = first
        self.first_end = first_end
        self.state = state
        self.mask = mask
        self.met = 0


class Runs(SharedRuns):
    """Sequences of one shape over the same channels."""

    kind = "sequence_scan"

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        definition = cast(Scan, first.definition)
        pattern = definition.pattern
        self.pattern = pattern
        self._strategy = pattern.strategy
        self._size = len(pattern.components)
        self._repeated = [component.repeated for component in pattern.components]
        self._widths = [first.inputs[c.input].wanted.width for c in pattern.components]
        self._keys: list[KeyOf | None] = [None] * self._size
        self._inputs_keys: list[KeyOf | None] = [None] * len(first.inputs)
        rest = self._read_keys()
        self._transitions = Transitions(pattern, rest)
        self._groups: dict[Any, list[list[Run]]] = {}
        self._pending: list[tuple[Any, Run]] = []
        self._broken: dict[Any, int] = {}  # partitions that had a row, or runs that were met

    # -- the plan --------------------------------------------------------------------------

    def _forget_query(self, slot: int) -> None:
        for key in list(self._groups):
            self._forget(key, lambda run: 1 << slot)

    def instances(self) -> int:
        return sum(1 for _ in self.kept())

    def entries(self) -> int:
        return len(self._groups) if self._keys[0] is not None else 0

    def indexes(self) -> str:
        """Describe how sequences are found."""
        said = "runs of an automaton"
        if self._keys[0] is not None:
            said += f", partitioned by {counted(self._tests, 'test', 'tests')}"
        if len(self.operators) > 1:
            said += f"; one run for {len(self.operators)} queries"
        return said

    def dump(self, number: Number) -> Saved:
        by_slot = {operator.slot: number(operator) for operator in self.operators}
        return [
            [self._flat(run), [by_slot[slot] for slot in slots_of(run.mask)], run.state]
            for run in self.kept()
        ]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        start, end, first, first_end, *values = row
        held = iter(values)
        cells = [self._cell(component, held) for component in range(side + 1)]
        mask = 0
        for operator in operators:
            mask |= 1 << operator.slot
        run = Run(tuple(cells), start, end, first, first_end, side, mask)
        last = cells[side][1] if self._repeated[side] else cells[side]
        self._install(self._group_key(side, last), run)

    # -- rows ------------------------------------------------------------------------------

    def finish(self, now: int) -> None:
        """Delete runs and install the new ones."""
        super().finish(now)
        broken = self._broken
        if self._strategy == "strict" and broken:
            broken = dict.fromkeys(self._groups, broken[None])
        for key, queries in broken.items():
            self._forget(key, partial(_ended, queries))
        self._broken.clear()
        pending, self._pending = self._pending, []
        for key, run in pending:
            self._install(key, run)

    def evict(self, watermark: int) -> None:
        """Drop runs that began too long before any row from the watermark on."""
        super().evict(watermark)
        oldest = watermark - self._queries.longest
        for key in list(self._groups):
            self._forget(key, lambda run: 0 if run.first_end > oldest else run.mask)
        if self._groups:
            self._arm(watermark, self._queries.longest)

    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the receiver of an input's rows."""
        taken = self.pattern.reading(input)
        key_of = self._inputs_keys[input]
        strict, partition = self._strategy == "strict", self._strategy == "partition"
        masks, broken = self._queries, self._broken

        def receive(row: Row, members: Members) -> None:
            if row[2] < self._since:
                return
            mask = masks.reading(input, members)
            if strict:
                broken[None] = broken.get(None, 0) | mask
                self._touch()
            elif partition and key_of is not None:
                key = key_of(row)
                if key is not None:
                    broken[key] = broken.get(key, 0) | mask
                    self._touch()
            for component in taken:
                self._meet(component, row, mask)

        return receive

    def _meet(self, component: int, row: Row, wanting: int) -> None:
        """Extend runs with a row as a component, for the queries that select it."""
        key = self._group_key(component, row)
        if key is None and self._keys[component] is not None:
            return
        holding, transitions = self._queries.constants.holding, self._transitions
        groups = self._groups.get(key)
        begins = transitions.begin[component]
        if component == 0:
            if mask := holding(begins, (), row, wanting):
                cell = transitions.started(0, row)
                self._advance(key, Run((cell,), row[0], row[1], row[2], row[1], 0, mask))
        elif groups is not None:
            for run in groups[component - 1]:
                mask = self._reaching(run, row, wanting)
                if mask and (mask := holding(begins, run.cells, row, mask)):
                    cells = (*run.cells, transitions.started(component, row))
                    self._follow(key, run, cells, row, component, mask)
        if groups is not None and self._repeated[component]:
            takes = transitions.take[component]
            for run in groups[component]:
                mask = self._reaching(run, row, wanting)
                if mask and (mask := holding(takes, run.cells, row, mask)):
                    cell = transitions.longer(component, run.cells[component], row)
                    cells = (*run.cells[:component], cell)
                    self._follow(key, run, cells, row, component, mask)

    def _reaching(self, run: Run, row: Row, wanting: int) -> int:
        """Return the queries for which a row is behind a run and in its window."""
        mask = run.mask & wanting
        if not mask or run.end >= row[0]:
            return 0
        return self._queries.within(mask, row[1] - run.first_end)

    def _follow(self, key: Any, run: Run, cells: Cells, row: Row, state: int, mask: int) -> None:
        if self._strategy == "next":
            run.met |= mask
            self._broken[key] = 0
            self._touch()
        first = min(run.first, row[2])
        self._advance(key, Run(cells, run.start, row[1], first, run.first_end, state, mask))

    def _advance(self, key: Any, run: Run) -> None:
        """Emit a run if it is whole, and keep it if it may become longer."""
        whole = run.state == self._size - 1
        if whole:
            holding, accept = self._queries.constants.holding, self._transitions.accept
            if mask := holding(accept, run.cells, (), run.mask):
                values = self._transitions.values(run.cells)
                self._output.emit((run.start, run.end, run.first, *values), members_in(mask))
        if not whole or self._repeated[run.state]:
            self._pending.append((key, run))
            self._touch()

    def _install(self, key: Any, run: Run) -> None:
        groups = self._groups.get(key)
        if groups is None:
            groups = self._groups[key] = [[] for _ in range(self._size)]
        groups[run.state].append(run)
        self._arm(run.end, self._queries.longest)

    def _forget(self, key: Any, gone: Callable[[Run], int]) -> None:
        """Delete runs of a partition for the queries for which they are gone."""
        groups = self._groups.get(key)
        if groups is None:
            return
        for runs in groups:
            for run in runs:
                run.mask &= ~gone(run)
        kept = [[run for run in runs if run.mask] for runs in groups]
        if any(kept):
            self._groups[key] = kept
        else:
            del self._groups[key]

    def kept(self) -> Iterator[Run]:
        for groups in self._groups.values():
            for runs in groups:
                yield from runs

    # -- partitions ------------------------------------------------------------------------

    def _read_keys(self) -> list[Any]:
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
        elif pattern.tests:
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


def _ended(queries: int, run: Run) -> int:
    """Return the queries for which a run has ended: these, and those for which it was met."""
    return queries | run.met


def sharing_key(wanted: Wanted) -> Hashable:
    """Return the key of sequences whose runs one m-op keeps.

    As of patterns (`operators.pattern.matching`), those that select all inputs narrowly keep m-ops
    of their own.
    """
    pattern = cast(Scan, wanted.definition).pattern
    return ("runs", pattern, shared_channels(wanted), wanted.lane, wanted.since)
