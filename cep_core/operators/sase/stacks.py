"""Active instance stacks: sequence scan with AIS, PAIS or joint partitions (SS).

Each component has a stack of the rows that may be part of a sequence, in order of time.  A row
stores its RIP, the height of the stack before it (Wu, Diao and Rizvi 2006, section 4.1).  With an
equivalence test there are such stacks for each value of its attribute; a row is dropped when the
stack before it is empty in its partition (PAIS, section 4.2.1).  It is also dropped when that stack
begins no sequence that is young enough (windows in SS, section 4.3): each row stores the latest
begin of a sequence that ends with it.

Differs from section 4.2.2: with several equivalence tests the optimiser takes them jointly as one
key.  The paper fears that partitions would be too many; in a hash table there are only those with
rows, fewer than rows.  "pais" keeps one test in the key and leaves the others to construction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members
from cep_core.dataflow.mop import Wanted
from cep_core.dataflow.options import Options
from cep_core.events import Row
from cep_core.operators.sase.construction import END_OF, Construction, construction
from cep_core.operators.sase.pattern import Conjunct, Pattern, Test
from cep_core.operators.sase.scan import KeyOf, SequenceScanMOp, key_function


class Stack:
    """Rows of a component in order of time, each with its RIP.

    A RIP counts the rows that were ever pushed on the stack before it; ``gone`` of them have been
    pruned.  ``starts`` has for each row the latest begin of a sequence that ends with it or below.
    """

    __slots__ = ("gone", "rips", "rows", "starts")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.rips: list[int] = []
        self.starts: list[int] = []
        self.gone = 0

    def push(self, row: Row, rip: int, start: int) -> None:
        """Push a row."""
        starts = self.starts
        self.rows.append(row)
        self.rips.append(rip)
        starts.append(start if not starts or starts[-1] < start else starts[-1])

    def before(self, row: Row) -> int:
        """Count the rows that end before a row begins."""
        rows = self.rows
        if not rows or rows[-1][1] < row[0]:
            return len(rows)
        return bisect_left(rows, row[0], key=END_OF)

    def prune(self, oldest: int) -> None:
        """Drop the rows without a beginning after a time."""
        dead = bisect_right(self.starts, oldest)
        if dead:
            del self.rows[:dead], self.rips[:dead], self.starts[:dead]
            self.gone += dead


class StackScan(SequenceScanMOp):
    """Sequences by active instance stacks in one partitioning, or in several at a time."""

    def __init__(self, first: Wanted, number: int, options: Options, partitionings: int) -> None:
        super().__init__(first, number)
        self._dynamic = options.dynamic_filtering
        self._scan_windows = options.scan_windows
        self._construction_windows = options.construction_windows
        self._partitionings: list[dict[Any, list[Stack]]] = [{} for _ in range(partitionings)]

    def constructed_by(
        self, pattern: Pattern, answered: Collection[Conjunct], filtered: Sequence[Conjunct] = ()
    ) -> tuple[Construction, bool]:
        """Return the search that leaves out what partitions answer, and filters by the others."""
        rest = [one for one in pattern.conjuncts if one not in answered]
        early, late = (rest, filtered) if self._dynamic else ((), [*filtered, *rest])
        windows = self._construction_windows
        return construction(pattern, early, late, windows), windows and not late

    def evict(self, watermark: int) -> None:
        super().evict(watermark)
        oldest = watermark - self._window
        for partitions in self._partitionings:
            for key, stacks in list(partitions.items()):
                for stack in stacks:
                    stack.prune(oldest)
                if not any(stack.rows for stack in stacks):
                    del partitions[key]
        if any(self._partitionings):
            self._look_again(watermark)

    def kept(self) -> Iterator[tuple[int, Row]]:
        for component in range(self._last):
            for stacks in self._partitionings[0].values():
                for row in stacks[component].rows:
                    yield component, row

    def instances(self) -> int:
        return sum(len(stack.rows) for stack in self._stacks())

    def entries(self) -> int:
        return sum(map(len, self._partitionings))

    def contents(self) -> list[dict[Any, list[list[tuple[Row, int]]]]]:
        """Return the stacks of each partitioning by key: rows with their RIPs."""
        return [
            {
                key: [list(zip(stack.rows, stack.rips, strict=True)) for stack in stacks]
                for key, stacks in partitions.items()
            }
            for partitions in self._partitionings
        ]

    def clear(self) -> None:
        for partitions in self._partitionings:
            partitions.clear()

    def _stacks(self) -> Iterator[Stack]:
        for partitions in self._partitionings:
            for stacks in partitions.values():
                yield from stacks

    def _push(self, stack: Stack, row: Row, rip: int, start: int) -> None:
        """Push a row; if half of the stack is too old, prune it first."""
        if self._scan_windows:
            starts, oldest = stack.starts, row[1] - self._window
            if starts and starts[len(starts) >> 1] <= oldest:
                stack.prune(oldest)
        stack.push(row, rip, start)

    def _look_again(self, now: int) -> None:
        if self._scan_windows:
            self._arm(now, self._window)


class ActiveStacks(StackScan):
    """Sequences by active instance stacks, partitioned by some of the equivalence tests."""

    def __init__(
        self, first: Wanted, number: int, options: Options, tests: int | None = None
    ) -> None:
        """``tests`` is how many equivalence tests make the key; None: all."""
        super().__init__(first, number, options, 1)
        self._tests = tests
        self._chosen: tuple[Test, ...] = self.pattern.tests[:tests]
        self._partitions = self._partitionings[0]

    def build(self, pattern: Pattern) -> tuple[Construction, bool]:
        chosen = pattern.tests[: self._tests]
        return self.constructed_by(pattern, {one for test in chosen for one in test.conjuncts})

    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        takers = [self._taker(component) for component in self.pattern.reading(input)]
        if len(takers) == 1:
            return takers[0]

        def receive(row: Row, members: Members) -> None:
            for take in takers:
                take(row, members)

        return receive

    def entries(self) -> int:
        return super().entries() if self._chosen else 0

    def load_row(self, component: int, row: Row) -> None:
        self.push_row(component, row, self._key(component), False)

    def way(self) -> str:
        if not self._chosen:
            return "active instance stacks"
        tests = counted(len(self._chosen), "equivalence test", "equivalence tests")
        return f"active instance stacks, partitioned by {tests}"

    # -- rows ------------------------------------------------------------------------------

    def _key(self, component: int) -> KeyOf | None:
        if not self._chosen:
            return None
        return key_function(tuple([test.columns[component] for test in self._chosen]))

    def _taker(self, component: int) -> Callable[[Row, Members], None]:
        """Return the receiver of rows as a component."""
        key_of, since = self._key(component), self._since

        def receive(row: Row, members: Members) -> None:
            if row[2] >= since:
                self.push_row(component, row, key_of, True)

        return receive

    def push_row(self, component: int, row: Row, key_of: KeyOf | None, new: bool) -> None:
        """Push a row on its stack, or complete sequences with it."""
        key: Any = None
        if key_of is not None:
            key = key_of(row)
            if key is None:
                return
        stacks = self._partitions.get(key)
        end = row[1]
        if component == 0:
            if not self._last:
                self._complete(row, 0, ())
                return
            if stacks is None:
                stacks = self._partitions[key] = [Stack() for _ in range(self._last)]
                self._look_again(end)
            rip, start = 0, end
        else:
            if stacks is None:
                return
            under = stacks[component - 1]
            before = under.before(row)
            if not before:
                return
            start = under.starts[before - 1]
            if new and self._scan_windows and end - start >= self._window:
                return
            if component == self._last:
                self._complete(row, before, stacks)
                return
            rip = before + under.gone
        self._push(stacks[component], row, rip, start)
