"""The clock of arrivals: the wall clock, checked against the monotonic clock.

The latest time among documents closes windows, for all streams. A wall clock that jumps ahead for a
moment would close all windows until real time has caught up. So one clock stamps documents without
a time, polls and beats. It never decreases, and follows the wall clock only while that agrees with
the monotonic clock, which is never stepped:

    wall clock against anchor + monotonic   time returned
    within a second                         the wall clock
    a step, either way                      anchor + monotonic; the step is reported
    ahead by at most a day, for 10 minutes  the wall clock, which is the new anchor
    ahead by more                           anchor + monotonic until the service is restarted,
                                            unless that is before 2026: a clock was never set
    behind, for 10 minutes                  the latest time, until the wall clock has caught up

The anchor is the wall clock when the service starts, and every ten minutes while they agree, so
that small corrections do not add up to a step. A step back to the anchor ends a disagreement.
The monotonic clock also counts while the machine is suspended.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xscl.polling.feed_repository import ticks
from xscl.time_format import SECOND

DAY = 86_400 * SECOND
BOUND = SECOND
"""Ticks that the wall clock may differ from the monotonic clock, counted from the anchor."""

SETTLED = 600 * SECOND
"""Ticks of the monotonic clock for which a step has to last before it is followed."""

FURTHEST = DAY
"""Ticks of a step ahead that is followed without a restart: as far as documents may be ahead."""

RELEASED = 1_767_225_600 * SECOND
"""2026-01-01: no clock that was ever set is before it."""

ClockState: TypeAlias = Literal["ok", "stepped", "held"]

_log = logging.getLogger(__name__)
_BOOTTIME = int(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def monotonic() -> int:
    """Return the ticks since the machine was started, suspension included."""
    return time.clock_gettime_ns(_BOOTTIME) // 1_000


@dataclass(frozen=True, slots=True)
class ClockAgreement:
    """The state of the wall clock; `ahead` are its ticks less those of the clock of arrivals.

    `ok`: it is followed. `stepped`: it is not. `held`: the clock of arrivals stands still
    until the wall clock, which was set back, has caught up.
    """

    state: ClockState
    ahead: int = 0

    @property
    def seconds(self) -> float:
        """By how many seconds the wall clock is ahead; 0 if it is followed."""
        return self.ahead / SECOND


OK = ClockAgreement("ok")
_READS = 8  # most reads of both clocks until they are of one moment


class ArrivalClock:
    """The clock of everything that enters a spool; thread-safe.

    `wall` and `steady` are the wall clock and the monotonic clock, in ticks.
    """

    def __init__(
        self, wall: Callable[[], int] = ticks, steady: Callable[[], int] = monotonic
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._mutex = threading.Lock()
        self._anchor, self._anchored = self._read()
        self._last = self._anchor  # the time returned last
        self._offset = self._anchor - self._anchored  # wall less monotonic clock, at the last step
        self._stepped = self._anchored  # the monotonic clock at the last step
        self._agreement = OK
        self._logged: ClockState = OK.state

    def now(self) -> int:
        """Return the time; it never decreases."""
        with self._mutex:
            return self._now()

    def stamp(self) -> int:
        """Return the time for a document, greater than all times returned before."""
        with self._mutex:
            before = self._last
            self._last = max(self._now(), before + 1)
            return self._last

    def agreement(self) -> ClockAgreement:
        """Compare the wall clock with this clock, and log a change since the last call.

        Only this method writes to the log: stamping documents must not wait for it.
        """
        with self._mutex:
            now, found = self._now(), self._agreement
            is_new, self._logged = found.state != self._logged, found.state
        if is_new:
            _log.warning(_change(found, now))
        return found

    def continue_after(self, last: int | None) -> None:
        """Continue after the newest arrival of an earlier process, if it is at most a day ahead.

        One that is further ahead is from a wrong clock, and is ignored with a warning.
        """
        if last is None:
            return
        with self._mutex:
            ahead = last - self._now()
            if 0 < ahead <= FURTHEST:
                self._last = last
        if ahead > FURTHEST:
            _log.warning(
                "the spool has arrivals %s ahead of the clock of this machine, which was wrong then"
                " or is now; documents without a time are stamped by it, and may be late",
                _length(ahead),
            )

    def _now(self) -> int:
        wall, steady = self._read()
        expected = self._anchor + steady - self._anchored
        ahead = wall - expected
        if abs(wall - steady - self._offset) > BOUND:
            self._offset, self._stepped = wall - steady, steady
        is_fresh = steady - self._stepped < SETTLED
        if abs(ahead) > BOUND and (is_fresh or _is_too_far(ahead, expected)):
            self._last = max(self._last, expected)
            self._agreement = ClockAgreement("stepped", wall - self._last)
            return self._last
        # Small corrections do not add up to a step.
        if abs(ahead) > BOUND or steady - self._anchored >= SETTLED:
            self._anchor, self._anchored, self._offset = wall, steady, wall - steady
        self._last = max(self._last, wall)
        behind = wall - self._last
        self._agreement = ClockAgreement("held", behind) if behind < -BOUND else OK
        return self._last

    def _read(self) -> tuple[int, int]:
        """Return the wall clock and the monotonic clock at the same moment.

        A thread that does not run for a second between two reads would see a step.
        """
        for _ in range(_READS):
            before = self._steady()
            wall, after = self._wall(), self._steady()
            if after - before < BOUND // 10:
                break
        return wall, after


def _change(found: ClockAgreement, now: int) -> str:
    """Return the warning of a new state of the clocks."""
    match found.state:
        case "ok":
            return "the wall clock is followed again"
        case "stepped":
            return (
                f"the wall clock has jumped by {_length(found.ahead)} against the monotonic"
                f" clock and is not followed; {_way_back(found.ahead, now)}"
            )
        case "held":
            return (
                f"the wall clock was set back by {_length(-found.ahead)}: the clock of"
                " arrivals is held until it has caught up"
            )


def way_back(state: str, seconds: float, now: int) -> str:
    """Return a hint how a disagreement in a `state` (`ClockState`) ends.

    `seconds` is how far the wall clock is ahead, `now` the time of the clock of arrivals.
    """
    if state == "held":
        return "until it has caught up, no feed is polled, and no delivery is tried again"
    return _way_back(round(seconds * SECOND), now)


def _way_back(ahead: int, now: int) -> str:
    minutes = SETTLED // (60 * SECOND)
    if _is_too_far(ahead, now):
        return "set it right, or restart the service if it is right now"
    return f"set it right; if it stays as it is, it is followed after {minutes} minutes"


def _is_too_far(ahead: int, now: int) -> bool:
    """Return True for a step that is followed only after a restart; never before 2026 (unset)."""
    return ahead > FURTHEST and now >= RELEASED


def _length(ticks: int) -> str:
    """Return a duration with its sign, in the largest unit that fits."""
    for unit, size in (("d", DAY), ("h", 3_600 * SECOND), ("min", 60 * SECOND)):
        if abs(ticks) >= size:
            return f"{ticks / size:+.1f} {unit}"
    return f"{ticks / SECOND:+.1f} s"
