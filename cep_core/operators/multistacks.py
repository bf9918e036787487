"""Multi-PAIS: active instance stacks for each of several equivalence tests (SS).

For each test there is a PAIS, and a row is on one stack of each.  A row is dropped unless the
stacks before it, one of each PAIS, have a row in common: one that agrees in all attributes.
Sequences are constructed in the first PAIS, which knows nothing of the other tests, so selection
has to filter them (Wu, Diao and Rizvi 2006, section 4.2.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cep_core.channels import Members
from cep_core.events import VALUES, Row
from cep_core.mop import Wanted
from cep_core.operators.construction import Construction, construction
from cep_core.operators.pattern import Conjunct, Pattern
from cep_core.operators.scan import SequenceScan
from cep_core.operators.stacks import Stack
from cep_core.text import counted


class MultiStacks(SequenceScan):
    """Sequences by one PAIS for each equivalence test."""

    def __init__(
        self,
        first: Wanted,
        number: int,
        *,
        dynamic: bool = True,
        scan_windows: bool = True,
        construction_windows: bool = True,
    ) -> None:
        super().__init__(first, number)
        self._dynamic = dynamic
        self._scan_windows = scan_windows
        self._construction_windows = construction_windows
        size = self._last + 1
        self._places = [  # of the attributes, by component
            [test.columns[component] + VALUES for test in self.pattern.tests]
            for component in range(size)
        ]
        self._stacks: list[dict[Any, list[Stack]]] = [{} for _ in self.pattern.tests]

    def build(self, pattern: Pattern) -> tuple[Construction, bool]:
        first, *others = pattern.tests
        superfluous = [one for test in others for one in test.conjuncts]
        answered = {*first.conjuncts, *superfluous}
        rest = [one for one in pattern.conjuncts if one not in answered]
        early: list[Conjunct] = rest if self._dynamic else []
        late = [*superfluous, *([] if self._dynamic else rest)]
        windows = self._construction_windows
        return construction(pattern, early, late, windows), windows and not late

    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        taken = [
            place
            for place, component in enumerate(self.pattern.components)
            if component.input == input
        ]
        since = self._since

        def receive(row: Row, members: Members) -> None:
            if since is None or row[2] >= since:
                for component in taken:
                    self._take(component, row, True)

        return receive

    def evict(self, watermark: int) -> None:
        self._armed = False
        oldest = watermark - self._window
        for by_value in self._stacks:
            for value, stacks in list(by_value.items()):
                for stack in stacks:
                    stack.prune(oldest)
                if not any(stack.rows for stack in stacks):
                    del by_value[value]
        if any(self._stacks):
            self._arm(watermark)

    def kept(self) -> Iterator[tuple[int, Row]]:
        for component in range(self._last):
            for stacks in self._stacks[0].values():
                for row in stacks[component].rows:
                    yield component, row

    def instances(self) -> int:
        return sum(
            len(stack.rows)
            for by_value in self._stacks
            for stacks in by_value.values()
            for stack in stacks
        )

    def entries(self) -> int:
        return sum(map(len, self._stacks))

    def contents(self) -> list[dict[Any, list[list[tuple[Row, int]]]]]:
        """Return for each test the stacks by value: rows with their RIPs."""
        return [
            {
                value: [list(zip(stack.rows, stack.rips, strict=True)) for stack in stacks]
                for value, stacks in by_value.items()
            }
            for by_value in self._stacks
        ]

    def clear(self) -> None:
        self._stacks = [{} for _ in self.pattern.tests]

    def take_back(self, component: int, row: Row) -> None:
        self._take(component, row, False)

    def way(self) -> str:
        tests = counted(len(self.pattern.tests), "equivalence test", "equivalence tests")
        return f"active instance stacks for each of {tests}"

    # -- rows ------------------------------------------------------------------------------

    def _take(self, component: int, row: Row, new: bool) -> None:
        values = [row[place] for place in self._places[component]]
        if any(value is None or value != value for value in values):
            return
        if component:
            start = self._latest_start(component, row, values)
            if start is None:
                return
            if new and self._scan_windows and row[1] - start >= self._window:
                return
            if component == self._last:
                stacks = self._stacks[0][values[0]]
                self._complete(row, stacks[component - 1].before(row), stacks)
                return
        else:
            start = row[1]
            self._arm(row[1])
        oldest = row[1] - self._window
        for by_value, value in zip(self._stacks, values, strict=True):
            stacks = by_value.get(value) or by_value.setdefault(
                value, [Stack() for _ in range(self._last)]
            )
            stack, rip = stacks[component], 0
            if component:
                under = stacks[component - 1]
                rip = under.before(row) + under.gone
            starts = stack.starts
            if self._scan_windows and starts and starts[len(starts) >> 1] <= oldest:
                stack.prune(oldest)
            stack.push(row, rip, start)

    def _latest_start(self, component: int, row: Row, values: list[Any]) -> int | None:
        """Return the latest beginning under a row that is on all stacks; None: no row is."""
        under: list[Stack] = []
        for by_value, value in zip(self._stacks, values, strict=True):
            stacks = by_value.get(value)
            if stacks is None:
                return None
            under.append(stacks[component - 1])
        fewest = min(under, key=lambda stack: len(stack.rows))
        places = self._places[component - 1]
        for place in range(fewest.before(row) - 1, -1, -1):
            if [fewest.rows[place][at] for at in places] == values:
                return fewest.starts[place]
        return None

    def _arm(self, now: int) -> None:
        if self._scan_windows:
            super()._arm(now)
