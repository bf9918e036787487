"""Text forms of durations and times: parsing what people type, formatting what they read.

People read times in the zone that this process has chosen (`--timezone`), UTC at first; programs
get UTC (`written`, `moment`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from feeds.formats.times import rfc3339

SECOND = 1_000_000

UNITS = {
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""Units of a window, in ticks: microseconds."""

EARLIEST = -62_135_596_800_000_000
LATEST = 253_402_300_799_999_999
"""First and last tick of the years 1 to 9999, which RFC 3339 and Python's dates can write."""
_TICKS = re.compile(r"-?[0-9]{1,19}")
INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)")
"""A time within a text, as `written` and `moment` write it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_zone: tzinfo | None = UTC
"""The zone of times that people read; None is that of the machine."""


def duration(ticks: int | None) -> str:
    """Return a window as text, in the largest unit that divides it; None is an infinite one."""
    if ticks is None:
        return "INF: what is kept is never dropped"
    if ticks == 0:
        return "0 s"
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if ticks % length == 0:
            return f"{ticks // length} {unit}"
    return f"{ticks} ticks"


def window(lower: int | None, upper: int | None) -> str:
    """Return a window as text, with its lower bound unless that is None."""
    least = "" if lower is None else f"{duration(lower)} TO "
    return least + duration(upper)


def moment(ticks: int) -> str:
    """Return a time as text in UTC to the second, or its ticks if it is outside the calendar."""
    try:
        return rfc3339(ticks // SECOND * SECOND)
    except OverflowError:
        return str(ticks)


def ticks_of_time(text: str) -> int | None:
    """Return the ticks of a time: ISO 8601 (UTC unless it says otherwise), or ticks; None if none.

    Four digits are a year, not ticks.
    """
    if len(text) != 4 and _TICKS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def other_unit(ticks: int) -> str | None:
    """Return the unit that a number which was taken as ticks looks like, None if it is ticks.

    Seconds since 1970 have 10 digits today, milliseconds 13, and ticks 16.  Whole seconds in ticks
    are no mistake: programs that count from 0 write the last six digits as zeros.
    """
    if ticks <= 0 or ticks % SECOND == 0:
        return None
    return {10: "seconds", 13: "milliseconds"}.get(len(str(ticks)))


def unit_hint(ticks: int, unit: str) -> str:
    """Return a hint for ticks that look like seconds or milliseconds (`unit`)."""
    meant = ticks * (SECOND if unit == "seconds" else UNITS["ms"])
    return (
        f"times are ISO 8601 or microseconds since 1970; {ticks} looks like {unit}:"
        f" write {meant} or {written(meant)}"
    )


def written(ticks: int) -> str:
    """Return a time in ISO 8601, UTC, for programs; clipped to the years that it can write."""
    return rfc3339(min(max(ticks, EARLIEST), LATEST))


# -- In the zone of this process -----------------------------------------------------------


def choose_zone(name: str) -> None:
    """Show times in a zone from now on: `UTC`, `local`, or a name such as `Europe/Berlin`.

    Raises ValueError if there is none of that name.
    """
    global _zone
    try:
        _zone = None if name == "local" else UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, OSError):  # unknown, a folder of zones
        raise ValueError(name) from None


def to_second(time: datetime | None) -> str:
    """Return a time as text to the second, "" for None."""
    if time is None:
        return ""
    try:
        time = time.astimezone(_zone)
    except (OverflowError, ValueError):  # the zone's calendar ends before that of UTC
        time = time.astimezone(UTC)
    text = time.isoformat(timespec="seconds")
    return text if time.utcoffset() else f"{text[:19]}Z"


def ticks_to_second(ticks: int) -> str:
    """Return ticks as text in the chosen zone, to the second; outside the calendar as a number."""
    return in_zone(moment(ticks))


def ticks_to_minute(ticks: int) -> str:
    """Return ticks for a text that people read: `2026-03-01 13:00 +01:00`, or `... UTC`."""
    text = in_zone(f"{written(ticks)[:19]}Z")
    return f"{text[:10]} {text[11:16]} {text[19:].replace('Z', 'UTC')}"


def in_zone(text: str) -> str:
    """Return a text with its times in the zone of this process."""

    def shown(found: re.Match[str]) -> str:
        time = to_second(datetime.fromisoformat(found[0]))
        return time[:19] + found[0][19:-1] + time[19:]

    return INSTANT.sub(shown, text)
