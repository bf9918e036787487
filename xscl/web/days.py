"""Sparklines of the last days."""

from __future__ import annotations

from collections.abc import Mapping

from xscl.drawing.bars import draw_sparkline
from xscl.drawing.svg import Picture
from xscl.plurals import counted

DAYS = 30
"""Days of a sparkline; the last one ends now."""


def spark(days_ago: Mapping[int, int] | None, what: str) -> Picture | None:
    """Return the sparkline of what was counted, None if nothing was."""
    if not days_ago:
        return None
    counts = [0] * DAYS
    for ago, count in days_ago.items():
        counts[DAYS - 1 - min(max(ago, 0), DAYS - 1)] += count
    words = f"{counted(sum(counts), what)} in {DAYS} days, at most {max(counts):,} in one"
    return draw_sparkline(counts, words)
