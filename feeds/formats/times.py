"""Times as publishers write them, to microseconds since the epoch (UTC).

RSS asks for RFC 822 dates (`Tue, 19 Mar 2013 10:00:00 GMT`), Atom for RFC 3339
(`2013-03-19T10:00:00Z`), Dublin Core for W3CDTF (that, or only its beginning).  Other accepted
forms: full or foreign-order names of days, names of months in full and in some other languages,
years of two digits, hyphens for blanks, missing seconds and zones, zones of hours, the time before
the year (asctime), `24:00`, leap seconds (they become the next second), 12-hour clocks, numbers
before the signs for year, month and day.  A missing or unknown zone means UTC.  Numbers of days and
months that may be either (`10/03/2023`) are no time.

A time that cannot be read is None.  So is one before 1900: that is not a date
but a program's zero.  Far futures are read; whoever orders by time clips them.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_EARLIEST = (date(1900, 1, 1).toordinal() - _EPOCH_DAY) * 86_400
_END = (date.max.toordinal() + 1 - _EPOCH_DAY) * 86_400
_CACHED = 1_000
"""Results that are cached: an item often has a time twice, and items of a poll share one."""

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan gen ene ian янв \u03b9\u03b1\u03bd",
            "feb fev фев \u03c6\u03b5\u03b2",
            "mar maa mrt мар \u03bc\u03b1\u03c1",
            "apr avr abr апр \u03b1\u03c0\u03c1",
            "may mai maj mei mag маи мая \u03bc\u03b1\u03b9",
            "jun juin giu iun июн \u03b9\u03bf\u03c5\u03bd",
            "jul juil lug iul июл \u03b9\u03bf\u03c5\u03bb",
            "aug aou ago авг \u03b1\u03c5\u03b3",
            "sep set sze сен \u03c3\u03b5\u03c0",
            "oct okt ott out окт \u03bf\u03ba\u03c4",
            "nov noi marr ноя \u03bd\u03bf\u03b5",
            "dec dez des dic дек \u03b4\u03b5\u03ba",
        ),
        1,
    )
    for name in names.split()
}
"""Beginnings of names of months, without accents, of languages that do not conflict."""

_ZONES = {
    "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600,
    "bst": 60, "wet": 0, "west": 60, "cet": 60, "cest": 120, "met": 60, "mest": 120,
    "eet": 120, "eest": 180, "msk": 180, "jst": 540, "kst": 540, "aest": 600, "aedt": 660,
}  # fmt: skip
"""Names of zones, in minutes east of Greenwich.  Military letters are left out."""

_CLOCK = (
    r"(?:(?P<noon>오전|오후|上午|下午|午前|午後)\s*)?(?P<hour>\d{1,2})[:h](?P<minute>\d{1,2})"
    r"(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,12}))?)?(?:\s*(?P<half>[ap])\.?m\b\.?)?"
)
_ZONE = r"\s*(?P<zone>(?:[a-z]{1,5}\s*)?[+-]\s?\d{1,2}(?::?\d{2})?|[a-z]{1,5})?"
_DAY_NAME = r"(?:[^\W\d_][\w-]{1,14}\.?\s*,?\s*)??"
_MONTH_NAME = r"(?P<name>[^\W\d_]{3,12})\.?"
_THEN = r"\s*(?:,|-|\u2013)?[\st]\s*(?:(?:at|um|a|as)\s+)?"
"""The separator between date and time."""

_FORMS = tuple(
    form + r"(?:\s*\(.{0,40}\)|\s*\[[\w/+-]{1,40}\]|\s+[a-z]{2,5})?\s*"
    for form in (
        # RFC 3339, W3CDTF, ISO 8601 basic
        rf"(?:{_DAY_NAME}(?=\d{{4}}[-/]))?(?P<year>\d{{4}})(?:[-/](?P<month>\d{{1,2}})(?:[-/](?P<day>\d{{1,2}}))?)?"
        rf"(?:[t_\s]\s*{_CLOCK}{_ZONE})?",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"
        r"(?:t(?P<hour>\d\d):?(?P<minute>\d\d)(?::?(?P<second>\d\d))?" + _ZONE + ")?",
        # East Asian signs, and the name of the month between numbers
        r"(?P<year>\d{4})\s*[년年]\s*(?P<month>\d{1,2})\s*[월月]\s*(?P<day>\d{1,2})\s*[일日]"
        rf"(?:\s*\(?[^\W\d_]{{1,3}}\)?)??(?:\s*{_CLOCK}{_ZONE})?",
        rf"(?P<year>\d{{4}})[-\s./]+{_MONTH_NAME}[-\s./]+(?P<day>\d{{1,2}})\.?"
        rf"(?:{_THEN}{_CLOCK}{_ZONE})?",
        # RFC 822 and RFC 850
        rf"{_DAY_NAME}(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?[-\s,/.]+(?:de\s+)?"
        rf"{_MONTH_NAME}[-\s,/]+(?:de\s+)?(?P<year>\d{{4}}|\d{{2}})(?:{_THEN}{_CLOCK}{_ZONE})?",
        # asctime and the American order
        rf"{_DAY_NAME}{_MONTH_NAME}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+"
        rf"(?P<year>\d{{4}})(?:{_THEN}{_CLOCK}{_ZONE})?",
        rf"{_DAY_NAME}{_MONTH_NAME}\s+(?P<day>\d{{1,2}})\s+{_CLOCK}{_ZONE}\s+(?P<year>\d{{4}})",
    )
)


def parse_time(text: str | None) -> int | None:
    """Microseconds since the epoch, or None if the text is no time we can read."""
    found = _parsed(text or "")
    return None if found is None else found[0]


def parse_clock(text: str) -> int | None:
    """The local time of a text as microseconds since the epoch, without its zone, or None."""
    found = _parsed(text)
    return None if found is None else found[0] + found[1] * 60 * SECOND


def _parsed(text: str) -> tuple[int, int] | None:
    """Return a time in microseconds, and its zone in minutes east of Greenwich; None for others."""
    text = text.strip()
    return _read(text) if 0 < len(text) <= 100 else None


@lru_cache(maxsize=_CACHED)
def _read(text: str) -> tuple[int, int] | None:
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        bare = "".join(each for each in apart if not unicodedata.combining(each))
        text = unicodedata.normalize("NFC", bare)
        if any(each.isdecimal() and not each.isascii() for each in text):
            return None
    for form in _FORMS:
        found = re.fullmatch(form, text, re.IGNORECASE)
        if found:
            parts = found.groupdict()
            time = _time(parts)
            return None if time is None else (time, _zone(parts.get("zone")))
    return None


@lru_cache(maxsize=_CACHED)
def rfc3339(time: int) -> str:
    """`2013-03-19T10:00:00Z`, with a fraction only if there is one."""
    seconds, fraction = divmod(time, SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]
    return f"{text}.{fraction:06d}Z" if fraction else f"{text}Z"


def _time(part: dict[str, str | None]) -> int | None:
    """The time of a match; None if a number is out of range, the result included."""
    hour, minute, second = _hour(part), int(part.get("minute") or 0), int(part.get("second") or 0)
    east = _zone(part.get("zone"))
    if hour > 24 or minute > 59 or second > 60 or abs(east) >= 24 * 60:
        return None
    try:
        day = date(_year(part), _month(part), int(part.get("day") or 1)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    moment = ((day * 24 + hour) * 60 + minute - east) * 60 + second
    if not _EARLIEST <= moment < _END:
        return None
    return moment * SECOND + int(((part.get("fraction") or "") + "000000")[:6])


def _year(part: dict[str, str | None]) -> int:
    digits = part["year"] or ""
    if len(digits) == 4:
        return int(digits)
    return int(digits) + (2000 if int(digits) < 70 else 1900)


def _month(part: dict[str, str | None]) -> int:
    """The number of the month; 0, which no date has, for a name that is none."""
    name = (part.get("name") or "").lower()
    if not name:
        return int(part.get("month") or 1)
    return _MONTHS.get(name[:4]) or _MONTHS.get(name[:3], 0)


def _hour(part: dict[str, str | None]) -> int:
    hour = int(part.get("hour") or 0)
    match (part.get("half") or part.get("noon") or "").lower():
        case "p" | "오후" | "下午" | "午後":
            return hour if hour == 12 else hour + 12
        case "a" | "오전" | "上午" | "午前":
            return 0 if hour == 12 else hour
        case _:
            return hour


def _zone(text: str | None) -> int:
    """Minutes east of Greenwich; a number counts, whatever name stands before it."""
    text = (text or "").lower()
    if text in _ZONES or text in ("", "z", "gmt"):
        return _ZONES.get(text, 0)
    signed = re.search(r"([+-])\s?(\d{1,2}?)(?::?(\d{2}))?$", text)
    if signed is None:
        return _ZONES.get(text, 0)
    minutes = int(signed[2]) * 60 + int(signed[3] or 0)
    return -minutes if signed[1] == "-" else minutes
