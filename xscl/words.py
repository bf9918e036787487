"""Durations and moments in words, as explanations, figures and pages show them."""

from __future__ import annotations

from datetime import UTC, datetime

from xscl.language.limits import UNITS

SECOND = 1_000_000


def duration(ticks: int | None) -> str:
    """Return a window in the largest unit that divides it."""
    if ticks is None:
        return "INF: what is kept is never dropped"
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if ticks and ticks % length == 0:
            return f"{ticks // length} {unit}"
    return f"{ticks} ticks"


def moment(ticks: int) -> str:
    """Return a time in UTC, or the ticks if no calendar has it."""
    try:
        return datetime.fromtimestamp(ticks // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ticks)
