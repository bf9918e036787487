"""The functions that a join predicate applies to the string values of nodes.

`f(x)` in a join predicate is a derived node: its string value is `text_of` of
what `f` makes of the string value of x, and it joins like any other leaf.
Where `f` has no value (number() of a word, a date part of no date) the node is
not there.

Most functions are those of XPath 1.0 and 2.0 of the same name.  Differs from
XPath 2.0: the date functions read dates as feeds write them, and give the part
in UTC, since the two sides of a join may be written in different zones.
`canonical-url` is our own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from url_normalize import url_normalize

from feeds.formats.times import parse_time

Value: TypeAlias = "str | float | None"
"""What a function returns; None is no value, which every comparison treats as NaN."""
Kind: TypeAlias = Literal["value", "constant"]


_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Function:
    """A function from strings to a value; it is not called where an argument has none.

    `arguments` says of each what may stand there: any operand, or only a
    string in quotes.
    """

    name: str
    arguments: tuple[Kind, ...]
    result: Literal["string", "number"]
    apply: Callable[..., Value]


def number(text: str) -> float:
    """Return the XPath number of a string, NaN where it is none."""
    match = _NUMBER.fullmatch(text)
    return float(match[1]) if match else math.nan


def text_of(value: Value) -> str | None:
    """Return the string value of a derived node; None where the node is not there.

    Numbers are in XPath's canonical form: no exponent, no fraction without need.
    """
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer():
        return str(int(value))
    return f"{Decimal(repr(value)):f}"


# -- Strings -------------------------------------------------------------------------------

_SPACES = re.compile("[ \t\r\n]+")


def _normalize_space(text: str) -> str:
    return _SPACES.sub(" ", text).strip(" ")


def _before(text: str, separator: str) -> str:
    """Return the text before the separator; "" without it, and before the empty string."""
    return text[: max(0, text.find(separator))]


def _after(text: str, separator: str) -> str:
    """Return the text after the separator; "" without it, all of it after the empty string."""
    start = text.find(separator)
    return "" if start < 0 else text[start + len(separator) :]


def _length(text: str) -> float:
    return float(len(text))


# -- Numbers and dates ---------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = re.compile(r"\d:\d|\dt\d", re.IGNORECASE | re.ASCII)


def _number(text: str) -> float | None:
    value = number(text)
    return None if math.isnan(value) else value


def _moment(text: str) -> datetime | None:
    """Return the time in UTC, of a day without a clock its beginning; none is before 1900."""
    time = parse_time(text)
    return None if time is None else _EPOCH + timedelta(microseconds=time)


def _part(name: Literal["year", "month", "day"]) -> Callable[[str], float | None]:
    """Return the function to a part of a date, None if a text is none."""

    def part(text: str) -> float | None:
        moment = _moment(text)
        return None if moment is None else float(getattr(moment, name))

    return part


def _hours(text: str) -> float | None:
    """Return the hour; a day without a clock has none."""
    moment = _moment(text)
    return None if moment is None or not _CLOCK.search(text) else float(moment.hour)


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
            Function("string-length", ("value",), "number", _length),
            Function("number", ("value",), "number", _number),
            Function("year-from-date", ("value",), "number", _part("year")),
            Function("month-from-date", ("value",), "number", _part("month")),
            Function("day-from-date", ("value",), "number", _part("day")),
            Function("hours-from-dateTime", ("value",), "number", _hours),
            Function("canonical-url", ("value",), "string", canonical_url),
        )
    }
)
"""The functions by name."""
