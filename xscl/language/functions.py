"""The functions that a join predicate applies to the string values of nodes.

`f(x)` in a join predicate is a derived node: its string value is `text_of` of
what `f` makes of the string value of x, and it joins like any other leaf.
Where `f` has no value (number() of a word, a date part of no date) the node is
not there.

Most functions are those of XPath 1.0 and 2.0 of the same name.  Differs from
XPath 2.0: the date functions read dates as feeds write them, too.
`canonical-url` and `plain-text` are our own.

Those that make texts raise BeyondBounds where `cep_core.algebra.function_bounds` says so.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never
from urllib.parse import urlsplit, urlunsplit

from url_normalize import url_normalize

from cep_core.algebra import WHITE_SPACE, instant_of, number_of
from cep_core.algebra.function_bounds import (
    Budget,
    current_budget,
    expect_length,
    read,
    spending,
)
from feeds.formats.times import parse_clock, parse_time
from xscl.language.syntax import Call, Constant, Operand, Through, VariablePath

Value: TypeAlias = "str | float | None"
"""What a function returns; None is no value, which every comparison treats as NaN."""
Kind: TypeAlias = Literal["value", "constant", "number"]


@dataclass(frozen=True, slots=True)
class Function:
    """A function from strings to a value; it is not called where an argument has none.

    `arguments` says of each what may stand there: any operand, or only a
    string in quotes, or only a number.  The last ones have `defaults`.  One of `several` returns a
    tuple of values.
    """

    name: str
    arguments: tuple[Kind, ...]
    result: Literal["string", "number"]
    apply: Callable[..., Value]
    defaults: tuple[str | float, ...] = ()
    several: bool = False

    def missing(self, count: int) -> tuple[str | float, ...] | None:
        """Return the defaults of the arguments after so many; None if these are too few or many."""
        left = len(self.arguments) - count
        if not 0 <= left <= len(self.defaults):
            return None
        return self.defaults[len(self.defaults) - left :]


def number(text: str) -> float:
    """Return the XPath number of a string, NaN where it is none."""
    found = number_of(text)
    return math.nan if found is None else found


def text_of(value: Value) -> str | None:
    """Return the string value of a derived node; None where the node is not there.

    Numbers have no exponent, and no fraction without need; they are read again as the same ones.
    """
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    if value.is_integer():
        return str(int(value))
    return f"{Decimal(repr(value)):f}"


# -- Strings -------------------------------------------------------------------------------

_SPACES = re.compile("[ \t\r\n]+")


def _normalize_space(text: str) -> str:
    read(text)
    return _SPACES.sub(" ", text).strip(" ")


def _before(text: str, separator: str) -> str:
    """Return the text before the separator; "" without it, and before the empty string."""
    return text[: max(0, text.find(separator))]


def _after(text: str, separator: str) -> str:
    """Return the text after the separator; "" without it, all of it after the empty string."""
    start = text.find(separator)
    return "" if start < 0 else text[start + len(separator) :]


_WORD = re.compile(r"\w+")


def _tokens(text: str) -> str:
    """Return the distinct words of a text in lower case, sorted, with spaces between them."""
    read(text)
    return " ".join(sorted(set(_WORD.findall(text.lower()))))


def _jaccard(one: str, other: str) -> float:
    """Return the share of common words in all words of two texts; 0 of two without words."""
    read(one)
    read(other)
    mine, others = set(one.split()), set(other.split())
    return len(mine & others) / (len(mine | others) or 1)


def _length(text: str) -> float:
    return float(len(text))


_END = 1e9


def _substring(text: str, start: str, length: str) -> str:
    """Return the characters whose positions, from 1, round to a place in the range."""
    first, last = (_nearest(max(-_END, min(float(one), _END))) for one in (start, length))
    end = first + last
    return text[max(0, first - 1) : max(0, end - 1)]


def _translate(text: str, old: str, new: str) -> str:
    """Return the text with each character of `old` replaced by that of `new`, or removed."""
    read(text)
    table = {ord(a): b for a, b in reversed([*zip(old, [*new, *[""] * len(old)], strict=False)])}
    return text.translate(table)


def _replace(text: str, pattern: str, replacement: str, flags: str) -> str:
    from xscl.language.regex import replacer  # loads RE2

    return replacer(pattern, replacement, flags)(text)


_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.I)
_BLOCKS = "p|div|br|hr|li|ul|ol|dl|dt|dd|tr|td|th|table|h[1-6]|blockquote|pre|section|article"
_BREAKS = re.compile(rf"</?(?:{_BLOCKS})\b[^<>]*>", re.IGNORECASE)
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>")


def _plain_text(text: str) -> str:
    """Return the text of HTML: without tags, entities decoded, white space normalized."""
    read(text)
    if "<" in text:
        text = _TAGS.sub("", _BREAKS.sub(" ", _HIDDEN.sub(" ", text)))
    return " ".join(html.unescape(text).split())


def _whole(apply: Callable[[float], float]) -> Callable[[float], float]:
    """Return a function to whole numbers that leaves infinities as they are."""
    return lambda value: value if math.isinf(value) else apply(value)


def _nearest(value: float) -> int:
    """Return the nearest whole number, the upper of two, as fn:round does."""
    return math.floor(value + 0.5)


def _of_number(apply: Callable[[float], float]) -> Callable[[str], float | None]:
    """Return a function of a number as one of its text."""

    def applied(text: str) -> float | None:
        value = number(text)
        return None if math.isnan(value) else float(apply(value))

    return applied


# -- Numbers and dates ---------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = re.compile(r"\d:\d|\dt\d", re.IGNORECASE | re.ASCII)
_DATE = re.compile(
    r"(?P<year>-?[0-9]{4,9})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?:T(?P<hour>[0-9]{2}):[0-9:.]+)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _number(text: str) -> float | None:
    value = number(text)
    return None if math.isnan(value) else value


def _part(name: Literal["year", "month", "day", "hour"]) -> Callable[[str], float | None]:
    """Return the function to a part of a date as it is written, None if a text is none.

    Dates are those of XPath, and those of feeds.  A day without a clock has no hour.
    """

    def part(text: str) -> float | None:
        found = _DATE.fullmatch(text.strip(WHITE_SPACE))
        if found is not None and instant_of(text) is not None and found["hour"] != "24":
            written = found[name]
            return None if written is None else float(written)
        clock = parse_clock(text)
        if clock is None or (name == "hour" and not _CLOCK.search(text)):
            return None
        try:
            return float(getattr(_EPOCH + timedelta(microseconds=clock), name))
        except OverflowError:  # the year 10,000 begins where it is written
            return None

    return part


# -- Addresses -----------------------------------------------------------------------------

_LONGEST = 4_000
_WEB = re.compile(r"https?://[^\s/?#\\]+(?:[/?#]|$)", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9._-]*[a-z0-9][a-z0-9._-]*|[0-9a-f:.]+")
_TRACKING = frozenset(
    (
        # clicks on advertisements and posts
        *("fbclid", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "ysclid"),
        *("twclid", "ttclid", "li_fat_id", "igshid", "igsh", "srsltid", "epik", "rdt_cid"),
        # mails
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__s", "vero_id", "vero_conv"),
        *("oly_anon_id", "oly_enc_id", "ml_subscriber", "ml_subscriber_hash"),
        # web analytics
        *("_ga", "_gl", "__hstc", "__hssc", "__hsfp", "hsctatracking", "xtor", "wt_mc", "wickedid"),
    )
)
_CAMPAIGNS = ("utm_", "mtm_", "pk_", "piwik_", "matomo_")


def canonical_url(text: str) -> str | None:
    """Return one spelling of the web addresses that lead to the same page.

    Scheme and host in lower case, no default port, dots and escapes resolved
    (RFC 3986, section 6.2), IDNA; then without the fragment, without parameters
    that only trace the reader, the others sorted, and without slashes at the
    end of the path.  None for what is not an http or https address.  `http`
    and `https`, and `www.` or not, remain different.
    """
    address = text.strip()
    if len(address) > _LONGEST or not _WEB.match(address):
        return None
    try:
        parts = urlsplit(str(url_normalize(address)))
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # there can be no such host, or no such port
        return None
    if not _HOST.fullmatch(host):
        return None
    query = "&".join(sorted(filter(_is_content, parts.query.split("&"))))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/", query, ""))


def _is_content(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return bool(parameter) and name not in _TRACKING and not name.startswith(_CAMPAIGNS)


# -- The table -----------------------------------------------------------------------------

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        function.name: function
        for function in (
            Function("string", ("value",), "string", str),
            Function("lower-case", ("value",), "string", str.lower),
            Function("upper-case", ("value",), "string", str.upper),
            Function("normalize-space", ("value",), "string", _normalize_space),
            Function("substring-before", ("value", "constant"), "string", _before),
            Function("substring-after", ("value", "constant"), "string", _after),
            Function("substring", ("value", "number", "number"), "string", _substring, (_END,)),
            Function("translate", ("value", "constant", "constant"), "string", _translate),
            Function(
                "replace", ("value", "constant", "constant", "constant"), "string", _replace, ("",)
            ),
            Function("plain-text", ("value",), "string", _plain_text),
            Function("tokens", ("value",), "string", _tokens),
            Function("jaccard", ("value", "value"), "number", _jaccard),
            Function("string-length", ("value",), "number", _length),
            Function("number", ("value",), "number", _number),
            Function("abs", ("value",), "number", _of_number(abs)),
            Function("round", ("value",), "number", _of_number(_whole(_nearest))),
            Function("floor", ("value",), "number", _of_number(_whole(math.floor))),
            Function("ceiling", ("value",), "number", _of_number(_whole(math.ceil))),
            Function("year-from-date", ("value",), "number", _part("year")),
            Function("month-from-date", ("value",), "number", _part("month")),
            Function("day-from-date", ("value",), "number", _part("day")),
            Function("hours-from-dateTime", ("value",), "number", _part("hour")),
            Function("canonical-url", ("value",), "string", canonical_url),
        )
    }
)
"""The functions by name."""

# -- Between documents ---------------------------------------------------------------------


def _concat(one: str, other: str) -> str:
    expect_length(len(one) + len(other), max(len(one), len(other)))
    return one + other


def _tokenize(text: str, pattern: str, flags: str) -> Any:
    """Return the parts of a text; without an expression those between white space."""
    from xscl.language.regex import pieces  # loads RE2

    if pattern:
        return tuple(pieces(text, pattern, flags))
    found = text.split()
    current_budget().spend(len(found))
    return tuple(found)


def _seconds(text: str) -> float | None:
    """Return the seconds since 1970 of a time, as feeds and ISO 8601 write it."""
    time = parse_time(text)
    return None if time is None else time / 1_000_000


def _day(text: str) -> float | None:
    """Return the seconds since 1970 of the beginning of a day, in UTC."""
    time = parse_time(text)
    return None if time is None else float(time // 86_400_000_000 * 86_400)


_DURATION = re.compile(
    r"(-?)P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def duration(text: str) -> float | None:
    """Return the seconds of a duration of days, hours, minutes and seconds (`P1DT12H`)."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    sign, *parts = found.groups()
    seconds = sum(
        float(part or 0) * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True)
    )
    return -seconds if sign else seconds


DATE_TIME, DURATION = "xs:dateTime", "xs:dayTimeDuration"

OPERANDS: Mapping[str, Function] = MappingProxyType(
    {
        **FUNCTIONS,
        **{
            function.name: function
            for function in (
                Function("concat", ("value", "value"), "string", _concat),
                Function(
                    "tokenize",
                    ("value", "constant", "constant"),
                    "string",
                    _tokenize,
                    ("", ""),
                    several=True,
                ),
                Function(DATE_TIME, ("value",), "number", _seconds),
                Function("xs:date", ("value",), "number", _day),
                Function(DURATION, ("constant",), "number", duration),
            )
        },
    }
)
"""The functions between documents, over time and in constructors; XPath has more in blocks."""

COMPARED_BY = "compared-by"
"""The function of a derived node whose text is compared by the operator of the second argument.

It returns the text.  It stands in definitions of variables only, so that a text that is compared
otherwise than by equality is a variable of its own.
"""
DEFINING: Mapping[str, Function] = MappingProxyType(
    {
        **OPERANDS,
        COMPARED_BY: Function(COMPARED_BY, ("value", "constant"), "string", lambda text, _: text),
    }
)
"""The functions of derived nodes in definitions of variables."""

TESTS: Mapping[str, tuple[Kind, ...]] = MappingProxyType(
    {
        "contains": ("value", "value"),
        "starts-with": ("value", "value"),
        "ends-with": ("value", "value"),
        "matches": ("value", "constant", "constant"),
    }
)
"""The arguments of the functions that are predicates; the flags of `matches` are optional."""


def matches(text: str, pattern: str, flags: str = "") -> bool:
    """Return True if a part of a text matches a regular expression."""
    from xscl.language.regex import expression  # loads RE2

    return expression(pattern, flags).within(text)


# -- On the values of a path ---------------------------------------------------------------


@lru_cache(maxsize=4096)
def values_through(through: Through) -> Callable[[Sequence[str]], list[str]]:
    """Return a function from the texts of a path's nodes to the values that a condition tests.

    The function raises BeyondBounds.
    """
    value = _of_text(through.operand)

    def each(texts: Sequence[str]) -> list[str]:
        with spending(Budget()):
            return [made for text in texts if (made := text_of(value(text))) is not None]

    match through.mode:
        case "count":
            return lambda texts: [str(len(texts))]
        case "each":
            return each
        case "first":
            return lambda texts: each(texts[:1] or ("",))
        case _:
            assert_never(through.mode)


def _of_text(operand: Operand) -> Callable[[str], Value]:
    """Return an operand over `.` as a function of its text."""
    match operand:
        case VariablePath():
            return str
        case Constant(constant):
            return lambda text: constant if isinstance(constant, str) else float(constant)
        case Call(function, (VariablePath(),)):
            apply = FUNCTIONS[function].apply
            return lambda text: apply(text)
        case Call(function, (inner, *constants)):
            apply, value = FUNCTIONS[function].apply, _of_text(inner)
            rest = [text_of(_of_text(constant)("")) for constant in constants]

            def applied(text: str) -> Value:
                argument = text_of(value(text))
                return None if argument is None else apply(argument, *rest)

            return applied
        case _:
            raise AssertionError("a condition applies functions to the values of a path")
