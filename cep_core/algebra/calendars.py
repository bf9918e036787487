"""Calendars: the instants that a cron expression names, in a time zone.

`AT '0 9 * * MON' ZONE 'Europe/Berlin'` is a stream with an event at each of them.  The five fields
are minute, hour, day of month, month and day of week, as Debian's cron reads them (`cronsim`, which
computes with local times that have no zone); a sixth before them is the second.  A date and time
in place of the fields (`AT '2026-11-30T09:00:00Z'`) is one instant.  Where a zone changes its
offset:

- times that are skipped: an expression with numbers in minute and hour names the first time after
  the gap; one with `*` in either, or in the second, goes by real time, so it names none of them;
- times that occur twice: an expression with numbers names the first; one with `*` names both.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from heapq import heappop, heappush
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from cep_core.errors import AlgebraError, Extent, near_miss
from cep_core.events import CALENDAR

MOST = 10_000  # the most instants in one rise of the clock; of more, `passed` returns the last
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_FIRST = int((datetime(2, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
_LONGEST = 200  # characters of an expression
_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of month", "1-31, or L for the last"),
    ("month", "1-12 or JAN-DEC"),
    ("day of week", "0-7 or SUN-SAT, MON#1 for the first, 5L for the last"),
)
_MOST_STEPS = (59, 59, 23, 31, 12, 7)
_CRONSIM_FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
_SIGNS = "; also *, lists 1,2 ranges 1-5 and steps */2"
_EXAMPLE = (
    "'0 9 * * MON' is 9:00 on Mondays: minute, hour, day of month, month, day of week, with a"
    " second before them if you like"
)
_ZONE = re.compile(r"[A-Z][\w+-]*(?:/[\w+-]+)*")
_NAME = re.compile(rf"{CALENDAR}([^']*)'(?: ZONE '([^']*)')?")


@dataclass(frozen=True)
class Calendar:
    """The instants of a cron expression; equal expressions in one zone have one name."""

    expression: str
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """The name of its stream, `AT '0 9 * * *' ZONE 'Europe/Berlin'`; without ZONE for UTC."""
        zone = "" if self.zone == "UTC" else f" ZONE '{self.zone}'"
        return f"{CALENDAR}{self.expression}'{zone}"

    @property
    def words(self) -> str:
        """The times of the calendar as an English phrase, with its zone."""
        if self._instant is not None:
            return f"once, at {self.expression}"
        return f"{CronSim(self.expression, _EPOCH).explain()}, {self.zone}"

    @cached_property
    def _place(self) -> tzinfo:
        return UTC if self.zone == "UTC" else ZoneInfo(self.zone)

    @cached_property
    def _instant(self) -> int | None:
        """The instant of a date and time, in seconds since 1970; None for a cron expression."""
        moment = _moment(self.expression)
        if moment is None or moment.tzinfo is not None:
            return None if moment is None else (moment - _EPOCH) // _SECOND
        return self._instants(moment)[0]

    def text(self, second: int) -> str:
        """Return the local time of a second since 1970 in ISO 8601, with its offset."""
        return (_EPOCH + timedelta(seconds=second)).astimezone(self._place).isoformat()

    def seconds(self, start: int) -> Iterator[int]:
        """Yield the instants from ``start`` on, ascending, up to the year 9999.

        All are in seconds since 1970.
        """
        if self._instant is not None:
            yield from (one for one in (self._instant,) if one >= start)
            return
        last = max(start, _FIRST) - 1
        pending: list[int] = []
        try:
            for local in CronSim(self.expression, self._local_before(last)):
                found = self._instants(local)
                while pending and found and pending[0] < found[0]:
                    second = heappop(pending)
                    if second > last:
                        yield (last := second)
                for second in found:
                    heappush(pending, second)
        except (OverflowError, ValueError):
            pass  # a time beyond the year 9999
        yield from (one for one in sorted(set(pending)) if one > last)

    def _local_before(self, second: int) -> datetime:
        """Return a local time that is earlier than those of all instants after a second."""
        there = (_EPOCH + timedelta(seconds=second)).astimezone(self._place)
        local = there.replace(tzinfo=None)
        again = self._second_of(local, 1) - self._second_of(local, 0)
        return local - timedelta(seconds=max(0, again))

    def _instants(self, local: datetime) -> list[int]:
        """Return the instants that a local time names, in seconds since 1970: none, one or two."""
        first, second = self._second_of(local, 0), self._second_of(local, 1)
        if first == second:
            return [first]
        by_real_time = any(field.startswith("*") for field in self.expression.split()[:-3])
        if first < second:
            return [first, second] if by_real_time else [first]
        return [] if by_real_time else [self._end_of_gap(second, first)]

    def _second_of(self, local: datetime, fold: int) -> int:
        return (local.replace(tzinfo=self._place, fold=fold) - _EPOCH) // _SECOND

    def _end_of_gap(self, before: int, after: int) -> int:
        """Return the first second up to ``after`` whose offset is not that of ``before``."""
        seconds = range(before, after + 1)
        old = self._offset(before)
        return seconds[bisect_left(seconds, True, key=lambda one: self._offset(one) != old)]

    def _offset(self, second: int) -> timedelta | None:
        return (_EPOCH + timedelta(seconds=second)).astimezone(self._place).utcoffset()

    def passed(self, start: int, end: int) -> tuple[list[int], int | None]:
        """Return the instants of start <= instant < end, in seconds, and the first one after them.

        Of more than MOST instants it returns those of the last MOST minutes; of an expression with
        a field for seconds, those of the last MOST seconds.
        """
        found: list[int] = []
        for second in self.seconds(start):
            if second >= end:
                return found, second
            found.append(second)
            if len(found) > MOST:
                step = 60 if len(self.expression.split()) < len(_FIELDS) else 1
                return self.passed(max(found[1], end - step * MOST), end)
        return found, None


def calendar(text: str, zone: str, text_at: int = 0, zone_at: int = 0) -> Calendar:
    """Return the calendar of an expression and a zone; raises AlgebraError at the wrong part.

    ``text_at`` and ``zone_at`` are the offsets of both in the text of the query, for the error's
    span.
    """
    fields = [(match[0].upper(), match.span()) for match in re.finditer(r"\S+", text)]
    whole = Extent(text_at, text_at + max(1, len(text)))
    if len(fields) == 1 and _moment(fields[0][0]) is not None:
        return _single(fields[0][0], zone, whole, zone_at)
    if not 5 <= len(fields) <= len(_FIELDS) or len(text) > _LONGEST:
        message = f"a cron expression has five or six fields, not {len(fields)}"
        if len(text) > _LONGEST:
            message = f"a cron expression has at most {_LONGEST} characters"
        raise AlgebraError(message, hint=_EXAMPLE, span=whole)
    expression = " ".join(field for field, _ in fields)
    first = len(_FIELDS) - len(fields)
    try:
        CronSim(expression, _EPOCH)
        wrong = _long_step([field for field, _ in fields], first)
    except CronSimError as error:
        wrong = _CRONSIM_FIELDS.index(str(error).removeprefix("Bad "))
    if wrong is not None:
        written, (start, end) = fields[wrong - first]
        name, known = _FIELDS[wrong]
        raise AlgebraError(
            f"{written!r} is no {name} of a cron expression",
            hint=f"it is {known}{_SIGNS}",
            span=Extent(text_at + start, text_at + end),
        )
    return Calendar(expression, _known_zone(zone, Extent(zone_at, zone_at + max(1, len(zone)))))


def _single(text: str, zone: str, span: Extent, zone_at: int) -> Calendar:
    """Return the calendar of a date and time; raises AlgebraError outside of the years 2-9999.

    ``span`` is that of the text in the query, ``zone_at`` the offset of the zone, for errors.
    """
    known = _known_zone(zone, Extent(zone_at, zone_at + max(1, len(zone))))
    found = Calendar(text, known)
    try:
        for second in found.seconds(_FIRST):
            found.text(second)
            return found
    except OverflowError:
        pass
    message = f"{text} is outside of the years from 2 to 9999"
    raise AlgebraError(message, hint="an instant is such as 2026-11-30T09:00:00Z", span=span)


def _long_step(fields: Sequence[str], first: int) -> int | None:
    """Return the place in `_FIELDS` of a field with a step beyond its range; None without one.

    ``first`` is the place of the first of ``fields``.
    """
    for place, field in enumerate(fields, first):
        for part in field.split(","):
            step = part.partition("/")[2]
            if step and int(step) > _MOST_STEPS[place]:
                return place
    return None


def _moment(text: str) -> datetime | None:
    """Return a date and time in place of a cron expression; None for other texts."""
    try:
        return datetime.fromisoformat(text) if "T" in text else None
    except ValueError:
        return None


def calendar_of(name: str) -> Calendar:
    """Return the calendar of a stream's name; raises AlgebraError if it is none."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise AlgebraError(f"there is no stream {name}", hint=_EXAMPLE)
    return calendar(found[1], found[2] or "UTC")


def _known_zone(zone: str, span: Extent) -> str:
    """Return the name of a known zone, UTC for its other names; raises AlgebraError without one."""
    if zone.upper() in ("UTC", "ETC/UTC"):
        return "UTC"
    zones = available_timezones()
    if zone not in zones or not _ZONE.fullmatch(zone):
        hint = near_miss(zone, sorted(zones)) or "zones are called Europe/Berlin"
        raise AlgebraError(f"there is no time zone {zone}", hint=hint, span=span)
    return zone
