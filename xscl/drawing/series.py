"""The picture of a figure over time: a filled line from 0 upwards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from xscl.drawing.svg import Picture, element, line, text

WIDTH, HEIGHT = 480.0, 130.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 8.0, 10.0, 24.0
MOST = 240
"""Points of a picture; of more, the largest of each few is drawn."""


def draw_series(name: str, unit: str, points: Sequence[tuple[int, float]]) -> Picture:
    """Return the picture of values at times in microseconds, two at least, in order of time."""
    shown = _largest_of_each_few(points)
    begin, end = shown[0][0], shown[-1][0]
    largest = max(value for _, value in shown)
    most = largest or 1.0
    floor = HEIGHT - BOTTOM

    def place(at: int, value: float) -> tuple[float, float]:
        across = (at - begin) / max(1, end - begin)
        return LEFT + (WIDTH - LEFT - RIGHT) * across, floor - (floor - TOP) * value / most

    places = [place(at, value) for at, value in shown]
    corners = [(places[0][0], floor), *places, (places[-1][0], floor)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    elements = [
        text(LEFT - 8, TOP + 4, _short(most), "soft", "end"),
        text(LEFT - 8, floor + 4, "0", "soft", "end"),
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=TOP, y2=TOP, class_="d-grid"),
        element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor, class_="d-grid"),
        element("polygon", points=outline, class_="d-area"),
        line(places, "line"),
        text(LEFT, HEIGHT - 6, _clock(begin), "soft"),
        text(WIDTH - RIGHT, HEIGHT - 6, _clock(end), "soft", "end"),
    ]
    last = shown[-1][1]
    title = f"{name}: {_short(last)} {unit} at {_clock(end)}, at most {_short(largest)} {unit}"
    return Picture(title, WIDTH, HEIGHT, tuple(elements))


def _largest_of_each_few(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    few = -(-len(points) // MOST)
    parts = [points[at : at + few] for at in range(0, len(points), few)]
    return [max(part, key=lambda point: point[1]) for part in parts]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%H:%M UTC")
