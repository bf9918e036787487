"""Conditions of patterns with their meaning by docs/languages, on events with a value ``v``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.cep_core.pattern_reference import Happened, Taken

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Operand:
    """A value of a condition: an attribute of an event, or what is over a run.

    ``default`` is the other value of COALESCE; ``before`` leaves out the current event of the run;
    of ``squares`` an aggregate is over v * v.
    """

    name: str
    index: str = ""  # "", "i", "i-1", "1", "2", "last", "last-1", or the aggregate's name
    time: bool = False
    default: int | None = None
    before: bool = False
    plus: int = 0
    squares: bool = False

    def __str__(self) -> str:
        if self.default is not None:
            return f"COALESCE({replace(self, default=None)}, {self.default})"
        if self.plus:
            return f"({replace(self, plus=0)} + {self.plus})"
        if self.index in AGGREGATES:
            run = f"{self.name}[{'..i-1' * self.before}]"
            value = f"{run}.v * {run}.v + 1 - 1" if self.squares else f"{run}.v"
            return f"{self.index}({run if self.index == 'COUNT' else value})"
        index = f"[{self.index}]" if self.index else ""
        return f"time({self.name}{index})" if self.time else f"{self.name}{index}.v"

    @property
    def whole(self) -> bool:
        return self.index in (*AGGREGATES, "last", "last-1", "2") and not self.before

    @property
    def previous(self) -> bool:
        return self.index == "i-1" or self.before

    def value(self, events: Sequence[Happened]) -> Any:
        if self.default is not None:
            found = replace(self, default=None).value(events)
            return self.default if found is None else found
        if self.plus:
            found = replace(self, plus=0).value(events)
            return None if found is None else found + self.plus
        if self.index in AGGREGATES:
            return _aggregated(self.index, events[:-1] if self.before else events, self.squares)
        place = {"1": 0, "2": 1, "i-1": -2, "last-1": -2}.get(self.index, -1)
        if not -len(events) <= place < len(events):
            return None
        return events[place].t1 if self.time else events[place].values["v"]


def _aggregated(function: str, events: Sequence[Happened], squares: bool = False) -> Any:
    if function == "COUNT":
        return len(events)
    proper = [one.values["v"] for one in events if is_proper(one.values.get("v"))]
    proper = [value * value for value in proper] if squares else proper
    if not proper:
        return None
    total = sum(proper)
    return {"SUM": total, "AVG": total / len(proper), "MIN": min(proper), "MAX": max(proper)}[
        function
    ]


def is_proper(value: Any) -> bool:
    """Return True for neither null nor NaN."""
    return value is not None and value == value


@dataclass(frozen=True)
class Condition:
    """left sign right, where right may be a number; or that something is null.

    ``null`` says whether the right side IS NULL, with the comparison as the other way to hold.
    """

    left: Operand
    sign: str
    right: Operand | int
    ends: bool = False  # a match, with the event that fails it
    null: bool | None = None
    negated: bool = False
    either: Condition | None = None  # the other way to hold

    def __str__(self) -> str:
        return self.written(str(self.left), str(self.right))

    def written(self, left: str, right: str) -> str:
        """Return the condition, given how its sides are written."""
        compared = f"{left} {self.sign} {right}"
        if self.negated:
            return f"NOT {compared}"
        if self.either is not None:
            return f"({compared} OR {self.either})"
        if self.null is None:
            return compared
        return f"({right} IS {'' if self.null else 'NOT '}NULL OR {compared})"

    @property
    def handles_null(self) -> bool:
        """True if the condition is tested on the first event of a run, too."""
        return self.null is not None or any(
            one.default is not None or (one.before and one.index == "COUNT")
            for one in self.operands
        )

    @property
    def operands(self) -> list[Operand]:
        others = self.either.operands if self.either is not None else []
        return [one for one in (self.left, self.right) if isinstance(one, Operand)] + others

    def holds(self, taken: Taken, name: str = "", event: Happened | None = None) -> bool:
        pairs = [*taken, *([(name, event)] if event is not None else [])]

        def of(one: Operand | int) -> Any:
            if isinstance(one, int):
                return one
            return one.value([event for name, event in pairs if name == one.name])

        if self.either is not None and self.either.holds(taken, name, event):
            return True
        try:
            left, right = of(self.left), of(self.right)
        except KeyError:
            return True  # an event lacks the attribute
        if self.null is not None and (right is None) is self.null:
            return True
        known = is_proper(left) and is_proper(right)
        return (known and SIGNS[self.sign](left, right)) is not self.negated
