"""The functions of XSCL: one table for blocks, joins, operators over time and the event languages.

`f(x)` in a join predicate is a derived node: its string value is `text_of` of
what `f` makes of the string value of x, and it joins like any other leaf.
Where `f` has no value (number() of a word, a date part of no date) the node is
not there.

Most functions are those of XPath 1.0 and 2.0 of the same name.  Differs from
XPath 2.0: the date functions read dates as feeds write them, too.
`canonical-url` and `plain-text` are our own.  CEL, SASE and EQL call them with _ for - and :
(`EVENT_FUNCTIONS`).

Those that make texts raise BeyondBounds where `cep_core.algebra.function_bounds` says so.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias, assert_never
from urllib.parse import urlsplit, urlunsplit

from url_normalize import url_normalize

from cep_core.algebra import (
    WHITE_SPACE,
    BoundedDecimal,
    DecimalOrDouble,
    compared_number,
    instant_of,
    number_of,
    text_of,
)
from cep_core.algebra.function_bounds import (
    Budget,
    current_budget,
    expect_length,
    read,
    spending,
)
from cep_core.algebra.functions import FUNCTIONS as CORE
from cep_core.algebra.functions import Function, decimal_value, nearest, number_value
from feeds.formats.times import parse_clock, parse_time
from xscl.language.syntax import Call, Constant, Operand, Through, VariablePath

Value: TypeAlias = "str | DecimalOrDouble | None"
"""The result of a function; None is no value, which every comparison treats as NaN."""


def number(text: str) -> float:
    """Return the XPath number of a string, NaN where it is none."""
    found = number_of(text)
    return math.nan if found is None else found


def compared(text: str) -> DecimalOrDouble:
    """Return the number as which comparisons take a string, NaN where it is none."""
    found = compared_number(text)
    return math.nan if found is None else found


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


_END = 1e9


def _substring(text: str, start: float, length: float = _END) -> str:
    """Return `length` characters from the position `start` on, counted from 1; both are rounded."""
    first, last = (nearest(max(-_END, min(one, _END))) for one in (start, length))
    end = first + last
    return text[max(0, first - 1) : max(0, end - 1)]


def _translate(text: str, old: str, new: str) -> str:
    """Return the text with each character of `old` replaced by that of `new`, or removed."""
    read(text)
    table = {ord(a): b for a, b in reversed([*zip(old, [*new, *[""] * len(old)], strict=False)])}
    return text.translate(table)


def _replace(text: str, pattern: str, replacement: str, flags: str = "") -> str:
    from xscl.language.regex import replacer  # loads RE2

    return replacer(pattern, replacement, flags)(text)


_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.I)
_BLOCKS = "p|div|br|hr|li|ul|ol|dl|dt|dd|tr|td|th|table|h[1-6]|blockquote|pre|section|article"
_BREAKS = re.compile(rf"</?(?:{_BLOCKS})\b[^<>]*>", re.IGNORECASE)
_TAGS = re.compile(r"</?[a-zA-Z][^<>]*>")
_NO_CHARACTER = re.compile("&#[0-9]{1000,};?")
"""A reference with more digits than `int` may read."""


def _plain_text(text: str) -> str:
    """Return the text of HTML: without tags, entities decoded, white space normalized."""
    read(text)
    if "<" in text:
        text = _TAGS.sub("", _BREAKS.sub(" ", _HIDDEN.sub(" ", text)))
    return " ".join(html.unescape(_NO_CHARACTER.sub("\ufffd", text)).split())


# -- Numbers and dates ---------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = re.compile(r"\d:\d|\dt\d", re.IGNORECASE | re.ASCII)
_DATE = re.compile(
    r"(?P<year>-?[0-9]{4,9})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})(?:T(?P<hour>[0-9]{2}):[0-9:.]+)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _part(name: Literal["year", "month", "day", "hour"]) -> Callable[[str], int | None]:
    """Return the function from a date to a part of it as written; None if a text is no date.

    Dates are those of XPath, and those of feeds.  A date without a time of day has no hour.
    """

    def part(text: str) -> int | None:
        found = _DATE.fullmatch(text.strip(WHITE_SPACE))
        if found is not None and instant_of(text) is not None and found["hour"] != "24":
            written = found[name]
            return None if written is None else int(written)
        clock = parse_clock(text)
        if clock is None or (name == "hour" and not _CLOCK.search(text)):
            return None
        try:
            moment = _EPOCH + timedelta(microseconds=clock)
        except OverflowError:  # the date as written is after the year 9999
            return None
        return {"year": moment.year, "month": moment.month, "day": moment.day, "hour": moment.hour}[
            name
        ]

    return part


# -- Addresses -----------------------------------------------------------------------------

_LONGEST = 4_000
_WEB = re.compile(r"https?://[^\s/?#\\]+(?:[/?#]|$)", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9._-]*[a-z0-9][a-z0-9._-]*|[0-9a-f:.]+")
_TRACKING = frozenset(
    (
        # parameters for clicks on advertisements and posts
        *("fbclid", "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "ysclid"),
        *("twclid", "ttclid", "li_fat_id", "igshid", "igsh", "srsltid", "epik", "rdt_cid"),
        # parameters of mails
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__s", "vero_id", "vero_conv"),
        *("oly_anon_id", "oly_enc_id", "ml_subscriber", "ml_subscriber_hash"),
        # parameters of web analytics
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
    except ValueError:  # the host or the port is impossible
        return None
    if not _HOST.fullmatch(host):
        return None
    query = "&".join(sorted(filter(_is_content, parts.query.split("&"))))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") or "/", query, ""))


def _is_content(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return bool(parameter) and name not in _TRACKING and not name.startswith(_CAMPAIGNS)


# -- Between documents ---------------------------------------------------------------------


def _concat(*texts: str) -> str:
    sizes = [*map(len, texts)]
    expect_length(sum(sizes), max(sizes))
    return "".join(texts)


def _tokenize(text: str, pattern: str = "", flags: str = "") -> tuple[str, ...]:
    """Return the parts of a text; without an expression those between white space."""
    from xscl.language.regex import pieces  # loads RE2

    if pattern:
        return tuple(pieces(text, pattern, flags))
    found = text.split()
    current_budget().spend(len(found))
    return tuple(found)


def seconds(text: str) -> float | None:
    """Return the seconds from 1970 to a time, as feeds or ISO 8601 write it; else None."""
    time = parse_time(text)
    return None if time is None else time / 1_000_000


def _day(text: str) -> float | None:
    """Return the seconds from 1970 to the begin of a time's day in UTC; None for no time."""
    time = parse_time(text)
    return None if time is None else float(time // 86_400_000_000 * 86_400)


_DURATION = re.compile(
    r"(-?)P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def duration(text: str) -> float | None:
    """Return the seconds of a duration without years and months, such as `-P1DT12H`; else None."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    sign, *parts = found.groups()
    seconds = sum(
        float(part or 0) * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=True)
    )
    return -seconds if sign else seconds


DATE_TIME, DURATION, DECIMAL = "xs:dateTime", "xs:dayTimeDuration", "xs:decimal"
TIME = "time"
"""The function from a variable to its document's time, or to its instant if it is a calendar's."""


def matches(text: str, pattern: str, flags: str = "") -> bool:
    """Return True if a part of a text matches a regular expression."""
    from xscl.language.regex import expression  # loads RE2

    return expression(pattern, flags).within(text)


# -- The table -----------------------------------------------------------------------------

MOST_JOINED = 16
"""Arguments of `concat`."""
COMPARED_BY = "compared-by"
"""The function of a derived node whose text is compared by the operator of the second argument.

It returns the text.  It stands in definitions of variables only, so that a text that is compared
otherwise than by equality is a variable of its own.
"""

COMPARED_NUMBER = "compared-number"
"""The function from a text to the number as which it is compared with a number.

Its derived nodes stand in definitions of variables only.
"""


def _of_core(*names: str) -> dict[str, Function]:
    """Return the functions of the core that have these names in XPath, with _ for -."""
    return {name: CORE[name.replace("-", "_")] for name in names}


_OF_ONE: dict[str, Function] = {
    **_of_core("string", "lower-case", "upper-case"),
    "normalize-space": Function(_normalize_space, (str,), str),
    "substring-before": Function(_before, (str, str), str, constants=1),
    "substring-after": Function(_after, (str, str), str, constants=1),
    "substring": Function(_substring, (str, float, float), str, optional=1, constants=2),
    "translate": Function(_translate, (str, str, str), str, constants=2),
    "replace": Function(_replace, (str, str, str, str), str, optional=1, constants=3),
    "plain-text": Function(_plain_text, (str,), str),
    "tokens": Function(_tokens, (str,), str),
    "jaccard": Function(_jaccard, (str, str), float),
    **_of_core("string-length"),
    "number": Function(number_value, (str,), float),
    **_of_core("abs", "round", "floor", "ceiling"),
    "year-from-date": Function(_part("year"), (str,), int),
    "month-from-date": Function(_part("month"), (str,), int),
    "day-from-date": Function(_part("day"), (str,), int),
    "hours-from-dateTime": Function(_part("hour"), (str,), int),
    "canonical-url": Function(canonical_url, (str,), str),
}
FUNCTIONS: Mapping[str, Function] = MappingProxyType(_OF_ONE)
"""The functions in conditions by name: the first argument is a path, the others are constants."""
OPERANDS: Mapping[str, Function] = MappingProxyType(
    {
        **FUNCTIONS,
        "concat": Function(_concat, (str,) * MOST_JOINED, str, optional=MOST_JOINED - 2),
        "tokenize": Function(_tokenize, (str, str, str), tuple, optional=2, constants=2),
        DECIMAL: Function(decimal_value, (object,), BoundedDecimal),
        DATE_TIME: Function(seconds, (str,), float),
        "xs:date": Function(_day, (str,), float),
        DURATION: Function(duration, (str,), float, constants=1),
        TIME: Function(seconds, (str,), float),
    }
)
"""The functions between documents, over time and in constructors; XPath has more in blocks."""
TESTS: Mapping[str, Function] = MappingProxyType(
    {
        **_of_core("contains", "starts-with", "ends-with"),
        "matches": Function(matches, (str, str, str), bool, optional=1, constants=2),
    }
)
"""The functions that are predicates."""
DEFINING: Mapping[str, Function] = MappingProxyType(
    {
        **OPERANDS,
        COMPARED_BY: Function(lambda text, _: text, (str, str), str, constants=1),
        COMPARED_NUMBER: Function(compared_number, (str,), BoundedDecimal),
    }
)
"""The functions of derived nodes in definitions of variables."""
EVENT_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        written: function
        for name, function in (*OPERANDS.items(), *TESTS.items())
        if name != TIME and (written := name.replace("-", "_").replace(":", "_")) not in CORE
    }
)
"""The functions that CEL, SASE and EQL have beside those of the core."""

NUMERIC = (int, float, BoundedDecimal)
"""The types of functions whose values are numbers."""

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
            return lambda text: constant
        case Call(function, (VariablePath(),)):
            called = FUNCTIONS[function]
            return called.call if called.arguments == (str,) else called.apply
        case Call(function, (inner, *constants)):
            apply, value = FUNCTIONS[function].apply, _of_text(inner)
            rest = [_of_text(constant)("") for constant in constants]
            return lambda text: apply(value(text), *rest)
        case _:
            raise AssertionError("a condition applies functions to the values of a path")
