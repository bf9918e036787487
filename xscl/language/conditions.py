"""Conditions on one node, from predicates over it."""

from __future__ import annotations

from typing import cast

from xscl.language.functions import FUNCTIONS, NUMERIC, TESTS
from xscl.language.syntax import (
    MIRRORED,
    Call,
    Compare,
    Comparison,
    ComparisonSign,
    Constant,
    Operand,
    Path,
    Predicate,
    TextFunction,
    TextMatch,
    Through,
    VariablePath,
)


def as_condition(predicate: Predicate) -> Compare | TextMatch | None:
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
            return TextMatch(cast(TextFunction, function), tested[0], value, tested[1], set_flags)
        case _:
            return None


def _compare(operand: Operand, operator: ComparisonSign, value: str | float) -> Compare | None:
    tested = _tested(operand)
    if tested is None:
        return None
    path, through = tested
    if through is not None and operator == "!=" and _may_be_absent(through.operand):
        return None
    return Compare(path, operator, value, through)


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
