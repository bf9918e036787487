"""Conditions: predicates over a single node that an index may answer."""

from __future__ import annotations

from typing import cast

from xscl.language import syntax
from xscl.language.functions import FUNCTIONS, NUMERIC, TESTS


def as_condition(predicate: syntax.Predicate) -> syntax.ValueTest | None:
    """Return a predicate over the node `.` as a condition.

    None if it is no comparison of a path, or of functions of one, with constants.
    """
    match predicate:
        case syntax.Comparison(operator, syntax.Constant(value), operand):
            return _compare(operand, syntax.MIRRORED[operator], value)
        case syntax.Comparison(operator, operand, syntax.Constant(value)):
            return _compare(operand, operator, value)
        case syntax.Call(function, (operand, syntax.Constant(str() as value), *flags)) if (
            function in TESTS
        ):
            tested = _tested(operand)
            if tested is None or (tested[1] is not None and _is_number(tested[1].operand)):
                return None
            set_flags = "".join(
                str(flag.value) for flag in flags if isinstance(flag, syntax.Constant)
            )
            named = cast(syntax.TextFunction, function)
            return syntax.ValueTest(tested[0], named, value, tested[1], set_flags)
        case _:
            return None


def _compare(
    operand: syntax.Operand, operator: syntax.ComparisonSign, value: str | float
) -> syntax.ValueTest | None:
    tested = _tested(operand)
    if tested is None:
        return None
    path, through = tested
    if through is not None and operator == "!=" and _may_be_absent(through.operand):
        return None
    return syntax.ValueTest(path, operator, value, through)


def _tested(operand: syntax.Operand) -> tuple[syntax.Path, syntax.Through | None] | None:
    """Return the path of an operand, and the `Through` to test in place of its values, if any.

    None for an operand that no index answers.
    """
    match operand:
        case syntax.VariablePath("", path):
            return path, None
        case syntax.Call("count", (syntax.VariablePath("", path),)):
            return path, syntax.Through("count", syntax.VariablePath(""))
        case syntax.Call(function, (inner, *constants)) if function in FUNCTIONS:
            tested = _tested(inner)
            if tested is None or not all(
                isinstance(constant, syntax.Constant) for constant in constants
            ):
                return None
            path, through = tested
            if through is None:
                return path, syntax.Through(
                    "first", syntax.Call(function, (syntax.VariablePath(""), *constants))
                )
            # A residual condition tests XPath's text of a number.
            # An index would test the text of a derived node, and there is none for NaN.
            if through.mode == "count" or (function != "number" and _is_number(through.operand)):
                return None
            return path, syntax.Through(
                "first", syntax.Call(function, (through.operand, *constants))
            )
        case _:
            return None


def _is_number(operand: syntax.Operand) -> bool:
    """Return True for a function whose result is a number, and for `.`, here a count of nodes."""
    return isinstance(operand, syntax.VariablePath) or (
        isinstance(operand, syntax.Call) and FUNCTIONS[operand.function].result in NUMERIC
    )


def _may_be_absent(operand: syntax.Operand) -> bool:
    """Return True if a function may have no value, which XPath calls NaN and unequal to all."""
    return (
        isinstance(operand, syntax.Call)
        and operand.function != "string-length"
        and _is_number(operand)
    )
