"""Pictures of figures over time: sparklines, series and timelines."""

from __future__ import annotations

import math
import re

import pytest
from lxml import etree

from xscl.drawing.charts import (
    MOST_OF_SERIES,
    Chart,
    TimelineEvent,
    chart_of,
    draw_chart,
    draw_series,
    draw_sparkline,
    draw_timeline,
)


def heights(counts: list[int]) -> list[float]:
    root = etree.fromstring(draw_sparkline(counts, "t").svg())
    return [float(one.get("height", "")) for one in root.iter("{*}rect")]


def test_a_bar_is_as_high_as_its_number_and_a_day_without_any_is_a_line() -> None:
    none, few, half, most = heights([0, 1, 50, 100])
    assert none < few < half < most
    assert most == 24
    assert heights([]) == []
    assert heights([0, 0]) == [1, 1]


def test_a_series_begins_at_its_first_time_and_tells_the_last_and_the_largest_value() -> None:
    minute = 60_000_000
    drawn = draw_series("Lag", "s", [(0, 0.5), (minute, 12.25), (2 * minute, 3.0)])
    assert drawn.title == "Lag: 3 s at 00:02 UTC, at most 12.2 s"
    assert "00:00 UTC" in drawn.svg()
    idle = draw_series("Lag", "s", [(0, 0.0), (minute, 0.0)])
    assert idle.title == "Lag: 0 s at 00:01 UTC, at most 0 s"


def test_of_many_points_the_largest_of_each_few_is_drawn() -> None:
    points = [(at, 0.0 if at % 50 else float(at)) for at in range(5_000)]
    drawn = draw_series("x", "y", points)
    (line,) = re.findall(r'<polyline points="([^"]*)"', drawn.svg())
    assert MOST_OF_SERIES // 2 < len(line.split()) <= MOST_OF_SERIES
    assert "at most 4,950 y" in drawn.title


def test_a_series_of_nothing_is_flat() -> None:
    (line,) = re.findall(
        r'<polyline points="([^"]*)"', draw_series("x", "y", [(0, 0.0), (9, 0.0)]).svg()
    )
    assert len({point.partition(",")[2] for point in line.split()}) == 1


def test_a_timeline_has_a_bar_with_words_for_each_event_and_failed_ones_are_tall() -> None:
    events = [TimelineEvent(0.1, "bar", "a < b"), TimelineEvent(0.4, "none", "c")]
    events.append(TimelineEvent(0.0, "bad", "d"))
    root = etree.fromstring(draw_timeline(events, "t").svg())
    bars = list(root.iter("{*}rect"))
    assert [one.get("class") for one in bars] == ["d-bar", "d-none", "d-bad"]
    assert [one[0].text for one in bars] == ["a < b", "c", "d"]
    short, long, failed = (float(one.get("height", "")) for one in bars)
    assert short < long == failed == 48
    assert draw_timeline([], "t").elements == ()


def test_the_first_two_columns_of_numbers_make_a_chart() -> None:
    rows = [["a", 2, 5.0], ["b", 1, None], ["c", 3, 7.5]]
    assert chart_of(["name", "n", "x"], rows) == Chart("n", "x", ((2, 5.0), (3, 7.5)))


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[1, 2]],
        [["1", "2"], ["3", "4"]],
        [[1, "x"], [2, "y"]],
        [[True, False], [False, True]],
        [[1, math.nan], [2, 3]],
        [[1, math.inf], [2, 3]],
        [[1, None], [2, None]],
        [[10**400, 1], [2, 3]],
    ],
)
def test_anything_else_makes_none(rows: list[list[object]]) -> None:
    assert chart_of(["a", "b"], rows) is None


def test_equal_values_can_be_drawn() -> None:
    picture = draw_chart(Chart("a", "b", ((1.0, 2.0), (1.0, 2.0))))
    assert "2 points" in picture.svg()


def test_a_line_has_a_place_for_each_point() -> None:
    svg = draw_chart(Chart("a", "b", tuple((float(i), float(i * i)) for i in range(9)))).svg()
    assert svg.count("<circle") == 9


def test_instants_are_drawn_across_but_not_upwards() -> None:
    now = 1_795_516_225_132_617
    names = ["position", "timestamp", "matches"]
    rows = [(1, now, 3), (2, now + 1, 5)]
    assert chart_of(names[:2], [row[:2] for row in rows]) is None
    assert chart_of(names, rows) == Chart("position", "matches", ((1.0, 3.0), (2.0, 5.0)))
    times = [row[1:] for row in rows]
    assert chart_of(names[1:], times) == Chart("timestamp", "matches", ((now, 3.0), (now + 1, 5.0)))
