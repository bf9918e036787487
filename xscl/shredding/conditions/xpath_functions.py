"""Functions of XPath 3.1 and of XSCL as extension functions of libxml2.

lxml passes node sets as lists of nodes and of `str`, and other texts as `str`.
Of a list of texts that a function returns it makes a node set of text nodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from elementpath.datatypes import Date10, DateTime10
from lxml import etree

from xscl.language.functions import FUNCTIONS, Value, duration
from xscl.language.regex import expression
from xscl.language.xpath10 import COMPARE, EXTENSIONS, Local
from xscl.language.xpath_analysis import NUMBERS
from xscl.language.xpath_sequences import OfArguments, cast_number, compare

MOST_ITEMS = 2_000
"""Items of a sequence that libxml2 filters, which makes a node set in quadratic time."""


def _text(argument: Any) -> str:
    """Return the text of an argument of a function: of nodes that of the first."""
    if isinstance(argument, list):
        return _string(argument[0]) if argument else ""
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, float):
        return str(int(argument)) if argument.is_integer() else str(argument)
    return str(argument)


def _string(node: Any) -> str:
    if isinstance(node, etree._Element):
        if not len(node) and isinstance(node.tag, str):
            return node.text or ""
        return "".join(map(str, node.itertext())) if isinstance(node.tag, str) else node.text or ""
    return str(node)


def _extension(name: str) -> Callable[..., Any]:
    function = FUNCTIONS[name]
    apply = function.apply

    def called(_: Any, *arguments: Any) -> Any:
        rest = map(str, function.missing(len(arguments)) or ())
        value: Value = apply(*map(_text, arguments), *rest)
        return [] if value is None else value

    def called_with_one(_: Any, argument: Any) -> Any:
        value: Value = apply(_text(argument))
        return [] if value is None else value

    return called_with_one if len(function.arguments) == 1 else called


def _texts(argument: Any) -> list[str]:
    """Return the texts of a sequence, or of one item."""
    return list(map(_string, argument)) if isinstance(argument, list) else [_text(argument)]


def _compare(_: Any, sign: str, left: Any, right: Any) -> bool:
    return compare(sign, _texts(left), _texts(right))


def _matches(_: Any, text: Any, pattern: str, flags: str = "") -> bool:
    return expression(pattern, flags).within(_text(text))


def _ends_with(_: Any, text: Any, end: Any) -> bool:
    return _text(text).endswith(_text(end))


# -- Casts ---------------------------------------------------------------------------------


def _number(kind: str) -> Callable[..., float]:
    return lambda _, argument: cast_number(kind, _text(argument))


def _duration(_: Any, argument: Any) -> float:
    seconds = duration(_text(argument))
    return math.nan if seconds is None else seconds * 1e6


_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)?", re.ASCII)
"""The form of nearly all times, of which Python's own parser reads the same as elementpath's."""
_BEGINNING = re.compile(r"\s*-?\d{4}")


def _time(kind: Any) -> Callable[..., float]:
    """Return the function to the number of a time, NaN of what is none."""

    def called(_: Any, argument: Any) -> float:
        text = _text(argument)
        if kind is DateTime10 and _PLAIN.fullmatch(text):
            with suppress(ValueError):  # 24:00:00, or no time
                moment = datetime.fromisoformat(text)
                return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) / _MICROSECOND
        if not _BEGINNING.match(text):
            return math.nan
        try:
            return float((kind.fromstring(text).todelta() - _FROM_YEAR_1) / _MICROSECOND)
        except (ValueError, OverflowError):
            return math.nan

    return called


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FROM_YEAR_1 = DateTime10.fromstring("1970-01-01T00:00:00Z").todelta()
_MICROSECOND = timedelta(microseconds=1)
_EXTENSIONS: dict[str, Any] = {
    **{name: _extension(name) for name in FUNCTIONS},
    COMPARE: _compare,
    "matches": _matches,
    "ends-with": _ends_with,
    "dateTime": _time(DateTime10),
    "date": _time(Date10),
    "dayTimeDuration": _duration,
    **{kind: _number("double" if kind == "float" else kind) for kind in NUMBERS},
}


def extensions(local: Local) -> dict[tuple[str, str], Any]:
    """Return the extension functions of a translated expression, for lxml.

    lxml registers them anew for each evaluation, so there are only those that occur in the text.
    """
    own = {name: _of_texts(function) for name, function in local.functions.items()}
    called = set(_CALL.findall(local.text))
    return {(EXTENSIONS, n): f for n, f in (_EXTENSIONS | own).items() if n in called}


_CALL = re.compile(r"\bx:([\w-]+)\(")


class TooManyItems(ValueError):
    """A sequence has more items than a node set may be made of."""


def _of_texts(function: OfArguments) -> Callable[..., Any]:
    def called(_: Any, *arguments: Any) -> Any:
        made = function([_texts(argument) for argument in arguments])
        if isinstance(made, list) and len(made) > MOST_ITEMS:
            raise TooManyItems
        return made

    return called
