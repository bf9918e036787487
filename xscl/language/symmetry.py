"""Symmetric joins: both sides are one block, and the predicate says the same of either order.

Then a pair and the exchanged pair are results together, and one of them is enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xscl.language.faults import fault
from xscl.language.scope import rewritten, walk
from xscl.language.syntax import (
    MIRRORED,
    And,
    Arithmetic,
    Block,
    Call,
    Comparison,
    Join,
    Not,
    Operand,
    Or,
    Predicate,
    Step,
    VariablePath,
)
from xscl.language.unparse import unparse

_COMMUTATIVE = ("+", "*", "jaccard")


def expect_symmetry(join: Join, predicate: Predicate | None, source: str) -> None:
    """Raise QueryError for a symmetric join whose sides cannot be exchanged.

    `predicate` is that of the join, its variables by their own names.
    """
    sides = join.left, join.right
    left, right = rewritten(sides, _without_variable)
    if not all(isinstance(side, Block) and not side.is_calendar for side in sides) or left != right:
        message = "the sides of SYMMETRIC JOIN are not one block"
        hint = "write the same block on both sides, with other variables; or JOIN"
        raise fault(source, join.span, message, hint)
    names: dict[str, str] = {}
    for one, other in zip(*map(_variables, sides), strict=True):
        names |= {one: other, other: one}

    def exchanged(leaf: Any) -> Any:
        if isinstance(leaf, VariablePath):
            return replace(leaf, variable=names[leaf.variable])
        return leaf

    parts = predicate.parts if isinstance(predicate, And) else (predicate,) if predicate else ()
    known = set(map(_canonical, parts))
    for part in parts:
        if _canonical(rewritten(part, exchanged)) not in known:
            message = f"{unparse(part)} is not the same when the sides are exchanged"
            hint = "compare both sides alike, as in t1 = t2; or write JOIN"
            raise fault(source, join.span, f"in SYMMETRIC JOIN {message}", hint)


def _variables(side: object) -> list[str]:
    """Return the variable of each step, "" where it has none."""
    return [step.variable or "" for step in walk(side) if isinstance(step, Step)]


def _without_variable(node: Any) -> Any:
    return replace(node, variable=None) if isinstance(node, Step) else node


def _canonical(node: Predicate | Operand) -> str:
    """Return the text of a predicate or an operand, the same for both orders of equal meaning."""
    match node:
        case And(parts) | Or(parts):
            return f"{type(node).__name__}({sorted(map(_canonical, parts))})"
        case Not(part):
            return f"not({_canonical(part)})"
        case Comparison(operator, left, right):
            one, other = _canonical(left), _canonical(right)
            return min(f"{one} {operator} {other}", f"{other} {MIRRORED[operator]} {one}")
        case Call("abs", (Arithmetic("-", left, right),)):
            return f"distance({sorted([_canonical(left), _canonical(right)])})"
        case Call(function, operands):
            return _applied(function, [_canonical(one) for one in operands])
        case Arithmetic(operator, left, right):
            return _applied(operator, [_canonical(left), _canonical(right)])
        case _:
            return unparse(node)


def _applied(function: str, operands: list[str]) -> str:
    return f"{function}({sorted(operands) if function in _COMMUTATIVE else operands})"
