"""Calendars by their definition, second by second, and their instants among the events of an input.

A second opinion on `cep_core.algebra.calendars` and `cep_core.runtime.instants`: it shares no code
with them, nor with the library that they use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from cep_core import Event

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MINUTE = timedelta(minutes=1)


def values(field: str, least: int, most: int) -> set[int]:
    """Return the values of a field of numbers, days, lists, ranges and steps."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        numbers = [_DAYS.index(one) if one in _DAYS else one for one in (begin, end)]
        first = least if span == "*" else int(numbers[0])
        last = int(numbers[1]) if end else most if span == "*" or step else first
        found.update(range(first, last + 1, int(step or 1)))
    return found


class Cron:
    """The instants of a cron expression."""

    def __init__(self, expression: str, zone: str) -> None:
        second, minute, hour, day, month, weekday = ("0", *expression.split())[-6:]
        self._seconds = values(second, 0, 59)
        self._minutes, self._hours = values(minute, 0, 59), values(hour, 0, 23)
        self._days, self._months = values(day, 1, 31), values(month, 1, 12)
        self._weekdays = {number % 7 for number in values(weekday, 0, 7)}
        self._both = day.startswith("*") or weekday.startswith("*")
        stars = [field.startswith("*") for field in (second, minute, hour)]
        self._by_real_time = zone == "UTC" or any(stars)
        self._zone = ZoneInfo(zone)

    def between(self, start: int, end: int) -> list[int]:
        """Return the instants of start <= instant < end, in seconds."""
        found = self._real(start, end) if self._by_real_time else self._local(start, end)
        return sorted({one for one in found if start <= one < end})

    def _has(self, day: date) -> bool:
        fits = [day.day in self._days, day.isoweekday() % 7 in self._weekdays]
        return day.month in self._months and (all(fits) if self._both else any(fits))

    def _real(self, start: int, end: int) -> Iterator[int]:
        for minute in range(start - start % 60, end, 60):
            local = (EPOCH + timedelta(seconds=minute)).astimezone(self._zone)
            at_time = local.hour in self._hours and local.minute in self._minutes
            if at_time and self._has(local.date()):
                yield from (minute + second for second in self._seconds)

    def _local(self, start: int, end: int) -> Iterator[int]:
        first, last = (
            (EPOCH + timedelta(seconds=second)).astimezone(self._zone).date()
            for second in (start - 86_400, end + 86_400)
        )
        for number in range((last - first).days + 1):
            day = first + timedelta(days=number)
            for hour in self._hours if self._has(day) else ():
                for minute, second in product(self._minutes, self._seconds):
                    yield self._first(datetime(day.year, day.month, day.day, hour, minute, second))

    def _first(self, local: datetime) -> int:
        """Return when a local time is for the first time, or what comes after its gap."""
        while True:
            aware = local.replace(tzinfo=self._zone)
            if aware.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) == local:
                return int((aware.astimezone(UTC) - EPOCH).total_seconds())
            local = local.replace(second=0) + _MINUTE


def with_instants(
    events: Sequence[Event], stream: str, expression: str, zone: str, end: int | None = None
) -> list[Event]:
    """Return events with those of a calendar, each before what raises the clock beyond it.

    ``end`` is a time to which the clock is set after all events.
    """
    cron, clock = Cron(expression, zone), None
    place = ZoneInfo(zone)
    found: list[Event] = []
    for event in [*events, None]:
        time = end if event is None else event.t0 if event.t1 is None else event.t1
        if time is not None and clock is not None:
            for second in cron.between(clock, time):
                local = (EPOCH + timedelta(seconds=second)).astimezone(place)
                found.append(Event(stream, (local.isoformat(),), second))
        if time is not None:
            clock = time if clock is None else max(clock, time)
        if event is not None:
            found.append(event)
    return found
