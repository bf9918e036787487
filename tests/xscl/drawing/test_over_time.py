"""Pictures of figures over time: sparklines, series and timelines."""

from __future__ import annotations

import re

from lxml import etree

from xscl.drawing.bars import TimelineEvent, draw_sparkline, draw_timeline
from xscl.drawing.series import MOST, draw_series


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
    assert MOST // 2 < len(line.split()) <= MOST
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
