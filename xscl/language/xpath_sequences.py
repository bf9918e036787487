"""Functions of XPath on sequences of texts, composed to one function of the nodes' texts.

`count(distinct-values(tokenize(title, " ")))` calls Python once for each node: libxml2 finds the
title, and the function composed of these three returns the number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from xscl.language.functions import FUNCTIONS, text_of
from xscl.language.regex import pieces

Texts: TypeAlias = "Sequence[str]"
OfArguments: TypeAlias = Callable[[Sequence[Texts]], Any]
"""A composed function, of the texts of each argument that libxml2 evaluates."""


def tokenized(text: str, *constants: str) -> Texts:
    """Return the pieces of a text, as fn:tokenize does."""
    return pieces(text, *constants) if constants else text.split()


def mapped(name: str, *constants: str) -> Callable[[Texts], Texts]:
    """Return the function that maps the items of a sequence by one of the table."""
    function = FUNCTIONS[name]
    apply, rest = (
        function.apply,
        [*constants, *map(str, function.missing(1 + len(constants)) or ())],
    )

    def each(texts: Texts) -> Texts:
        values = (text_of(apply(text, *rest)) for text in texts)
        return [value for value in values if value is not None]

    return each


def part(first: int, length: int | None) -> Callable[[Texts], Texts]:
    """Return the function to some items, from a position from 1 on; without a length to the end."""
    start = max(0, first - 1)
    end = None if length is None else max(0, first + length - 1)
    return lambda texts: texts[start:end]


def _distinct(texts: Texts) -> Texts:
    return list(dict.fromkeys(texts))


ITEMS_OF_ITEMS: Mapping[str, Callable[[Texts], Texts]] = MappingProxyType(
    {
        "data": lambda texts: texts,
        "distinct-values": _distinct,
        "head": part(1, 1),
        "reverse": lambda texts: texts[::-1],
        "tail": part(2, None),
    }
)
"""Functions from a sequence to a sequence."""


# -- One value of a sequence ---------------------------------------------------------------

_DECIMAL = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBERS = {
    "integer": re.compile(r"[+-]?\d+", re.ASCII),
    "decimal": re.compile(_DECIMAL, re.ASCII),
    "double": re.compile(rf"{_DECIMAL}(?:[eE][+-]?\d+)?|-?INF|NaN", re.ASCII),
}


def cast_number(kind: str, text: str) -> float:
    """Return a text as a number of a type of XML Schema, NaN of what is none."""
    value = text.strip(" \t\r\n")
    return float(value) if _NUMBERS[kind].fullmatch(value) else math.nan


def _of_numbers(apply: Callable[[list[float]], float]) -> Callable[[Texts], Any]:
    """Return a function of numbers: of none nothing, of a text that is no number NaN."""

    def applied(texts: Texts) -> Any:
        numbers = [cast_number("double", text) for text in texts]
        if any(map(math.isnan, numbers)):
            return math.nan
        return apply(numbers) if numbers else []

    return applied


def _contains_token(texts: Texts, word: str) -> bool:
    return any(word.strip() in text.split() for text in texts)


VALUES_OF_ITEMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "count": lambda texts: float(len(texts)),
        "sum": lambda texts: math.fsum(cast_number("double", text) for text in texts),
        "max": _of_numbers(max),
        "min": _of_numbers(min),
        "avg": _of_numbers(lambda numbers: math.fsum(numbers) / len(numbers)),
        "string-join": lambda texts, separator="": separator.join(texts),
        "contains-token": _contains_token,
    }
)
"""Functions from a sequence to one value; `sum`, `max`, `min` and `avg` of numbers."""


def compare(sign: str, one: Texts, other: Texts) -> bool:
    """Return True if some texts of two sequences compare, in time linear in their lengths."""
    if not one or not other:
        return False
    match sign:
        case "=":
            return not set(one).isdisjoint(other)
        case "!=":
            return len({*one, *other}) > 1
        case "<":
            return min(one) < max(other)
        case "<=":
            return min(one) <= max(other)
        case ">":
            return max(one) > min(other)
        case _:
            return max(one) >= min(other)
