"""Predicates: one over a single node as a condition, and those that say the same of either order.

A symmetric join has one block on both sides.  If its predicate says the same of either order, a
pair and the exchanged pair are results together, and one of them is enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from xscl.language.faults import fault
from xscl.language.functions import FUNCTIONS, NUMERIC, TESTS
from xscl.language.scope import rewritten, walk
from xscl.language.syntax import (
    MIRRORED,
    And,
    Arithmetic,
    Block,
    Call,
    Comparison,
    ComparisonSign,
    Constant,
    Join,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Step,
    TextFunction,
    Through,
    ValueTest,
    VariablePath,
)
from xscl.language.unparse import unparse

# -- On one node ---------------------------------------------------------------------------


def as_condition(predicate: Predicate) -> ValueTest | None:
    """Return a predicate over the node `.` as a condition.

    None if it is no comparison of a path, or of functions of one, with constants.
    """
    match predicate:
        case Comparison(operator, Constant(value), operand):
            return _compare(operand, MIRRORED[operator], value)
        case Comparison(operator, operand, Constant(value)):
            return _compare(operand, operator, value)
        case Call(function, (operand, Constant(str() as value), *flags)) if function in TESTS:
            tested = _tested(operand)
            if tested is None or (tested[1] is not None and _is_number(tested[1].operand)):
                return None
            set_flags = "".join(str(one.value) for one in flags if isinstance(one, Constant))
            named = cast(TextFunction, function)
            return ValueTest(tested[0], named, value, tested[1], set_flags)
        case _:
            return None


def _compare(operand: Operand, operator: ComparisonSign, value: str | float) -> ValueTest | None:
    tested = _tested(operand)
    if tested is None:
        return None
    path, through = tested
    if through is not None and operator == "!=" and _may_be_absent(through.operand):
        return None
    return ValueTest(path, operator, value, through)


def _tested(operand: Operand) -> tuple[Path, Through | None] | None:
    """Return the path whose values an operand tests, and what is done to them; None of others."""
    match operand:
        case VariablePath("", path):
            return path, None
        case Call("count", (VariablePath("", path),)):
            return path, Through("count", VariablePath(""))
        case Call(function, (inner, *constants)) if function in FUNCTIONS:
            tested = _tested(inner)
            if tested is None or not all(isinstance(one, Constant) for one in constants):
                return None
            path, through = tested
            if through is None:
                return path, Through("first", Call(function, (VariablePath(""), *constants)))
            # The text of a number is XPath's in a residual; an index has that of a derived node,
            # which is none for NaN.
            if through.mode == "count" or (function != "number" and _is_number(through.operand)):
                return None
            return path, Through("first", Call(function, (through.operand, *constants)))
        case _:
            return None


def _is_number(operand: Operand) -> bool:
    """Return True for a number of nodes, and for a function whose value is a number."""
    return isinstance(operand, VariablePath) or (
        isinstance(operand, Call) and FUNCTIONS[operand.function].result in NUMERIC
    )


def _may_be_absent(operand: Operand) -> bool:
    """Return True if a function may have no value, which XPath calls NaN and unequal to all."""
    return isinstance(operand, Call) and operand.function != "string-length" and _is_number(operand)


# -- In either order -----------------------------------------------------------------------

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
