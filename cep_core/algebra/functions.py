"""Functions: what CEL, SASE, EQL and XSCL may call, with their types.

A declaration holds for all four languages.  The event languages check the types of the arguments;
XSCL's values have none, so each is converted to the argument's type (`Function.apply`).  Names and
meanings are those of XPath 2.0, with _ for -, where XPath has the function; `like` is SQL's
predicate.  A call of null is null, and so is one that fails, or that makes too much
(`function_bounds`).  XSCL adds functions of its own (`xscl.language.functions`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from cep_core.algebra.function_bounds import current_budget, read
from cep_core.algebra.untyped import WHITE_SPACE, integer_of, number_of, operand_of, text_of
from cep_core.decimals import BoundedDecimal, DecimalOrDouble, decimal_of


def number_value(value: Any) -> float | None:
    """Return a number, or the number in a text, as a double; None for NaN and other texts."""
    found = number_of(value) if isinstance(value, str) else value
    return None if found is None or found != found else float(found)


def operand_value(value: Any) -> DecimalOrDouble | None:
    """Return a number, or the number in a text, for arithmetic; None for NaN and other texts."""
    found = operand_of(value) if isinstance(value, str) else value
    return None if found is None or found != found else found


def decimal_value(value: Any) -> BoundedDecimal | None:
    """Return a number rounded to a decimal, or the decimal in a text; None without one."""
    found = decimal_of(value.strip(WHITE_SPACE)) if isinstance(value, str) else value
    try:
        return None if found is None else BoundedDecimal(found)
    except ValueError:
        return None


_READERS: Mapping[type, Callable[[Any], Any]] = {
    **{str: text_of, object: text_of, float: operand_value},
    int: lambda value: integer_of(value) if isinstance(value, str) else value,
}


class Function(NamedTuple):
    """A function that queries may call: its types are checked when a query is registered.

    An argument of type object may be of any type; the last ``optional`` arguments may be left out.
    In XSCL the last ``constants`` arguments are literals.  An ``exact`` function returns a decimal
    if its argument is one.
    """

    call: Callable[..., Any]
    arguments: tuple[type, ...]
    result: type
    optional: int = 0
    constants: int = 0
    exact: bool = False

    def apply(self, *values: Any) -> Any:
        """Call the function with untyped values; None if one has not its argument's type."""
        arguments = [_READERS[kind](one) for kind, one in zip(self.arguments, values, strict=False)]
        return None if None in arguments else self.call(*arguments)

    def takes(self, count: int) -> bool:
        """Return True if the function may be called with ``count`` arguments."""
        return len(self.arguments) - self.optional <= count <= len(self.arguments)

    @property
    def arity(self) -> str:
        """The number of arguments in words."""
        most = len(self.arguments)
        count = f"{most - self.optional} to {most}" if self.optional else str(most)
        return f"{count} argument{'s' * (most != 1)}"

    def defaults(self, count: int) -> tuple[Any, ...]:
        """Return the default values of the arguments that a call with ``count`` arguments omits."""
        left = len(self.arguments) - count
        return (self.call.__defaults__ or ())[-left:] if self.takes(count) and left else ()


Functions: TypeAlias = Mapping[str, Function]


def _contains(text: str, part: str) -> bool:
    return part in text


def _string(value: object) -> str | None:
    return "NaN" if value != value else text_of(value)


def _whole(apply: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Return a function from numbers to whole numbers that returns infinities as they are."""
    return lambda value: value if math.isinf(value) else apply(value)


_HALF = BoundedDecimal("0.5")


def nearest(value: DecimalOrDouble) -> int:
    """Return the nearest whole number, the upper of two, as fn:round does."""
    return math.floor(value + (0.5 if isinstance(value, float) else _HALF))


_COMPARED = 256
"""Comparisons of characters that are one step."""


@lru_cache(maxsize=4096)
def _segments(pattern: str) -> tuple[tuple[re.Pattern[str], int], ...]:
    r"""Return, for each text between the % of a pattern of LIKE, its regular expression and length.

    `_` is one character; \ before %, _ or \ is the character itself.
    """
    made, length = [""], [0]
    for found in re.finditer(r"\\([%_\\])|(.)", pattern, re.DOTALL):
        escaped, plain = found.groups()
        if plain == "%":
            made.append("")
            length.append(0)
        else:
            made[-1] += "." if plain == "_" else re.escape(escaped or plain)
            length[-1] += 1
    return tuple((re.compile(one, re.DOTALL), size) for one, size in zip(made, length, strict=True))


def like(text: str, pattern: str) -> bool:
    """Return True if a whole text has the form of a pattern of LIKE.

    Each segment is taken as far left as it can be, so that no choice has to be undone.
    """
    read(text)
    if "_" in pattern:  # a segment with `_` may be compared at each character of the text
        current_budget().spend(len(text) * len(pattern) // _COMPARED)
    (first, _), *others = _segments(pattern)
    if not others:
        return first.fullmatch(text) is not None
    *middle, (last, size) = others
    found = first.match(text)
    for segment, _ in middle:
        found = found and segment.search(text, found.end())
    start = len(text) - size
    return found is not None and found.end() <= start and last.match(text, start) is not None


FUNCTIONS: Mapping[str, Function] = {
    "contains": Function(_contains, (str, str), bool),
    "starts_with": Function(str.startswith, (str, str), bool),
    "ends_with": Function(str.endswith, (str, str), bool),
    "like": Function(like, (str, str), bool),
    "lower": Function(str.lower, (str,), str),
    "upper": Function(str.upper, (str,), str),
    "length": Function(len, (str,), int),
    "lower_case": Function(str.lower, (str,), str),
    "upper_case": Function(str.upper, (str,), str),
    "string_length": Function(len, (str,), int),
    "string": Function(_string, (object,), str),
    "abs": Function(abs, (float,), float, exact=True),
    "floor": Function(_whole(math.floor), (float,), int),
    "ceiling": Function(_whole(math.ceil), (float,), int),
    "round": Function(_whole(nearest), (float,), int),
}
"""The functions of the core by name."""
