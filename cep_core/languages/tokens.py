"""The tokens of an event language, and a query's shape: its text without the literals.

Queries that differ in literals only have one shape.  A hundred thousand of them are parsed,
compiled and planned once; so splitting a text must cost microseconds, and does not tokenise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from cep_core.errors import QueryError, Span

_UNITS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), Fraction(1, 1_000_000)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Fraction(1, 1_000)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hour", "hours"), Fraction(3_600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86_400)),
    **dict.fromkeys(("w", "week", "weeks"), Fraction(604_800)),
}
_NUMBER = r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_UNIT = rf"(?:\s*(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})\b)?"
_STRING = r"(?P<string>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
_LITERAL = re.compile(rf"{_STRING}|(?<![\w$]){_NUMBER}{_UNIT}", re.IGNORECASE)
_PUBLISH = re.compile(r"\bPUBLISH\s+([A-Za-z_]\w*)\s*\Z", re.IGNORECASE)
_TOKEN = re.compile(
    rf"\s+|{_STRING}|{_NUMBER}{_UNIT}|(?P<decorator>\$[12]?\.)|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign><=|>=|<>|!=|==|[-+*/%=<>≤≥≠(){},;])|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_SAME = {"≤": "<=", "≥": ">=", "≠": "!=", "<>": "!=", "==": "="}
_LONGEST_NUMBER = 400


class Token(NamedTuple):
    """A piece of text: a literal, a name, a decorator, a sign, or the end.

    ``literal`` is the number of a literal in the text, ``value`` what it says.
    """

    kind: str
    text: str
    span: Span
    literal: int = -1
    value: Any = None


def split(text: str, ticks_per_second: int) -> tuple[str, tuple[Any, ...], str | None]:
    """Return the shape of a query, the values of its literals, and what it publishes at its end."""
    published = _PUBLISH.search(text)
    body = text[: published.start()] if published else text
    shape, values, end = [], [], 0
    for found in _LITERAL.finditer(body):
        value = _value(found, text, ticks_per_second)
        values.append(value)
        shape += [*body[end : found.start()].split(), "\0" + _kind(found, value)]
        end = found.end()
    shape += body[end:].split()
    return " ".join(shape), tuple(values), published[1] if published else None


def tokens(text: str, ticks_per_second: int) -> Iterator[Token]:
    """Yield the tokens of a text and its end; literals are numbered as `split` does."""
    literals = 0
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind is None:
            continue
        span = Span(found.start(), found.end())
        if kind in ("string", "number", "unit"):
            value = _value(found, text, ticks_per_second)
            yield Token("literal", found[0], span, literals, value)
            literals += 1
        elif kind == "other":
            raise _unexpected(found[0], text, span)
        else:
            yield Token(kind, _SAME.get(found[0], found[0]), span)
    yield Token("end", "", Span(len(text), len(text)))


def _kind(found: re.Match[str], value: Any) -> str:
    if found["string"] is not None:
        return "s"
    return "d" if found["unit"] else type(value).__name__[0]


def _value(found: re.Match[str], text: str, ticks_per_second: int) -> Any:
    string = found["string"]
    if string is not None:
        quote = string[0]
        return string[1:-1].replace(quote * 2, quote)
    number, unit = found["number"], found["unit"]
    span = Span(found.start(), found.end())
    if len(number) > _LONGEST_NUMBER:
        raise QueryError("this number is too long", text, span)
    if unit is None:
        return int(number) if number.isdigit() else float(number)
    ticks = Fraction(number) * _UNITS[unit.lower()] * ticks_per_second
    if ticks.denominator != 1:
        tick = f"a tick is 1/{ticks_per_second} s" if ticks_per_second > 1 else "a tick is 1 s"
        raise QueryError(f"{found[0]} is no whole number of ticks", text, span, hint=tick)
    return ticks.numerator


def _unexpected(sign: str, text: str, span: Span) -> QueryError:
    if sign in "'\"":
        return QueryError("this string does not end", text, span)
    if sign == "$":
        hint = "decorators are $1. (first stream), $2. (second) and $. (last iteration)"
        return QueryError("an attribute follows $1. $2. or $.", text, span, hint=hint)
    return QueryError(f"{sign!r} is not part of the language", text, span)
