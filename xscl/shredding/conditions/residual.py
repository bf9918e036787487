"""Residual predicates: the parts beside equalities, tested on each candidate.

`compiled` converts a predicate to a function of the nodes bound to its variables.  A
predicate is analysed once; a chain of closures runs for each candidate.

An operand is a sequence of values.  A variable has one, a path one for each selected node (perhaps
none), and functions and arithmetic have the results for every choice of their arguments.  A
comparison holds if it holds for some choice (XPath 1.0, section 3.4), so for an operand without
nodes it is false.  NOT is the complement of the truth value.  The functions contains(),
starts-with(), ends-with() and matches() take the first value, "" if there is none, as in
conditions.

Two values of documents have no type: `<` and the like compare them as both are
(`cep_core.algebra.untyped`), and do not hold if exactly one is a number.

A function without a value gives None, which compares like NaN: = < <= > >= are
false and != is true.  A predicate whose functions or choices are over their bounds does not hold,
and an operand has no value; it is logged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from operator import add, mul, sub
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never

from cep_core.algebra import comparands, text_of
from cep_core.algebra.function_bounds import BeyondBounds, current_budget, report, spending
from xscl.language.functions import DEFINING, TESTS, Value, number
from xscl.language.syntax import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Decorated,
    Not,
    Operand,
    Operator,
    Or,
    Path,
    Predicate,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.language.valuejoin import is_numeric, is_untyped
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes.tree import COMPARISONS, Item, string_value

Row: TypeAlias = "Mapping[str, Item | None]"
"""The node of each variable; None for one that is bound to nothing, as after ELSE."""
Test: TypeAlias = "Callable[[Row], bool]"
Values: TypeAlias = "Callable[[Row], Iterable[Value]]"

CHOICES = 8
"""Choices of the values of operands that are a step of their budget."""


@dataclass(eq=False, slots=True)
class OneSidedNumbers:
    """The number of comparisons that did not hold since exactly one side was a number.

    It is part of what a predicate is made of; predicates are equal even so.
    """

    count: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneSidedNumbers)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "one-sided"


def compiled(predicate: Predicate, one_sided: OneSidedNumbers | None = None) -> Test:
    """Return the test of a predicate; its functions and their arguments must be known to exist.

    A decorated operand is looked up under its text, `$1.x`.
    """
    test = _compiled(predicate, OneSidedNumbers() if one_sided is None else one_sided)

    def holds(row: Row) -> bool:
        try:
            with spending(current_budget()):
                return test(row)
        except BeyondBounds as error:
            report(unparse(predicate), error)
            return False

    return test if is_light(predicate) else holds


def is_light(predicate: Predicate) -> bool:
    """Return True if a predicate compares single values that nothing computes."""
    match predicate:
        case And(parts) | Or(parts):
            return all(map(is_light, parts))
        case Not(part):
            return is_light(part)
        case Comparison(_, left, right):
            return all(_is_one_value(one) for one in (left, right))
        case Call(_, operands):
            return all(map(_is_one_value, operands))
        case _:
            assert_never(predicate)


def _is_one_value(operand: Operand) -> bool:
    match operand:
        case VariablePath(_, path):
            return path == Path()
        case _:
            return isinstance(operand, Constant | Decorated)


def _compiled(predicate: Predicate, counted: OneSidedNumbers) -> Test:
    match predicate:
        case And(parts):
            every = [_compiled(part, counted) for part in parts]
            return lambda row: all(test(row) for test in every)
        case Or(parts):
            some = [_compiled(part, counted) for part in parts]
            return lambda row: any(test(row) for test in some)
        case Not(part):
            negated = _compiled(part, counted)
            return lambda row: not negated(row)
        case Comparison(operator, left, right):
            return _comparison(operator, left, right, counted)
        case Call(function, operands):
            return _text_test(TESTS[function].call, *map(_first, operands))
        case _:
            assert_never(predicate)


@lru_cache(maxsize=4096)
def texts_of(operand: Operand) -> Callable[[Item], list[str]]:
    """Return a function from one node, `.` in the operand, to the operand's string values."""
    texts = texts_over(operand)
    return lambda item: texts({"": item})


@lru_cache(maxsize=4096)
def texts_over(operand: Operand) -> Callable[[Row], list[str]]:
    """Return a function from the nodes of variables to an operand's string values."""
    values = _values(operand)
    if _is_one_value(operand):
        return lambda row: [text for value in values(row) if (text := text_of(value)) is not None]

    def texts(row: Row) -> list[str]:
        try:
            with spending(current_budget()):
                found = (text_of(value) for value in values(row))
                return [text for text in found if text is not None]
        except BeyondBounds as error:
            report(unparse(operand), error)
            return []

    return texts


def _choices(*sequences: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
    """Return every choice of items, one of each sequence."""
    each = [tuple(one) for one in sequences]
    count = prod(map(len, each))
    if count > CHOICES:
        current_budget().spend(count // CHOICES)
    return product(*each)


# -- Comparisons ---------------------------------------------------------------------------


def _comparison(
    operator: Operator, left: Operand, right: Operand, counted: OneSidedNumbers
) -> Test:
    """Return the test that some choice of values compares, as numbers if one side is one."""
    holds = COMPARISONS[operator]
    if is_numeric(left) or is_numeric(right):
        return _some(holds, _numbers(left), _numbers(right))
    if operator not in ("=", "!=") and is_untyped(left) and is_untyped(right):
        order = ORDERS[operator]
        return _some(lambda a, b: order(a, b, counted), _values(left), _values(right))
    without = operator == "!="

    def compare(one: Value, other: Value) -> bool:
        return without if one is None or other is None else holds(one, other)

    return _some(compare, _values(left), _values(right))


def _some(holds: Callable[[Any, Any], bool], ones: Values, others: Values) -> Test:
    return lambda row: any(holds(one, other) for one, other in _choices(ones(row), others(row)))


def _text_test(holds: Callable[..., bool], *operands: Callable[[Row], str]) -> Test:
    return lambda row: holds(*[operand(row) for operand in operands])


def _first(operand: Operand) -> Callable[[Row], str]:
    values = _values(operand)
    return lambda row: text_of(next(iter(values(row)), None)) or ""


# -- Operands ------------------------------------------------------------------------------


def _ordered(
    holds: Callable[[Any, Any], bool],
) -> Callable[[str, str, OneSidedNumbers], bool]:
    """Return the order of two values without a type."""

    def ordered(one: str, other: str, counted: OneSidedNumbers) -> bool:
        found = comparands(one, other)
        if found is None:
            counted.count += 1
            return False
        return bool(holds(*found))

    return ordered


def _values(operand: Operand) -> Values:
    match operand:
        case Constant(value):
            return _constant(value)
        case VariablePath(variable, path):
            return _nodes(variable, path)
        case Decorated():
            return _nodes(unparse(operand), Path())
        case Call(function, arguments):
            return _call(function, arguments)
        case Arithmetic(sign, left, right):
            return _arithmetic(sign, left, right)
        case _:
            assert_never(operand)


def _constant(value: str | float) -> Values:
    values = (value if isinstance(value, str) else float(value),)
    return lambda row: values


def _nodes(name: str, path: Path) -> Values:
    if path == Path():  # the node itself: most residual tests are of this kind

        def own(row: Row) -> Iterable[str]:
            item = row[name]
            return () if item is None else (string_value(item),)

        return own

    def values(row: Row) -> Iterable[str]:
        item = row[name]
        return () if item is None else map(string_value, select(path, item))

    return values


def _call(function: str, arguments: tuple[Operand, ...]) -> Values:
    apply, several = DEFINING[function].apply, DEFINING[function].result is tuple
    operands = [_values(argument) for argument in arguments]

    def values(row: Row) -> Iterable[Value]:
        for choice in _choices(*(operand(row) for operand in operands)):
            made = apply(*choice)
            if several and made is not None:
                yield from made
            else:
                yield made

    return values


# -- Numbers -------------------------------------------------------------------------------


def _numbers(operand: Operand) -> Callable[[Row], Iterable[float]]:
    values = _values(operand)
    return lambda row: map(_number_of, values(row))


def _number_of(value: Value) -> float:
    match value:
        case str():
            return number(value)
        case None:
            return math.nan
        case _:
            return value


def _arithmetic(
    sign: Literal["+", "-", "*", "div", "mod"], left: Operand, right: Operand
) -> Values:
    """Return the results of IEEE 754 arithmetic; nothing raises."""
    apply = ARITHMETIC[sign]
    ones, others = _numbers(left), _numbers(right)
    return lambda row: (apply(a, b) for a, b in _choices(ones(row), others(row)))


def _divided(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    if not dividend or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1, divisor)


def _modulo(dividend: float, divisor: float) -> float:
    """Return the remainder of a division that truncates: it has the sign of the dividend."""
    if math.isinf(dividend) or not divisor:
        return math.nan
    return math.fmod(dividend, divisor)


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = MappingProxyType(
    {"+": add, "-": sub, "*": mul, "div": _divided, "mod": _modulo}
)
"""The function of each sign of arithmetic."""

ORDERS: Mapping[Operator, Callable[[str, str, OneSidedNumbers], bool]] = MappingProxyType(
    {sign: _ordered(holds) for sign, holds in COMPARISONS.items() if sign not in ("=", "!=")}
)
"""The order of two values without a type, by its sign; it counts numbers on one side only."""
