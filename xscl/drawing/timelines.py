"""Timelines: events with a duration and an outcome, as bars in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias

from xscl.drawing.svg import Picture, element

STEP, HEIGHT = 5.0, 48.0
LEAST = 3.0
"""The height of the bar of the shortest event."""

Outcome: TypeAlias = Literal["bar", "none", "bad"]
"""CSS class of a bar: the event had a result, had none, or failed."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event: its duration in seconds, its outcome, and its description."""

    seconds: float
    outcome: Outcome
    words: str


def draw_timeline(events: Sequence[TimelineEvent], title: str) -> Picture:
    """Return the picture of some events, the last one on the right; each has its description.

    The height of a bar is the square root of the duration, as few events take much longer than the
    others.  A failed one is as tall as the picture.
    """
    most = sqrt(max((event.seconds for event in events), default=0.0)) or 1.0
    bars = []
    for at, event in enumerate(events):
        tall = LEAST + (HEIGHT - LEAST) * sqrt(max(0.0, event.seconds)) / most
        tall = HEIGHT if event.outcome == "bad" else tall
        place, kind = at * STEP, f"d-{event.outcome}"
        bar = element("rect", x=place, y=HEIGHT - tall, width=STEP - 1, height=tall, class_=kind)
        bar.append(element("title", event.words))
        bars.append(bar)
    return Picture(title, max(1, len(events)) * STEP, HEIGHT, tuple(bars))
