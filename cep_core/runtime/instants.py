"""The instants of calendar streams that the clock has not passed.

An instant is an event of its calendar.  It occurs when the clock passes it: before the event that
raises the clock beyond it, and after all that arrived before.  So it follows from the events and
their order alone.  The instants of a calendar begin with the clock: at the clock's time when the
first query reads the calendar, or with the first event.  Nothing of a calendar is kept: its next
instant is the first one from the clock on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cep_core.dataflow.clock import END

if TYPE_CHECKING:
    from cep_core.algebra.calendars import Calendar


class CalendarInstant(NamedTuple):
    """An instant of a calendar, which is given by its name.

    ``time`` is in ticks, ``at`` is the local time as text.
    """

    time: int
    calendar: str
    at: str


class CalendarInstants:
    """The calendars that are read, and their next instants; times are up to ``farthest`` ticks."""

    def __init__(self, ticks_per_second: int, farthest: int) -> None:
        self._ticks_per_second = ticks_per_second
        self._earliest = -farthest  # a clock at this time or before has not begun
        self._calendars: dict[str, Calendar] = {}
        self._next: dict[str, int | None] = {}  # times by calendar; None: the clock has not begun

    def next(self, names: frozenset[str] | None = None) -> int:
        """Return a time in ticks before which the calendars ``names`` (None: all) have no instant.

        Without a calendar it is `END`.
        """
        known = self._next if names is None else names & self._next.keys()
        return min(map(self._first, known), default=END)

    def add(self, name: str, now: int, reach: int) -> list[CalendarInstant]:
        """Add a calendar at the time ``now``; return its instants of the last ``reach`` ticks.

        Raises AlgebraError if the name is none of a calendar.
        """
        from cep_core.algebra.calendars import calendar_of  # most engines have no calendar

        found = calendar_of(name)
        self._calendars[name] = found
        self._next[name] = None
        if now <= self._earliest:
            return []
        self._next[name] = now - reach
        return self.before(now) if reach else []

    def described(self, name: str, now: int) -> str:
        """Return a line that says what a calendar is, and which of its instants is next."""
        one, unit = self._calendars[name], self._ticks_per_second
        line = f"{name}: {one.words}; an instant occurs when the clock has passed it"
        following = next(one.seconds(-(-now // unit)), None) if now > self._earliest else None
        return line if following is None else f"{line}; next {one.text(following)}"

    def remove(self, name: str) -> None:
        """Remove a calendar that nobody reads."""
        del self._calendars[name], self._next[name]

    def begin(self, time: int) -> None:
        """Set the time from which instants of all calendars occur."""
        self._next = dict.fromkeys(self._next, time)

    def before(self, time: int) -> list[CalendarInstant]:
        """Pop the instants before a time, in order, simultaneous ones by name."""
        found: list[CalendarInstant] = []
        if time <= self._earliest:
            return found
        for name, following in self._next.items():
            start = time if following is None else following
            if start < time or following is None:
                self._next[name] = self._pass(name, start, time, found)
        found.sort()
        return found

    def _first(self, name: str) -> int:
        following = self._next[name]
        return self._earliest if following is None else following

    def _pass(self, name: str, start: int, time: int, found: list[CalendarInstant]) -> int:
        """Append the instants of the calendar ``name`` in [start, time) to ``found``.

        Return the time of its next instant in ticks, `END` if there is none.
        """
        one, unit = self._calendars[name], self._ticks_per_second
        seconds, following = one.passed(-(-start // unit), -(-time // unit))
        found += [CalendarInstant(second * unit, name, one.text(second)) for second in seconds]
        return END if following is None else following * unit
