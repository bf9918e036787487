"""Time constraints that bound the life of instances: (a, z) OCCURS WITHIN t with z the last event.

When a stands left of a `;` and z is the last event of its right operand, then whatever comes later
than t after a satisfies the constraint no more.  So it does not matter whether such events are
skipped or end the detection, and instances can be dropped when their time has passed.  A condition
that holds in time only, such as a disjunction of constraints, bounds their life as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from cep_core.algebra.expressions import (
    And,
    Arithmetic,
    Column,
    Compare,
    Constant,
    Expression,
    Or,
    Parameter,
)
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Conditions,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Ref,
    Source,
    aliases_of,
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on duration, measured from the begin of an alias; None: from its own begin.

    Of several times the longest counts.
    """

    alias: str | None
    times: tuple[Expression, ...]


Limits: TypeAlias = tuple[Limit, ...]


def constraint(condition: Condition) -> tuple[str, str, Expression] | None:
    """Return the first alias, the last alias and the duration of a time constraint, or None."""
    return _constraint(condition.expression, condition.refs)


def _constraint(expression: Expression, refs: Sequence[Ref]) -> tuple[str, str, Expression] | None:
    match expression:
        case Compare(
            "<=",
            Arithmetic("-", Column(_, end), Column(_, begin)),
            Constant() | Parameter() as time,
        ) if (refs[begin].kind, refs[end].kind) == ("begin", "end"):
            return refs[begin].alias, refs[end].alias, time
        case _:
            return None


def limits_of(pattern: Next) -> tuple[Limits, Conditions, Conditions]:
    """Return the limits of a `;`, and its other filters and tests."""
    limits: dict[Limit, None] = {}
    others: dict[str, list[Condition]] = {"filters": [], "tests": []}
    left, right = aliases_of(pattern.left), pattern.right
    for kind, conditions in (("filters", pattern.filters), ("tests", pattern.tests)):
        for condition in conditions:
            whole = False
            for (begin, end), times in _implied(condition.expression, condition.refs).items():
                if begin in left and ends_with(right, end):
                    limits[Limit(begin, times)] = None
                    whole = constraint(condition) is not None
            if not whole:
                others[kind].append(condition)
    return tuple(limits), tuple(others["filters"]), tuple(others["tests"])


def _implied(
    expression: Expression, refs: Sequence[Ref]
) -> dict[tuple[str, str], tuple[Expression, ...]]:
    """Return the time constraints without which a condition cannot hold, by where they begin, end.

    Of a disjunction those of all its parts, for the longest of their times.
    """
    match expression:
        case And(items):
            found: dict[tuple[str, str], tuple[Expression, ...]] = {}
            for item in items:
                found = _implied(item, refs) | found
            return found
        case Or(items):
            parts = [_implied(item, refs) for item in items]
            return {
                ends: tuple(dict.fromkeys(time for part in parts for time in part[ends]))
                for ends in parts[0]
                if all(ends in part for part in parts)
            }
        case _:
            own = _constraint(expression, refs)
            return {} if own is None else {own[:2]: own[2:]}


def ends_with(pattern: Pattern, alias: str) -> bool:
    """Return True if every result of a pattern ends with the event of one alias."""
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
