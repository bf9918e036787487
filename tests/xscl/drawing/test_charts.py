"""Charts of answers: when there is one, and where its points lie."""

from __future__ import annotations

import math

import pytest

from xscl.drawing.charts import Chart, chart_of, draw_chart


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
