"""Times as publishers write them, to microseconds since the epoch (UTC).

RSS asks for RFC 822 dates (`Tue, 19 Mar 2013 10:00:00 GMT`), Atom for RFC 3339
(`2013-03-19T10:00:00Z`), Dublin Core for W3CDTF (that, or only its beginning).  Other accepted
forms: full or foreign-order names of days, full names of months, years of two digits, hyphens for
blanks, missing seconds and zones, the time before the year (asctime), `24:00`, leap seconds (they
become the next second), 12-hour clocks.  A missing or unknown zone means UTC.

A time that cannot be read is None.  So is one before 1900: that is not a date
but a program's zero.  Far futures are read; whoever orders by time clips them.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_EARLIEST = (date(1900, 1, 1).toordinal() - _EPOCH_DAY) * 86_400
_END = (date.max.toordinal() + 1 - _EPOCH_DAY) * 86_400
_CACHED = 1_000
"""Times that are remembered: an item often has one twice, and all items of a poll have its own."""

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}

_ZONES = {
    "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360,
    "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600,
    "bst": 60, "wet": 0, "west": 60, "cet": 60, "cest": 120, "met": 60, "mest": 120,
    "eet": 120, "eest": 180, "msk": 180, "jst": 540, "kst": 540, "aest": 600, "aedt": 660,
}  # fmt: skip
"""Names of zones, in minutes east of Greenwich.  Military letters were never used as meant."""

_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:[.,](?P<fraction>\d{1,12}))?)?"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?"
)
_ZONE = r"\s*(?P<zone>(?:[a-z]{1,5}\s*)?[+-]\s?\d{1,2}:?\d{2}|[a-z]{1,5})?"

_FORMS = tuple(
    re.compile(form + r"(?:\s*\(.{0,40}\)|\s+[a-z]{2,5})?\s*", re.IGNORECASE | re.ASCII)
    for form in (
        # RFC 3339, W3CDTF, ISO 8601 basic
        r"(?P<year>\d{4})(?:[-/](?P<month>\d{1,2})(?:[-/](?P<day>\d{1,2}))?)?"
        rf"(?:[t_\s]\s*{_CLOCK}{_ZONE})?",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)"
        r"(?:t(?P<hour>\d\d):?(?P<minute>\d\d)(?::?(?P<second>\d\d))?" + _ZONE + ")?",
        # RFC 822 and RFC 850
        r"(?:\w{2,12}\.?\s*,?\s*)??(?P<day>\d{1,2})(?:st|nd|rd|th)?[-\s,/.]+"
        r"(?P<name>[a-z]{3,9})\.?[-\s,/]+(?P<year>\d{4}|\d{2})"
        rf"(?:\s*,?[\st]\s*{_CLOCK}{_ZONE})?",
        # asctime and the American order
        r"(?:[a-z]{2,9}\.?\s*,?\s+)??(?P<name>[a-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
        rf"(?:(?P<year>\d{{4}})(?:\s*,?\s+(?:at\s+)?{_CLOCK}{_ZONE})?)",
        r"(?:[a-z]{2,9}\.?\s*,?\s+)??(?P<name>[a-z]{3,9})\.?\s+(?P<day>\d{1,2})\s+"
        rf"{_CLOCK}{_ZONE}\s+(?P<year>\d{{4}})",
    )
)


def parse_time(text: str | None) -> int | None:
    """Microseconds since the epoch, or None if the text is no time we can read."""
    text = (text or "").strip()
    return _parsed(text) if 0 < len(text) <= 100 else None


@lru_cache(maxsize=_CACHED)
def _parsed(text: str) -> int | None:
    for form in _FORMS:
        found = form.fullmatch(text)
        if found:
            return _time(found.groupdict())
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
    name = part.get("name")
    return _MONTHS.get(name[:3].lower(), 0) if name else int(part.get("month") or 1)


def _hour(part: dict[str, str | None]) -> int:
    hour = int(part.get("hour") or 0)
    match (part.get("half") or "").lower():
        case "p":
            return hour if hour == 12 else hour + 12
        case "a":
            return 0 if hour == 12 else hour
        case _:
            return hour


def _zone(text: str | None) -> int:
    """Minutes east of Greenwich; a number counts, whatever name stands before it."""
    text = (text or "").lower()
    if text in _ZONES or text in ("", "z", "gmt"):
        return _ZONES.get(text, 0)
    signed = re.search(r"([+-])\s?(\d{1,2}):?(\d{2})$", text)
    if signed is None:
        return _ZONES.get(text, 0)
    minutes = int(signed[2]) * 60 + int(signed[3])
    return -minutes if signed[1] == "-" else minutes
