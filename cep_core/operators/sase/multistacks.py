"""Multi-PAIS: active instance stacks for each of several equivalence tests (SS).

For each test there is a PAIS, and a row is on one stack of each.  A row is dropped unless the
stacks before it, one of each PAIS, have a row in common: one that agrees in all attributes.
Sequences are constructed in the first PAIS, which knows nothing of the other tests, so selection
has to filter them (Wu, Diao and Rizvi 2006, section 4.2.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members
from cep_core.dataflow.mop import Wanted
from cep_core.dataflow.options import Options
from cep_core.events import VALUES, Row
from cep_core.operators.sase.construction import Construction
from cep_core.operators.sase.pattern import Pattern, Scan
from cep_core.operators.sase.stacks import Stack, StackScan


class MultiStacks(StackScan):
    """Sequences by one PAIS for each equivalence test."""

    def __init__(self, first: Wanted, number: int, options: Options) -> None:
        super().__init__(first, number, options, len(cast(Scan, first.definition).pattern.tests))
        self._places = [  # of the attributes, by component
            [test.columns[component] + VALUES for test in self.pattern.tests]
            for component in range(self._last + 1)
        ]

    def build(self, pattern: Pattern) -> tuple[Construction, bool]:
        first, *others = pattern.tests
        superfluous = [one for test in others for one in test.conjuncts]
        return self.constructed_by(pattern, {*first.conjuncts, *superfluous}, superfluous)

    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        taken = self.pattern.reading(input)

        def receive(row: Row, members: Members) -> None:
            if row[2] >= self._since:
                for component in taken:
                    self._push_row(component, row, True)

        return receive

    def load_row(self, component: int, row: Row) -> None:
        self._push_row(component, row, False)

    def way(self) -> str:
        tests = counted(len(self.pattern.tests), "equivalence test", "equivalence tests")
        return f"active instance stacks for each of {tests}"

    # -- rows ------------------------------------------------------------------------------

    def _push_row(self, component: int, row: Row, new: bool) -> None:
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
                stacks = self._partitionings[0][values[0]]
                self._complete(row, stacks[component - 1].before(row), stacks)
                return
        else:
            start = row[1]
            self._look_again(row[1])
        for by_value, value in zip(self._partitionings, values, strict=True):
            stacks = by_value.get(value) or by_value.setdefault(
                value, [Stack() for _ in range(self._last)]
            )
            rip = 0
            if component:
                under = stacks[component - 1]
                rip = under.before(row) + under.gone
            self._push(stacks[component], row, rip, start)

    def _latest_start(self, component: int, row: Row, values: list[Any]) -> int | None:
        """Return the latest beginning under a row that is on all stacks; None: no row is."""
        under: list[Stack] = []
        for by_value, value in zip(self._partitionings, values, strict=True):
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
