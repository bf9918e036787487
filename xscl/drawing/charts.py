"""The picture of an answer in SQL: two columns of numbers, one over the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from xscl.drawing.svg import Picture, element, line, shortened, text

WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 16.0, 32.0, 44.0
MOST = 1_000
"""Points of a chart."""
TICKS = 4
INSTANT = 1e14
"""Whole numbers from here on are instants in microseconds since 1970: no quantity to draw."""
FEW = 60
"""So many points get a mark each."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Two columns: their names, and the points in the order of the first."""

    across: str
    up: str
    points: tuple[tuple[float, float], ...]


def chart_of(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Chart | None:
    """Return the chart of the first two columns of numbers, None where there are no two.

    The second one is no column of instants.
    """
    numeric = [
        i for i in range(len(names)) if any(r[i] is not None for r in rows) and _numbers(rows, i)
    ]
    quantities = [i for i in numeric[1:] if not _are_instants(rows, i)]
    if not quantities or len(rows) < 2:
        return None
    x, y = numeric[0], quantities[0]
    pairs = [(_number(row[x]), _number(row[y])) for row in rows[:MOST]]
    points = sorted((a, b) for a, b in pairs if a is not None and b is not None)
    return Chart(names[x], names[y], tuple(points)) if len(points) > 1 else None


def draw_chart(chart: Chart) -> Picture:
    """Return the picture of a chart: a line, with a mark for each point if they are few."""
    xs, ys = [x for x, _ in chart.points], [y for _, y in chart.points]
    across = _Scale.over(xs, LEFT, WIDTH - RIGHT)
    up = _Scale.over([*ys, 0.0] if min(ys) >= 0 else ys, HEIGHT - BOTTOM, TOP)
    elements = [*_grid(across, up)]
    places = [(across.at(x), up.at(y)) for x, y in chart.points]
    elements.append(line(places, "line"))
    if len(places) <= FEW:
        elements.extend(element("circle", cx=x, cy=y, r=3.5, class_="d-mark") for x, y in places)
    elements.append(
        text(
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, shortened(chart.across, 40), "strong", "middle"
        )
    )
    elements.append(text(8, 12, shortened(chart.up, 40), "strong"))
    title = f"{chart.up} over {chart.across}, {len(chart.points)} points"
    return Picture(title, WIDTH, HEIGHT, tuple(elements))


@dataclass(frozen=True, slots=True)
class _Scale:
    """A scale from values to positions between two ends of a picture."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> _Scale:
        low, high = min(values), max(values)
        return cls(low, high if high > low else low + 1, begin, end)

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> Iterator[tuple[float, float]]:
        """Yield tick values and their positions."""
        for number in range(TICKS + 1):
            value = self.low + (self.high - self.low) * number / TICKS
            yield value, self.at(value)


def _grid(across: _Scale, up: _Scale) -> Iterator[etree._Element]:
    for value, y in up.ticks():
        yield element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="d-grid")
        yield text(LEFT - 8, y + 4, _short(value), "soft", "end")
    for value, x in across.ticks():
        yield text(x, HEIGHT - BOTTOM + 18, _short(value), "soft", "middle")


def _short(value: float) -> str:
    return f"{value:.4g}"


def _are_instants(rows: Sequence[Sequence[object]], column: int) -> bool:
    values = [row[column] for row in rows if row[column] is not None]
    return all(isinstance(value, int) and value >= INSTANT for value in values)


def _numbers(rows: Sequence[Sequence[object]], column: int) -> bool:
    return all(row[column] is None or _number(row[column]) is not None for row in rows)


def _number(value: object) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and math.isfinite(value) else None
