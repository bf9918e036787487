"""Pictures of numbers: an answer in SQL, a figure over time, and bars in the order of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from lxml import etree

from xscl.drawing.svg import Picture, element, line, shortened, text
from xscl.time_format import moment

MOST = 1_000
"""Most points of a chart."""
MOST_OF_SERIES = 240
"""Most points of a figure over time; of more, the largest of each group is drawn."""
TICKS = 4
INSTANT = 1e14
"""Whole numbers from here on count as instants (microseconds since 1970), not as quantities."""
FEW = 60
"""Most points of a chart in which each has a mark."""
WIDTH, LOW = 120.0, 24.0
"""Width and height of a sparkline."""
STEP, HIGH = 5.0, 48.0
"""The step of a timeline, and its height."""


class _Frame(NamedTuple):
    """The size of a picture, and the edges of what is drawn in it."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float


_CHART = _Frame(640.0, 260.0, left=76.0, right=624.0, top=32.0, bottom=216.0)
_SERIES = _Frame(480.0, 130.0, left=64.0, right=472.0, top=10.0, bottom=106.0)


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

    def ticks(self, number: int = TICKS) -> Iterator[tuple[float, float]]:
        """Yield tick values and their positions."""
        for tick in range(number + 1):
            value = self.low + (self.high - self.low) * tick / number
            yield value, self.at(value)


# -- An answer in SQL: two columns of numbers, one over the other --------------------------


@dataclass(frozen=True, slots=True)
class Chart:
    """Two columns: their names, and the points (x, y) in the order of x."""

    across: str
    up: str
    points: tuple[tuple[float, float], ...]


def chart_of(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Chart | None:
    """Return the chart of the first two columns of numbers; None if there are no two.

    The second one may not be a column of instants.
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
    width, height, left, right, top, bottom = _CHART
    across = _Scale.over(xs, left, right)
    up = _Scale.over([*ys, 0.0] if min(ys) >= 0 else ys, bottom, top)
    elements = list(_lines(_CHART, ((y, f"{value:.4g}") for value, y in up.ticks())))
    for value, x in across.ticks():
        elements.append(text(x, bottom + 18, f"{value:.4g}", "soft", "middle"))
    places = [(across.at(x), up.at(y)) for x, y in chart.points]
    elements.append(line(places, "line"))
    if len(places) <= FEW:
        elements.extend(element("circle", cx=x, cy=y, r=3.5, class_="d-mark") for x, y in places)
    middle = (left + right) / 2
    elements.append(text(middle, height - 6, shortened(chart.across, 40), "strong", "middle"))
    elements.append(text(8, 12, shortened(chart.up, 40), "strong"))
    title = f"{chart.up} over {chart.across}, {len(chart.points)} points"
    return Picture(title, width, height, tuple(elements))


def _lines(frame: _Frame, at: Iterable[tuple[float, str]]) -> Iterator[etree._Element]:
    """Yield horizontal lines at some heights, each with its label at the left."""
    for y, value in at:
        yield element("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="d-grid")
        yield text(frame.left - 8, y + 4, value, "soft", "end")


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


# -- A figure over time: a filled line from 0 upwards --------------------------------------


def draw_series(name: str, unit: str, points: Sequence[tuple[int, float]]) -> Picture:
    """Return the picture of values at times in microseconds, two at least, in order of time."""
    width, height, left, right, top, bottom = _SERIES
    few = -(-len(points) // MOST_OF_SERIES)
    parts = [points[at : at + few] for at in range(0, len(points), few)]
    shown = [max(part, key=lambda point: point[1]) for part in parts]
    begin, (end, last) = shown[0][0], shown[-1]
    largest = max(value for _, value in shown)
    across = _Scale.over([begin, end], left, right)
    up = _Scale(0.0, largest or 1.0, bottom, top)
    places = [(across.at(at), up.at(value)) for at, value in shown]
    corners = [(places[0][0], bottom), *places, (places[-1][0], bottom)]
    elements = [
        *_lines(_SERIES, ((y, _short(value)) for value, y in up.ticks(1))),
        element(
            "polygon", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), class_="d-area"
        ),
        line(places, "line"),
        _clock(begin, left, height, "start"),
        _clock(end, right, height, "end"),
    ]
    title = f"{name}: {_short(last)} {unit} now, at most {_short(largest)} {unit}"
    return Picture(title, width, height, tuple(elements))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _clock(at: int, x: float, height: float, anchor: str) -> etree._Element:
    """Return a time below a series, which a page shows in the zone of its reader by `data-at`."""
    drawn = text(x, height - 6, f"{moment(at)[11:16]} UTC", "soft", anchor)
    drawn.set("data-at", moment(at))
    return drawn


# -- Bars: the numbers of some days, or events with a duration and an outcome --------------

BarOutcome: TypeAlias = Literal["bar", "none", "bad"]
"""CSS class of a bar: the event had a result, had none, or failed."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event as a bar: its duration in seconds, its outcome, its description, its ISO time."""

    seconds: float
    outcome: BarOutcome
    words: str
    at: str = ""


def draw_sparkline(counts: Sequence[int], title: str) -> Picture:
    """Return the picture of one number for each of some days, the last one on the right.

    A day with 0 has a line at the bottom, so that the number of days is seen.
    """
    step, most = WIDTH / max(1, len(counts)), max(counts, default=0)
    bars = [(2.0 + (LOW - 2.0) * n / most, "bar") if n else (1.0, "none") for n in counts]
    return Picture(title, WIDTH, LOW, _drawn(bars, step, LOW))


def draw_timeline(events: Sequence[TimelineEvent], title: str) -> Picture:
    """Return the picture of some events, the last one on the right; each has its description.

    The height of a bar is the square root of the duration, as few events take much longer than the
    others.  A bar of outcome `bad` is as tall as the picture.
    """
    most = math.sqrt(max((event.seconds for event in events), default=0.0)) or 1.0
    bars = []
    for one in events:
        share = 1.0 if one.outcome == "bad" else math.sqrt(max(0.0, one.seconds)) / most
        bars.append((3.0 + (HIGH - 3.0) * share, one.outcome))
    drawn = _drawn(bars, STEP, HIGH)
    for bar, event in zip(drawn, events, strict=True):
        bar.append(element("title", event.words, data_at=event.at))
    return Picture(title, max(1, len(events)) * STEP, HIGH, drawn)


def _drawn(
    bars: Iterable[tuple[float, str]], step: float, height: float
) -> tuple[etree._Element, ...]:
    """Return bars, given as (height, class), from the left at intervals of `step`."""
    return tuple(
        element(
            "rect", x=at * step, y=height - tall, width=step - 1, height=tall, class_=f"d-{kind}"
        )
        for at, (tall, kind) in enumerate(bars)
    )
