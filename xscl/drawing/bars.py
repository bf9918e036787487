"""Bars in the order of time: the numbers of some days, or events with a duration and an outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias

from lxml import etree

from xscl.drawing.svg import Picture, element

WIDTH, LOW = 120.0, 24.0
"""The size of a sparkline."""
STEP, HIGH = 5.0, 48.0
"""The step of a timeline, and its height."""

BarOutcome: TypeAlias = Literal["bar", "none", "bad"]
"""CSS class of a bar: the event had a result, had none, or failed."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event: its duration in seconds, its outcome, and its description."""

    seconds: float
    outcome: BarOutcome
    words: str


def draw_sparkline(counts: Sequence[int], title: str) -> Picture:
    """Return the picture of the numbers of some days, the last one on the right.

    A day without any has a line at the bottom, so that the length of the time is seen.
    """
    step, most = WIDTH / max(1, len(counts)), max(counts, default=0)
    bars = [(2.0 + (LOW - 2.0) * n / most, "bar") if n else (1.0, "none") for n in counts]
    return Picture(title, WIDTH, LOW, _drawn(bars, step, LOW))


def draw_timeline(events: Sequence[TimelineEvent], title: str) -> Picture:
    """Return the picture of some events, the last one on the right; each has its description.

    The height of a bar is the square root of the duration, as few events take much longer than the
    others.  A failed one is as tall as the picture.
    """
    most = sqrt(max((event.seconds for event in events), default=0.0)) or 1.0
    bars = []
    for one in events:
        share = 1.0 if one.outcome == "bad" else sqrt(max(0.0, one.seconds)) / most
        bars.append((3.0 + (HIGH - 3.0) * share, one.outcome))
    drawn = _drawn(bars, STEP, HIGH)
    for bar, event in zip(drawn, events, strict=True):
        bar.append(element("title", event.words))
    return Picture(title, max(1, len(events)) * STEP, HIGH, drawn)


def _drawn(
    bars: Iterable[tuple[float, str]], step: float, height: float
) -> tuple[etree._Element, ...]:
    """Return bars, by their heights and classes, at steps from the left."""
    return tuple(
        element(
            "rect", x=at * step, y=height - tall, width=step - 1, height=tall, class_=f"d-{kind}"
        )
        for at, (tall, kind) in enumerate(bars)
    )
