"""Formulas by brute force: the truth value of a predicate, given what its names mean.

An operand has a value for each choice of nodes that its paths select; a comparison holds if it
holds for some choice (XPath 1.0, section 3.4).  None is no value: of a function that has none, and
it compares as NaN does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias, assert_never

from tests.oracle.numbers import (
    Number,
    computed,
    decimal,
    is_number,
    number,
    operand,
    placed,
    text_of,
)
from tests.oracle.patterns import values
from tests.oracle.queries import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Decorated,
    Formula,
    Function,
    Not,
    Operand,
    Or,
    TextTest,
    Var,
)
from tests.oracle.steps import Path
from tests.oracle.trees import Node

Value: TypeAlias = "str | Number | None"
Scope: TypeAlias = "Mapping[str, Node | Number]"
"""What names mean: variables, and under `$1.x`, `$2.x`, `$.x` those of one side.

Under `time(x)` is the time of the document of x, in seconds.

A name that is missing is bound to nothing, as the right side's after ELSE.
"""

# -- Operands ------------------------------------------------------------------------------


FUNCTIONS: dict[Function, Callable[..., Value]] = {
    "string": lambda text: text,
    "lower-case": lambda text: text.lower(),
    "upper-case": lambda text: text.upper(),
    "normalize-space": lambda text: " ".join(re.findall("[^ \t\r\n]+", text)),
    "substring-before": lambda text, mark: text.split(mark, 1)[0] if mark and mark in text else "",
    "substring-after": lambda text, mark: (
        text[text.index(mark) + len(mark) :] if mark in text else ""
    ),
    "string-length": lambda text: Fraction(len(text)),
    "number": lambda text: number(text) if number(text) == number(text) else None,
    "xs:decimal": decimal,
}
NUMERIC = ("string-length", "number", "time", "xs:decimal")
COMPARATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
ORDERS = ("<", "<=", ">", ">=")


def choices(operand: Operand, scope: Scope) -> list[Value]:
    """Return the values of an operand, one for each choice of nodes."""
    match operand:
        case Var(name, step, texts):
            return _of_name(scope.get(name), Path(step, texts))
        case Decorated():
            return _of_name(scope.get(operand.text()), Path())
        case Constant(value):
            return [value if isinstance(value, str) else Fraction(str(value))]
        case Call("time", (leaf,)):
            return _of_name(scope.get(f"time({leaf.text()})"), Path())
        case Call(function, arguments):
            parts = product(*([_text(v) for v in choices(a, scope)] for a in arguments))
            return [None if None in texts else FUNCTIONS[function](*texts) for texts in parts]
        case Arithmetic(sign, left, right):
            pairs = product(choices(left, scope), choices(right, scope))
            return [computed(sign, number_of(a), number_of(b)) for a, b in pairs]
        case _:
            assert_never(operand)


def _of_name(found: Node | Number | None, path: Path) -> list[Value]:
    if isinstance(found, Node):
        return [*values(found, path)]
    return [] if found is None else [found]


def _text(value: Value) -> str | None:
    """Return a value as XPath's string(); a number that is none has no string here."""
    return value if value is None or isinstance(value, str) else text_of(value)


def number_of(value: Value) -> Number:
    """Return a value as a number; NaN if it is none."""
    if value is None:
        return math.nan
    return operand(value) if isinstance(value, str) else value


def _is_number(operand: Operand) -> bool:
    match operand:
        case Constant(value):
            return not isinstance(value, str)
        case Call(function):
            return function in NUMERIC
        case Arithmetic():
            return True
        case _:
            return False


def holds(formula: Formula | None, scope: Scope) -> bool:
    """Return the truth value of a formula."""
    match formula:
        case None:
            return True
        case Comparison(operator, left, right):
            pairs = product(choices(left, scope), choices(right, scope))
            numeric = _is_number(left) or _is_number(right)
            if operator in ORDERS and not numeric and _is_untyped(left) and _is_untyped(right):
                return any(_in_order(operator, a, b) for a, b in pairs)
            return any(_compares(operator, a, b, numeric) for a, b in pairs)
        case TextTest(function, left, right):
            text, part = (_text(next(iter(choices(o, scope)), "")) or "" for o in (left, right))
            return part in text if function == "contains" else text.startswith(part)
        case And(parts):
            return all(holds(part, scope) for part in parts)
        case Or(parts):
            return any(holds(part, scope) for part in parts)
        case Not(part):
            return not holds(part, scope)
        case _:
            assert_never(formula)


def _is_untyped(operand: Operand) -> bool:
    return isinstance(operand, Var | Decorated)


def _in_order(operator: str, a: Value, b: Value) -> bool:
    """Return the order of two values of documents, which are what both of their texts are."""
    one, other = (value if isinstance(value, str) else _text(value) or "NaN" for value in (a, b))
    numbers = [is_number(text) for text in (one, other)]
    if all(numbers):
        return COMPARATORS[operator](placed(operand(one)), placed(operand(other)))
    times = [moment(text) for text in (one, other)]
    if None not in times:
        return COMPARATORS[operator](*times)
    return not any(numbers) and COMPARATORS[operator](one, other)


SHAPES = {
    r"\d{4}-\d\d-\d\d": "%Y-%m-%d",
    r"\d{4}-\d\d-\d\d(Z|[-+]\d\d:\d\d)": "%Y-%m-%d%z",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d": "%Y-%m-%dT%H:%M:%S",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[-+]\d\d:\d\d)": "%Y-%m-%dT%H:%M:%S%z",
    r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT": "%a, %d %b %Y %H:%M:%S GMT",
}
"""The forms of dates and times that are drawn, and how Python reads them."""


def moment(text: str) -> datetime | None:
    """Return the time that a text is, in UTC without a zone; None if it is none."""
    text = text.strip(" \t\r\n")
    for shape, form in SHAPES.items():
        if re.fullmatch(shape, text, re.ASCII):
            try:
                found = datetime.strptime(text, form)  # the zone is set below
            except ValueError:
                return None
            return found.replace(tzinfo=found.tzinfo or UTC)
    return None


def _compares(operator: str, a: Value, b: Value, numeric: bool) -> bool:
    if numeric:
        return COMPARATORS[operator](placed(number_of(a)), placed(number_of(b)))
    if a is None or b is None:
        return operator == "!="
    return COMPARATORS[operator](a, b)
