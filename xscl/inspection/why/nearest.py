"""The nearest miss: the closest values on both sides of a comparison.

Texts that differ only in case are closest, then only in white space, then by similarity (Ratcliff
and Obershelp, as in difflib); numbers by their difference.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import assert_never

from cep_core.algebra import number_of
from xscl.language.functions import number
from xscl.language.syntax import And, Call, Comparison, Not, Operand, Or, Predicate
from xscl.language.unparse import unparse
from xscl.language.valuejoin import is_numeric, is_untyped

PAIRS = 1_600
"""Maximum number of pairs of values that are compared."""
WIDTH = 60
"""How many characters of a value are shown, and compared by what they have in common."""


def closest_values(predicate: Predicate, values: Callable[[Operand], Sequence[str]]) -> str:
    """Return the values of a predicate's comparisons that are closest to deciding it.

    `values` returns those of an operand.
    """
    match predicate:
        case And(parts) | Or(parts):
            return "; ".join(f"{unparse(part)}: {closest_values(part, values)}" for part in parts)
        case Not(part):
            return closest_values(part, values)
        case Comparison(operator, left, right) | Call(operator, (left, right)):
            sides = values(left), values(right)
            for operand, side in zip((left, right), sides, strict=True):
                if not side:
                    return f"{unparse(operand)} has no value"
            if is_numeric(left) or is_numeric(right):
                return _numbers(operator, *sides)
            if operator in _SIGNS and is_untyped(left) and is_untyped(right):
                return _untyped(operator, *sides)
            return _texts(operator, *sides)
        case Call():
            raise AssertionError("a function in a predicate has two operands")
        case _:
            assert_never(predicate)


def nearest_to(texts: Sequence[str], value: str | float) -> str:
    """Return the value closest to a constant."""
    if not texts:
        return "there is nothing to compare"
    if isinstance(value, str):
        return _texts("=", texts, [value])
    return _numbers("=", texts, [f"{value:g}"])


def shown(text: str) -> str:
    """Return a value in quotes, cut to a width."""
    cut = text if len(text) <= WIDTH else text[: WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return f"'{cut}'"


def _texts(operator: str, lefts: Sequence[str], rights: Sequence[str]) -> str:
    pairs = list(_pairs(lefts, rights))
    different = operator in ("!=", "<", ">")
    left, right = min(pairs, key=lambda pair: (pair[0] == pair[1]) if different else _far(*pair))
    return f"{shown(left)} and {shown(right)}{_but(left, right)}"


def _pairs(lefts: Sequence[str], rights: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of different values of two sides, within the bound."""
    ones, others = list(dict.fromkeys(lefts)), list(dict.fromkeys(rights))
    few = math.isqrt(PAIRS)
    most = max(few, PAIRS // len(others)), max(few, PAIRS // len(ones))
    return product(ones[: most[0]], others[: most[1]])


def _spaced(text: str) -> str:
    return " ".join(text.split())


_ALIKE: tuple[tuple[Callable[[str], str], str], ...] = (
    (str.lower, "case"),
    (_spaced, "white space"),
    (lambda text: _spaced(text).lower(), "case and white space"),
)
"""Small differences, the smallest first: what removes them, and their names."""


def _far(left: str, right: str) -> tuple[int, float]:
    """Return the distance of two texts, for comparison."""
    if left == right:
        return (0, 0.0)
    for level, (change, _) in enumerate(_ALIKE, 1):
        if change(left) == change(right):
            return (level, 0.0)
    matcher = difflib.SequenceMatcher(None, left[:WIDTH], right[:WIDTH], autojunk=False)
    return (1 + len(_ALIKE), -matcher.ratio())


def _but(left: str, right: str) -> str:
    """Return the difference of two unequal texts, if it is small."""
    level, _ = _far(left, right)
    return f", equal but for {_ALIKE[level - 1][1]}" if 1 <= level <= len(_ALIKE) else ""


def _untyped(operator: str, lefts: Sequence[str], rights: Sequence[str]) -> str:
    """Return the pair of values without a type that is closest to an order."""
    ones, others = ([text for text in side if _is_number(text)] for side in (lefts, rights))
    if ones and others:
        return _numbers(operator, ones, others)
    if ones or others:
        value, text = (ones[0], rights[0]) if ones else (others[0], lefts[0])
        return f"{shown(value)} is a number and {shown(text)} is none"
    return _texts(operator, lefts, rights)


def _is_number(text: str) -> bool:
    return number_of(text) is not None


def _numbers(operator: str, lefts: Sequence[str], rights: Sequence[str]) -> str:
    for side in (lefts, rights):
        if all(math.isnan(number(text)) for text in side):
            return f"{shown(side[0])} is no number"
    pairs = _pairs(lefts, rights)
    sign = _SIGNS.get(operator, 0)
    left, right = min(pairs, key=lambda pair: _gap(number(pair[0]), number(pair[1]), sign))
    return f"{shown(left)} and {shown(right)}"


_SIGNS = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def _gap(left: float, right: float, sign: int) -> float:
    """Return the amount by which two numbers miss an order (`sign`), or equality."""
    gap = left - right
    if math.isnan(gap):
        return 0.0 if left == right else math.inf
    return gap * sign if sign else abs(gap)
