"""The worked examples of section 3.2 of Hong 2009, by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cep_core.events import Event
from tests.cep_core.engines import engine_of, engine_with, rows_found

QUOTE = {"Name": str, "Price": float}
IN_ORDER = [
    ("IBM", 80.0, 1),
    ("Dell", 22.0, 2),
    ("IBM", 82.0, 3),
    ("Dell", 24.0, 4),
    ("IBM", 84.0, 5),
    ("Dell", 22.0, 6),
]


def run(streams: Sequence[str], text: str, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return _shown(rows_found(engine_of(streams, QUOTE), text, events))


def _shown(found: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [(*event.values, event.t0, event.t1) for event in found]


def test_figure_3_1_sequencing_with_overlapping_intervals() -> None:
    events = [
        Event("S1", ("e1", 1.0), 1, 4),
        Event("S2", ("e2", 2.0), 3, 6),  # overlaps e1
        Event("S2", ("e4", 4.0), 7, 8),  # starts after e3 and ends before it
        Event("S2", ("e3", 3.0), 5, 9),
    ]
    text = "SELECT Name_1 AS one, Name AS two FROM S1 NEXT S2"
    assert run(["S1", "S2"], text, events) == [("e1", "e4", 1, 8)]


def test_the_iteration_of_example_4() -> None:
    """I[1] has the three pairs, I[2] the one run of three; the result is their union."""
    text = """SELECT Name_1 AS first, Price_1 AS bought, Name, Price
        FROM S FOLD{$1.Name = $2.Name, $2.Price > $.Price, } S"""
    found = run(["S"], text, [Event("S", (name, price), t) for name, price, t in IN_ORDER])
    assert sorted(found) == [
        ("Dell", 22.0, "Dell", 24.0, 2, 4),
        ("IBM", 80.0, "IBM", 82.0, 1, 3),
        ("IBM", 80.0, "IBM", 84.0, 1, 5),
        ("IBM", 82.0, "IBM", 84.0, 3, 5),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The second formula is printed as S1;(S2;S3), too: it is (S1;S2);S3.
        (
            "SELECT i, m, d FROM I NEXT (SELECT m, d FROM M NEXT D)",
            [(80.0, 49.0, 24.0, 1, 4), (80.0, 50.0, 24.0, 1, 4)],
        ),
        ("SELECT i, m, d FROM (SELECT i, m FROM I NEXT M) NEXT D", [(80.0, 50.0, 24.0, 1, 4)]),
    ],
)
def test_sequencing_is_not_associative(text: str, expected: list[tuple[Any, ...]]) -> None:
    core = engine_with({name: {name.lower(): float} for name in "IMD"})
    quotes = [("I", 80.0, 1), ("M", 50.0, 2), ("M", 49.0, 3), ("D", 24.0, 4)]
    events = [Event(s, (price,), t) for s, price, t in quotes]
    assert _shown(rows_found(core, text, events)) == expected


def test_the_introduced_average() -> None:
    """The printed AVG of 14.5 is 81."""
    text = "SELECT Price_1, Price, (Price_1 + Price) / 2 AS AVG FROM S NEXT{$1.Name = $2.Name} S"
    found = run(["S"], text, [Event("S", ("IBM", 80.0), 1), Event("S", ("IBM", 82.0), 3)])
    assert found == [(80.0, 82.0, 81.0, 1, 3)]


def test_example_9_the_best_average_at_an_anchor() -> None:
    """Once Google exceeds 400, the stock with the largest average; spans of 10 stand for a year."""
    text = """
    SELECT ARGMAX(Stock, Avg) AS best, MAX(Avg) AS average FROM
      FILTER{Price > 400} (
        (SELECT Name AS Stock, avg AS Avg FROM
          FILTER{DUR = 10} (
            (SELECT Name, Price, Price AS avg, 1 AS cnt FROM S)
            FOLD{$1.Name = $2.Name, TRUE,
              ($.cnt * $.avg + $2.Price) / ($.cnt + 1) AS avg, $.cnt + 1 AS cnt}
            S))
        NEXT{Name = 'Goog'} S)
    AT INSTANT
    """
    quotes = [("A", 10.0, 0), ("B", 30.0, 1), ("A", 20.0, 10), ("B", 50.0, 11), ("Goog", 401.0, 15)]
    events = [Event("S", (name, price), t) for name, price, t in quotes]
    assert run(["S"], text, events) == [("B", 40.0, 15, 15)]
