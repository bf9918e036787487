"""The transitions of an automaton with runs (NFAb), as functions of a partial match and a row.

A partial match has a *cell* for each component that is bound: a row, or of a run (first row, last
row, number of rows, accumulators).  A transition *begins* a component with a row, or *takes* one
row more into a run; what the predicate says about the row is its condition.  Conditions on whole
runs are tested when the run is left, or at the end (Agrawal et al. 2008, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra import Part
from cep_core.algebra.patterns import RUN_AGGREGATES
from cep_core.dataflow.code import ATOM_ERRORS, function_of
from cep_core.events import VALUES, Row
from cep_core.operators.sase.pattern import Conjunct, Pattern, attribute

Cells: TypeAlias = tuple[Any, ...]
Condition: TypeAlias = Callable[[Cells, Row, Sequence[Any]], bool]
_COUNT = 2  # where a run's cell has the number of its rows; accumulators follow
_WHOLE = ("last", "end")
_NOTHING = {"COUNT": 0, "AVG": (0, 0)}  # accumulators of no row; of others None


class Accumulator(NamedTuple):
    """An aggregate of an attribute in a run's cell; of AVG it is the pair (sum, number)."""

    role: str
    place: int


class Transitions:
    """The functions of one pattern; conditions that a partition answers are left out."""

    def __init__(self, pattern: Pattern, conjuncts: Sequence[Conjunct]) -> None:
        self._pattern = pattern
        size = len(pattern.components)
        self.accumulators = [_accumulators(pattern, c) for c in range(size)]
        self.begin: list[Condition] = []
        self.take: list[Condition] = []
        for c in range(size):
            own = [one for one in conjuncts if _tested_at(one, pattern) == c]
            self.begin.append(self._condition([one for one in own if not _later(one)], c, True))
            self.take.append(self._condition(own, c, False))
        at_end = [one for one in conjuncts if _tested_at(one, pattern) == size]
        self.accept = self._condition(at_end, size, True)
        values = "".join(f"{self._source(part, size, True)}, " for part in pattern.outputs)
        self.values: Callable[[Cells], tuple[Any, ...]] = function_of(
            f"def made(m):\n    return ({values})", {"average": _average}
        )

    def started(self, component: int, row: Row) -> Any:
        """Return the cell of a component that a row begins."""
        if not self._pattern.components[component].repeated:
            return row
        held = [
            _added(one.role, _NOTHING.get(one.role), row[one.place + VALUES])
            for one in self.accumulators[component]
        ]
        return (row, row, 1, *held)

    def longer(self, component: int, cell: Any, row: Row) -> Any:
        """Return the cell of a run with a row more."""
        first, _, count, *held = cell
        more = [
            _added(one.role, value, row[one.place + VALUES])
            for one, value in zip(self.accumulators[component], held, strict=True)
        ]
        return (first, row, count + 1, *more)

    def _condition(self, conjuncts: Sequence[Conjunct], current: int, begins: bool) -> Condition:
        """Return a conjunction of (cells, row, constants) that never raises."""
        if not conjuncts:
            return lambda m, x, k: True

        def source(part: Part) -> str:
            return self._source(part, current, begins)

        text, names = self._pattern.written(conjuncts, source)
        names["average"] = _average
        quick: Condition = function_of(f"def made(m, x, k):\n    return {text}", names)
        slow = self._pattern.careful(conjuncts, source, "m, x, k", {"average": _average})

        def holds(m: Cells, x: Row, k: Sequence[Any]) -> bool:
            try:
                return quick(m, x, k)
            except ATOM_ERRORS:
                return slow(m, x, k)

        return holds

    def _source(self, part: Part, current: int, begins: bool) -> str:
        """Return the source code that reads a part when the current component gets the row x."""
        component, role = part.component, part.role
        cell = f"m[{component}]"
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
                return f"{cell}[{_COUNT}]"
            case _:
                assert part.index is not None
                held = self.accumulators[component].index(Accumulator(role, part.index))
                text = f"{cell}[{_COUNT + 1 + held}]"
                return f"average({text})" if role == "AVG" else text


def _accumulators(pattern: Pattern, component: int) -> list[Accumulator]:
    found = {
        Accumulator(part.role, part.index): None
        for part in pattern.parts
        if part.component == component and part.role in RUN_AGGREGATES and part.index is not None
    }
    return list(found)


def _tested_at(conjunct: Conjunct, pattern: Pattern) -> int:
    """Return the component whose rows a condition is tested with; one beyond for whole runs."""
    latest = max(conjunct.components, default=0)
    whole = pattern.components[latest].repeated and any(
        part.component == latest
        and (part.role in _WHOLE or (part.role in RUN_AGGREGATES and not part.before))
        for part in conjunct.parts
    )
    return latest + whole


def _later(conjunct: Conjunct) -> bool:
    """Return True if a condition does not apply to the first row of a run."""
    return any(part.role == "previous" or part.before for part in conjunct.parts)


def _added(role: str, held: Any, value: Any) -> Any:
    """Return an accumulator with a value more; nulls and NaN are passed over.

    Sums of integers are exact, those of floats in the order of the rows.
    """
    if value is None or value != value:
        return held
    match role:
        case "COUNT":
            return held + 1
        case "AVG":
            return (_sum(held[0], value) if held[1] else value, held[1] + 1)
        case _ if held is None:
            return value
        case "SUM":
            return _sum(held, value)
        case _:
            return _better(role, value, held)


def _better(role: str, value: Any, held: Any) -> Any:
    """Return the lesser or the larger value; what cannot be compared is passed over, as null."""
    try:
        return value if (value < held if role == "MIN" else held < value) else held
    except ATOM_ERRORS:  # of a tuple with nulls, or of a type of the user's
        return held


def _sum(held: Any, value: Any) -> Any:
    """Return a sum; where an integer is beyond all floats it is infinite."""
    try:
        return held + value
    except OverflowError:
        return inf if (held if isinstance(held, int) else value) > 0 else -inf


def _average(held: tuple[Any, int]) -> float | None:
    try:
        return held[0] / held[1] if held[1] else None
    except OverflowError:
        return inf if held[0] > 0 else -inf
