"""The transitions of an automaton with runs (NFAb), as functions of a partial match and a row.

A partial match has a *cell* for each component that is bound: a row, or of a run (first row, last
row, number of rows, accumulators).  A transition *begins* a component with a row, or *takes* one
row more into a run; what the predicate says about the row is its condition.  Conditions on whole
runs are tested when the run is left, or at the end (Agrawal et al. 2008, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cep_core.algebra import Part
from cep_core.algebra.patterns import RUN_AGGREGATES, is_of_neighbours
from cep_core.dataflow.code import ATOM_ERRORS, function_of
from cep_core.dataflow.constant_index import ConstantTest, Holds, constants_in
from cep_core.events import Row
from cep_core.operators.sase.pattern import Conjunct, Pattern, Source, attribute
from cep_core.operators.sase.run_accumulators import (
    COUNT,
    Accumulator,
    accumulators_of,
    average,
    longer,
    started,
)

Cells: TypeAlias = tuple[Any, ...]
Condition: TypeAlias = tuple[ConstantTest, ...]  # what has to hold of (cells, row, constants)
_WHOLE = ("last", "end")


class Transitions:
    """The functions of one pattern; conditions that a partition answers are left out."""

    def __init__(self, pattern: Pattern, conjuncts: Sequence[Conjunct]) -> None:
        self._pattern = pattern
        size = len(pattern.components)
        self.accumulators = [accumulators_of(pattern.parts, c) for c in range(size)]
        self.begin: list[Condition] = []
        self.take: list[Condition] = []
        for c in range(size):
            own = [one for one in conjuncts if _tested_at(one, pattern) == c]
            first = [one for one in own if not is_of_neighbours(one.node, pattern.parts, c)]
            self.begin.append(self._condition(first, c, True))
            self.take.append(self._condition(own, c, False))
        at_end = [one for one in conjuncts if _tested_at(one, pattern) == size]
        self.accept = self._condition(at_end, size, True)
        values = "".join(f"{self._source(part, size, True)}, " for part in pattern.outputs)
        self.values: Callable[[Cells], tuple[Any, ...]] = function_of(
            f"def made(m):\n    return ({values})", {"average": average}
        )

    def started(self, component: int, row: Row) -> Any:
        """Return the cell of a component that a row begins."""
        if not self._pattern.components[component].repeated:
            return row
        return started(self.accumulators[component], row)

    def longer(self, component: int, cell: Any, row: Row) -> Any:
        """Return the cell of a run with a row more."""
        return longer(self.accumulators[component], cell, row)

    def _condition(self, conjuncts: Sequence[Conjunct], current: int, begins: bool) -> Condition:
        """Return the tests of a conjunction, those first that read few constants."""

        def source(part: Part) -> str:
            return self._source(part, current, begins)

        tests = [self._test(one, source) for one in conjuncts]
        return tuple(sorted(tests, key=lambda test: len(test.reads)))

    def _test(self, conjunct: Conjunct, source: Source) -> ConstantTest:
        """Return a condition that never raises."""
        text, names = self._pattern.written([conjunct], source)
        names["average"] = average
        quick: Holds = function_of(f"def made(m, x, k):\n    return {text}", names)
        slow = self._pattern.careful([conjunct], source, "m, x, k", {"average": average})

        def holds(m: Cells, x: Row, k: Sequence[Any]) -> bool:
            try:
                return quick(m, x, k)
            except ATOM_ERRORS:
                return slow(m, x, k)

        return ConstantTest(holds, *constants_in(conjunct.node))

    def _source(self, part: Part, current: int, begins: bool) -> str:
        """Return the source code that reads a part when the current component gets the row x."""
        component, role = part.component, part.role
        cell = f"m[{component}]"
        if begins and component == current and (part.before or role == "previous"):
            return "0" if role == "COUNT" else "None"
        own = component == current and not part.before
        repeated = self._pattern.components[component].repeated
        first, last = (f"{cell}[0]", f"{cell}[1]") if repeated else (cell, cell)
        begin = "x" if own and begins else first
        latest = "x" if own else last
        match role:
            case "start":
                return f"{begin}[0]"
            case "first_end":
                return f"{begin}[1]"
            case "end":
                return f"{latest}[1]"
            case "first":
                return attribute(begin, part)
            case "value" | "current":
                return attribute(latest, part)
            case "last" | "previous":
                return attribute(last, part)
            case "COUNT" if part.index is None:
                return f"{cell}[{COUNT}]"
            case _:
                assert part.index is not None
                held = self.accumulators[component].index(Accumulator(role, part.index))
                text = f"{cell}[{COUNT + 1 + held}]"
                return f"average({text})" if role == "AVG" else text


def _tested_at(conjunct: Conjunct, pattern: Pattern) -> int:
    """Return the component whose rows a condition is tested with; one beyond for whole runs."""
    latest = max(conjunct.components, default=0)
    whole = pattern.components[latest].repeated and any(
        part.component == latest
        and (part.role in _WHOLE or (part.role in RUN_AGGREGATES and not part.before))
        for part in conjunct.parts
    )
    return latest + whole
