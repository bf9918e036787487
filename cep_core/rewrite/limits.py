"""Time constraints that bound the life of instances: (a, z) OCCURS WITHIN t with z the last event.

When a stands left of a `;` and z is the last event of its right operand, then whatever comes later
than t after a satisfies the constraint no more.  So it does not matter whether such events are
skipped or end the detection, and instances can be dropped when their time has passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from cep_core.expressions import Arithmetic, Column, Compare, Constant, Expression, Parameter
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Conditions,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Source,
    aliases_of,
)


@dataclass(frozen=True, slots=True)
class Limit:
    """How long something may take, from where an alias begins; None: from its own begin."""

    alias: str | None
    time: Expression


Limits: TypeAlias = tuple[Limit, ...]


def constraint(condition: Condition) -> tuple[str, str, Expression] | None:
    """Return what a time constraint says: it begins with the first and ends with the second."""
    match condition.expression:
        case Compare(
            "<=",
            Arithmetic("-", Column(_, end), Column(_, begin)),
            Constant() | Parameter() as time,
        ):
            first, last = condition.refs[begin], condition.refs[end]
            if first.kind == "begin" and last.kind == "end":
                return first.alias, last.alias, time
        case _:
            pass
    return None


def limits_of(pattern: Next) -> tuple[Limits, Conditions, Conditions]:
    """Return the limits of a `;`, and its other filters and tests."""
    limits: list[Limit] = []
    others: dict[str, list[Condition]] = {"filters": [], "tests": []}
    left, right = aliases_of(pattern.left), pattern.right
    for kind, conditions in (("filters", pattern.filters), ("tests", pattern.tests)):
        for condition in conditions:
            found = constraint(condition)
            if found is not None and found[0] in left and ends_with(right, found[1]):
                limits.append(Limit(found[0], found[2]))
            else:
                others[kind].append(condition)
    return tuple(limits), tuple(others["filters"]), tuple(others["tests"])


def ends_with(pattern: Pattern, alias: str) -> bool:
    """Return whether every result of a pattern ends with the event of an alias."""
    match pattern:
        case Source(_, own):
            return own == alias
        case Next(_, right):
            return ends_with(right, alias)
        case Plus(inner) | Except(inner):
            return ends_with(inner, alias)
        case Either() | After():
            return False
        case _:
            assert_never(pattern)
