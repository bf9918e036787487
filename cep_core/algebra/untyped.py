"""Values without a type: the texts of documents, and what they are compared as.

A text is a number if it has the form of `xs:double` in XPath 3.1: digits, perhaps a sign, a point
and an exponent, or `INF`, `-INF`, `+INF`, `NaN`, with XML's white space around it.  It is an
instant if it has the form of `xs:date` or `xs:dateTime`, or that of RFC 822, which RSS prescribes.
A time without a zone is in UTC, a date is its beginning.

As a number a text in decimal form is that decimal (`cep_core.decimals`), any other is a
double.

`<`, `<=`, `>` and `>=` compare two such values as numbers if both are numbers, as instants if both
are instants, and as texts, by code point, if neither is a number.  If exactly one is a number they
do not hold.  NaN is a number, which is in no order.  `=` and `!=` compare the texts: they are keys.
A literal in quotes and the result of a function of texts are texts, as in XPath.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias

from cep_core.decimals import DecimalOrDouble, decimal_of

LONGEST = 4_000
"""Characters of a number, without the white space around it; a longer text is none."""
WHITE_SPACE = " \t\r\n"
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|INF)|NaN")

_DIGITS_OF_DOUBLE = 15
"""Decimal digits for which doubles have the order and the equality of decimals."""

Instant: TypeAlias = tuple[int, str]
"""Seconds since 1970 in UTC, and the digits of their fraction without trailing zeros."""

_LONGEST_INSTANT = 100
_ISO = re.compile(
    r"(?P<year>-?(?:[1-9][0-9]{4,8}|[0-9]{4}))-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:T(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]+))?)?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
)
_RFC_822 = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun), *)?(?P<day>[0-9]{1,2}) +(?P<name>[a-z]{3}) +"
    r"(?P<year>[0-9]{4}|[0-9]{2}) +(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2}))?(?: +(?P<zone>[a-z]{1,3}|[+-][0-9]{4}))?",
    re.IGNORECASE | re.ASCII,
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ZONES = {
    **dict.fromkeys(("", "z", "ut", "utc", "gmt"), 0),
    **{"est": -300, "edt": -240, "cst": -360, "cdt": -300},
    **{"mst": -420, "mdt": -360, "pst": -480, "pdt": -420},
}
_CYCLE = 400  # years, after which the calendar repeats
_DAYS = 146_097  # of a cycle
_EPOCH = date(1970, 1, 1).toordinal()


def number_of(text: str) -> float | None:
    """Return the number that a text is, which may be NaN; None if it is none."""
    text = text.strip(WHITE_SPACE)
    if len(text) > LONGEST or not _DOUBLE.fullmatch(text):
        return None
    return float(text)  # reads INF and NaN, too


def operand_of(text: str) -> DecimalOrDouble | None:
    """Return the number that a text is in arithmetic; None if it is none.

    A text in decimal form is a decimal, any other is a double.
    """
    text = text.strip(WHITE_SPACE)
    if len(text) > LONGEST:
        return None
    found = decimal_of(text)
    return number_of(text) if found is None else found


def compared_number(text: str) -> DecimalOrDouble | None:
    """Return the number that a text is, for comparisons; None if it is none.

    A text of at most 15 characters gives a double, which has the exact order; else as `operand_of`.
    """
    text = text.strip(WHITE_SPACE)
    if len(text) > LONGEST or not _DOUBLE.fullmatch(text):
        return None
    return float(text) if len(text) <= _DIGITS_OF_DOUBLE else operand_of(text)


def text_of(value: object) -> str | None:
    """Return the text of a value as XPath writes it; None for null and NaN.

    Numbers have no exponent, whole ones no fraction.  Reading the text gives the same number.
    """
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if isfinite(value):
            return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"
        case float():
            return None if value != value else "INF" if value > 0 else "-INF"
        case _:
            return str(value)


def integer_of(text: str) -> int | None:
    """Return the exact whole number that a text is, also as `1.0` or `1e3`; None if it is none."""
    text = text.strip(WHITE_SPACE)
    found = number_of(text)
    if found is None or not isfinite(found):
        return None
    if not found:  # 0, or too near to it for a double: then a digit is not 0
        return None if text.lower().partition("e")[0].strip("+-.0") else 0
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() else None


def instant_of(text: str) -> Instant | None:
    """Return the instant that a text is as a date, a date with time, or by RFC 822; else None."""
    text = text.strip(WHITE_SPACE)
    return _instant_of(text) if len(text) <= _LONGEST_INSTANT else None


@lru_cache(maxsize=1_000)  # a value of a document is compared with those of many others
def _instant_of(text: str) -> Instant | None:
    found = _ISO.fullmatch(text) or _RFC_822.fullmatch(text)
    try:
        return None if found is None else _instant(found.groupdict(default=""))
    except ValueError:  # no such month, day, time or zone
        return None


def comparands(one: str, other: str) -> tuple[Any, Any] | None:
    """Return the keys that order two texts; None if exactly one of them is a number.

    The keys are two numbers, two instants (`Instant`) or the texts themselves.
    """
    left, right = compared_number(one), compared_number(other)
    if left is not None and right is not None:
        return left, right
    if left is not None or right is not None:
        return None
    begin = instant_of(one)
    end = None if begin is None else instant_of(other)
    return (one, other) if end is None else (begin, end)


def _instant(part: dict[str, str]) -> Instant:
    """Return the instant of a text's parts, by name; raise ValueError if one is out of range."""
    hour, minute = int(part["hour"] or 0), int(part["minute"] or 0)
    second, fraction = int(part["second"] or 0), part.get("part", "").rstrip("0")
    midnight = hour == 24 and not (minute or second or fraction)
    if minute > 59 or second > 59 or (hour > 23 and not midnight):
        raise ValueError("there is no such time of day")
    east = _minutes(part["zone"].lower())
    return ((_day(part) * 24 + hour) * 60 + minute - east) * 60 + second, fraction


def _day(part: dict[str, str]) -> int:
    """Return the days since 1970 of a date of any year."""
    year = int(part["year"])
    if "name" not in part:
        month = int(part["month"])
    else:
        month = 1 + _MONTHS.index(part["name"].lower())
        year += 0 if len(part["year"]) == 4 else 2000 if year < 70 else 1900
    cycles, within = divmod(year, _CYCLE)
    found = date(within + _CYCLE, month, int(part["day"])).toordinal()
    return found + (cycles - 1) * _DAYS - _EPOCH


def _minutes(zone: str) -> int:
    """Return the minutes of a zone east of Greenwich; raise ValueError if it is none."""
    if zone in _ZONES:
        return _ZONES[zone]
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    total = hours * 60 + minutes
    if minutes > 59 or total > 14 * 60:
        raise ValueError("there is no such zone")
    return -total if zone[0] == "-" else total
