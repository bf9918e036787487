"""Active instance stacks: sequence scan with AIS and joint partitions (SS).

Each component has a stack of the rows that may be part of a sequence, in order of time.  A row
stores its RIP, the height of the stack before it (Wu, Diao and Rizvi 2006, section 4.1).  With an
equivalence test there are such stacks for each value of its attribute; a row is dropped when the
stack before it is empty in its partition (PAIS, section 4.2.1).  It is also dropped when that stack
begins no sequence that is young enough (windows in SS, section 4.3): each row stores the latest
begin of a sequence that ends with it.

Differs from section 4.2.2: several equivalence tests are jointly one key.  The paper fears that
partitions would be too many; in a hash table there are only those with rows, fewer than rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members
from cep_core.dataflow.mop import Wanted
from cep_core.events import Row
from cep_core.operators.sase.construction import END_OF, Construction, construction
from cep_core.operators.sase.pattern import Pattern
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


class ActiveStacks(SequenceScanMOp):
    """Sequences by active instance stacks, partitioned by the equivalence tests."""

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self._tests = self.pattern.tests
        self._partitions: dict[Any, list[Stack]] = {}

    def build(self, pattern: Pattern) -> Construction:
        answered = {one for test in pattern.tests for one in test.conjuncts}
        return construction(pattern, [one for one in pattern.conjuncts if one not in answered])

    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        takers = [self._taker(component) for component in self.pattern.reading(input)]
        if len(takers) == 1:
            return takers[0]

        def receive(row: Row, members: Members) -> None:
            for take in takers:
                take(row, members)

        return receive

    def evict(self, watermark: int) -> None:
        super().evict(watermark)
        oldest = watermark - self._window
        for key, stacks in list(self._partitions.items()):
            for stack in stacks:
                stack.prune(oldest)
            if not any(stack.rows for stack in stacks):
                del self._partitions[key]
        if self._partitions:
            self._arm(watermark, self._window)

    def kept(self) -> Iterator[tuple[int, Row]]:
        for component in range(self._last):
            for stacks in self._partitions.values():
                for row in stacks[component].rows:
                    yield component, row

    def entries(self) -> int:
        return len(self._partitions) if self._tests else 0

    def clear(self) -> None:
        self._partitions.clear()

    def load_row(self, component: int, row: Row) -> None:
        self.push_row(component, row, self._key(component), False)

    def way(self) -> str:
        if not self._tests:
            return "active instance stacks"
        tests = counted(len(self._tests), "equivalence test", "equivalence tests")
        return f"active instance stacks, partitioned by {tests}"

    # -- rows ------------------------------------------------------------------------------

    def _key(self, component: int) -> KeyOf | None:
        if not self._tests:
            return None
        return key_function(tuple([test.columns[component] for test in self._tests]))

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
                self._arm(end, self._window)
            rip, start = 0, end
        else:
            if stacks is None:
                return
            under = stacks[component - 1]
            before = under.before(row)
            if not before:
                return
            start = under.starts[before - 1]
            if new and end - start >= self._window:
                return
            if component == self._last:
                self._complete(row, before, stacks)
                return
            rip = before + under.gone
        stack = stacks[component]
        starts, oldest = stack.starts, end - self._window
        if starts and starts[len(starts) >> 1] <= oldest:  # half of the stack is too old
            stack.prune(oldest)
        stack.push(row, rip, start)
