"""Sparklines: numbers of consecutive days as small bars."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.drawing.svg import Picture, element

WIDTH, HEIGHT = 120.0, 24.0
LEAST = 2.0
"""The height of the bar of the smallest number above 0."""


def draw_sparkline(counts: Sequence[int], title: str) -> Picture:
    """Return the picture of the numbers of some days, the last one on the right.

    A day without any has a line at the bottom, so that the length of the time is seen.
    """
    step, most = WIDTH / max(1, len(counts)), max(counts, default=0)
    bars = []
    for at, count in enumerate(counts):
        tall = LEAST + (HEIGHT - LEAST) * count / most if count else 1.0
        kind, y = "d-bar" if count else "d-none", HEIGHT - tall
        bar = element("rect", x=at * step, y=y, width=step - 1.0, height=tall, class_=kind)
        bars.append(bar)
    return Picture(title, WIDTH, HEIGHT, tuple(bars))
