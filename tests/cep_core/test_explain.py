"""The text of `explain`, as the user sees it."""

from __future__ import annotations

import pytest

import cep_core
from cep_core.algebra.text import duration_in_words
from tests.cep_core.engines import engine_of

FALL = """SELECT Name, Price_1 AS high, Price AS low
FROM FILTER{DUR >= 10 min} (
  FILTER{Volume > 10000 AND Name = 'IBM'}(Stock)
  FOLD{$2.Name = $1.Name, $2.Price < $.Price, } Stock)
"""
RISE = (
    "SELECT * FROM FILTER{Price > 1.05 * low} (Falls NEXT{$1.Name = $2.Name AND DUR <= 1 h} Stock)"
)


def engine() -> cep_core.Engine:
    core = engine_of(["Stock"], {"Name": str, "Price": float, "Volume": int})
    core.register("fall", FALL + "PUBLISH Falls")
    core.register("other", FALL.replace("10 min", "5 min"))
    core.register("rise", RISE)
    return core


def test_a_query() -> None:
    assert engine().explain("fall") == (
        "fall (query 0, cel) reads Stock\n"
        "  select#1.0  FILTER{Volume > 10000 AND Name = 'IBM'}\n"
        "      reads Stock; used by 3 queries\n"
        "      predicate index: hash on 1 equality\n"
        "  iterate#2.0  FOLD{$2.Name = $1.Name, $2.Price < $.Price}\n"
        "      reads select#1.0, Stock; used by 3 queries\n"
        "      AI-index on dynamic equality\n"
        "  select#3.0  FILTER{DUR >= 10 min}\n"
        "      reads iterate#2.0; used by 2 queries, 1 other operator in select#3\n"
        "      predicate index: tried one by one\n"
        "  project#4.0  SELECT Name, Price_1 AS high, Price AS low\n"
        "      reads select#3.0; used by 2 queries, 1 other operator in project#4\n"
        "  output  Falls(Name str, high float, low float)\n"
        "  FOLD: instance.t1 < b.t0 (each instance meets its next b; simultaneous ones each"
        " continue it)"
    )


def test_a_query_that_reads_another() -> None:
    lines = engine().explain("rise").splitlines()
    assert lines[0] == "rise (query 2, cel) reads Falls, Stock"
    assert "  sequence#5.0  NEXT{$1.Name = $2.Name AND DUR <= 1 h}" in lines
    assert "      AI-index on dynamic equality; instances are dropped after 3600 ticks" in lines
    assert "      reads Falls (project#4.0), Stock; used by this query only" in lines
    assert [line.split()[0] for line in lines if line.startswith("  ") and "#" in line[:14]] == [
        *("select#1.0", "iterate#2.0", "select#3.0", "project#4.0"),
        *("sequence#5.0", "select#6.0"),
    ]


@pytest.mark.parametrize(
    ("ticks", "per_second", "words"),
    [
        *((0, 1, "0 s"), (1, 1, "1 s"), (90, 1, "90 s"), (600, 1, "10 min"), (86_400, 1, "1 day")),
        *((500, 1_000_000, "500 us"), (1, 3, "1 tick"), (2, 3, "2 ticks"), (3, 3, "1 s")),
        *((1_209_600_000, 1_000, "2 weeks"), (7, 1_000_000_000, "7 ticks")),
    ],
)
def test_durations_are_said_in_the_units_of_cel(ticks: int, per_second: int, words: str) -> None:
    assert duration_in_words(ticks, per_second) == words


def test_windows_and_latenesses() -> None:
    core = cep_core.Engine(ticks_per_second=1_000)
    core.stream("S", {"x": int}, lateness=1_500)
    core.register("w", "SELECT x, COUNT(*) AS n FROM S GROUP BY x WINDOW 5 min")
    core.register("j", "SELECT * FROM S JOIN{x = y, 2 h} (SELECT x AS y FROM S)")
    core.register(
        "n",
        "SELECT * FROM FILTER{x = 1 AND 3 s < DUR}(S) NEXT{$2.y = 1} Y".replace(
            "Y", "(SELECT x AS y FROM S)"
        ),
    )
    text = core.explain("w")
    assert "COUNT(*) GROUP BY x WINDOW 5 min" in text
    assert "1500 ms behind the clock" in text
    assert "JOIN{$1.x = $2.y, 2 h}" in core.explain("j")
    assert "FILTER{x = 1 AND 3 s < DUR}" in core.explain("n")
    assert "AN-index on 1 equality" in core.explain("n")
