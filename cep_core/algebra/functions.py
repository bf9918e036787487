"""The functions that expressions may call, in all event languages.

Names and meanings are those of XPath 2.0, with _ for -, where XPath has the function; `like` is
SQL's predicate.  A call of null is null, and so is one that fails, or that makes too much
(`function_bounds`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from cep_core.algebra.function_bounds import current_budget, read


class Function(NamedTuple):
    """A function that queries may call: its types are checked when a query is registered.

    An argument of type object may be of any type; the last ``optional`` arguments may be left out.
    """

    call: Callable[..., Any]
    arguments: tuple[type, ...]
    result: type
    optional: int = 0


def _contains(text: str, part: str) -> bool:
    return part in text


def _string(value: object) -> str | None:
    """Return a value as XPath writes it: a whole float has no fraction."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"


_COMPARED = 256
"""Comparisons of a character, which are a step together."""


@lru_cache(maxsize=4096)
def _segments(pattern: str) -> tuple[tuple[re.Pattern[str], int], ...]:
    r"""Return the texts between the % of a pattern of LIKE, with the number of characters.

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
    if "_" in pattern:  # a segment with it may be compared at each place
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
    "abs": Function(abs, (float,), float),
    "floor": Function(lambda x: int(x // 1), (float,), int),
    "ceiling": Function(math.ceil, (float,), int),
    "round": Function(lambda x: math.floor(x + 0.5), (float,), int),
}
