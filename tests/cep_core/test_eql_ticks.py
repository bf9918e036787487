"""EQL on real prices: minutes of BTC, ETH and LTC of one day, each query by a script of its own.

The scripts know bars as plain tuples (minute, open, high, low, close, volume) and nothing of the
engine.  Every query has matches.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import cep_core
from cep_core.events import Event
from tests.corpus import Corpus

Bar: TypeAlias = tuple[int, float, float, float, float, float]
Day: TypeAlias = Mapping[str, Sequence[Bar]]
DAY = "20180404"
COINS = {"btc": "btcusd", "eth": "ethusd", "ltc": "ltcusd"}
BAR = {"open": float, "high": float, "low": float, "close": float, "volume": float}
MINUTE, OPEN, HIGH, LOW, CLOSE, VOLUME = range(6)


@pytest.fixture(scope="module")
def day(corpus: Corpus) -> Day:
    """The bars of each coin, in order."""
    folder = corpus.folder("ticks-crypto") / "minute"
    return {coin: list(bars(folder / pair / f"{DAY}.csv")) for coin, pair in COINS.items()}


def bars(path: Path) -> Iterator[Bar]:
    with path.open(newline="") as lines:
        for ms, *rest in csv.reader(lines):
            opened, high, low, close, volume = map(float, rest)
            yield int(ms) // 60_000, opened, high, low, close, volume


def first_after(bars: Sequence[Bar], minute: float, wanted: Callable[[Bar], bool]) -> Bar | None:
    return next((bar for bar in bars if bar[MINUTE] > minute and wanted(bar)), None)


# -- the scripts ---------------------------------------------------------------------------


def jumps(day: Day) -> Iterator[tuple[Any, ...]]:
    """A bar of BTC that closes half a percent above the one before."""
    for one, other in zip(day["btc"], day["btc"][1:], strict=False):
        if other[CLOSE] > one[CLOSE] * 1.005:
            yield one[MINUTE], other[MINUTE], (one[CLOSE], other[CLOSE])


def answers(day: Day) -> Iterator[tuple[Any, ...]]:
    """A fall of BTC, and the next busy bar of ETH, if it comes within ten minutes."""
    for one in day["btc"]:
        if one[CLOSE] >= one[OPEN] * 0.996:
            continue
        other = first_after(day["eth"], one[MINUTE], lambda bar: bar[VOLUME] > 300)
        if other is not None and other[MINUTE] - one[MINUTE] <= 10:
            yield one[MINUTE], other[MINUTE], (one[CLOSE], other[VOLUME])


def rising_runs(day: Day) -> Iterator[tuple[Any, ...]]:
    """Runs of LTC in which each bar closes above the one before, that rise by 0.8 % in all."""
    ltc = day["ltc"]
    for start in range(len(ltc)):
        stop = start + 1
        while stop < len(ltc) and ltc[stop][CLOSE] > ltc[stop - 1][CLOSE]:
            stop += 1
            if ltc[stop - 1][CLOSE] > 1.008 * ltc[start][CLOSE]:
                closes = tuple(bar[CLOSE] for bar in ltc[start:stop])
                yield ltc[start][MINUTE], ltc[stop - 1][MINUTE], (closes, closes[-1])


def undisturbed(day: Day) -> Iterator[tuple[Any, ...]]:
    """A fall of LTC and its next rise, unless BTC falls in between."""
    for one in day["ltc"]:
        if one[CLOSE] >= one[OPEN] * 0.995:
            continue
        other = first_after(day["ltc"], one[MINUTE], lambda bar: bar[CLOSE] > bar[OPEN])
        if other is None:
            continue
        between = [bar for bar in day["btc"] if one[MINUTE] < bar[MINUTE] < other[MINUTE]]
        if not any(bar[CLOSE] < bar[OPEN] for bar in between):
            yield one[MINUTE], other[MINUTE], (one[CLOSE], other[CLOSE])


def unbeaten(day: Day) -> Iterator[tuple[Any, ...]]:
    """A busy bar of ETH whose high is not reached for an hour."""
    for one in day["eth"]:
        later = [bar for bar in day["eth"] if 0 < bar[MINUTE] - one[MINUTE] <= 60]
        if one[VOLUME] > 400 and not any(bar[HIGH] >= one[HIGH] for bar in later):
            end = one[MINUTE] + 60
            yield end, end, (one[HIGH],)


def any_coin(day: Day) -> Iterator[tuple[Any, ...]]:
    """A fall of any coin, and the next strong rise of any coin within half an hour."""
    every = sorted((bar for coin in COINS for bar in day[coin]), key=lambda bar: bar[MINUTE])
    for one in every:
        if one[CLOSE] >= one[OPEN] * 0.994:
            continue
        rises = [
            bar for bar in every if bar[MINUTE] > one[MINUTE] and bar[CLOSE] > bar[OPEN] * 1.004
        ]
        for bar in rises:
            if bar[MINUTE] == rises[0][MINUTE] and bar[MINUTE] - one[MINUTE] <= 30:
                yield one[MINUTE], bar[MINUTE], (one[CLOSE], bar[CLOSE])


def in_turn(day: Day) -> Iterator[tuple[Any, ...]]:
    """A fall of BTC, then the first pair of a fall of ETH and the fall of LTC after it."""

    def fall(bar: Bar) -> bool:
        return bar[CLOSE] < bar[OPEN] * 0.996

    for one in filter(fall, day["btc"]):
        second = first_after(day["eth"], one[MINUTE], fall)
        third = second and first_after(day["ltc"], second[MINUTE], fall)
        if second and third:
            yield one[MINUTE], third[MINUTE], (one[CLOSE], second[CLOSE], third[CLOSE])


QUERIES = [
    (jumps, "SELECT A.close, B.close FROM btc A ; btc B WHERE B.close > A.close * 1.005"),
    (
        answers,
        "SELECT A.close, B.volume FROM btc A ; eth B WHERE A.close < A.open * 0.996,"
        " FILTER(B.volume > 300), (A, B) OCCURS WITHIN 10 min",
    ),
    (
        rising_runs,
        "SELECT ALL(A.close) AS closes, A.close FROM ltc A+ WHERE PREV(A.close) < A.close",
    ),
    (
        undisturbed,
        r"SELECT A.close, B.close FROM (ltc A ; ltc B) \ btc Z WHERE A.close < A.open * 0.995,"
        " FILTER(B.close > B.open), Z.close < Z.open",
    ),
    (
        unbeaten,
        r"SELECT A.high FROM (eth A @ 1 h) \ eth Z WHERE A.volume > 400, Z.high >= A.high",
    ),
    (
        any_coin,
        "SELECT A.close, B.close FROM (btc A | eth A | ltc A) ; (btc B | eth B | ltc B)"
        " WHERE A.close < A.open * 0.994, FILTER(B.close > B.open * 1.004),"
        " (A, B) OCCURS WITHIN 30 min",
    ),
    (
        in_turn,
        "SELECT A.close, B.close, C.close FROM btc A ; (eth B ; ltc C)"
        " WHERE A.close < A.open * 0.996, FILTER(B.close < B.open * 0.996),"
        " FILTER(C.close < C.open * 0.996)",
    ),
]


def events(day: Day) -> list[Event]:
    found = [Event(coin, bar[1:], int(bar[MINUTE]) * 60) for coin in COINS for bar in day[coin]]
    return sorted(found, key=lambda event: event.t0)


@pytest.mark.parametrize("rewriting", [True, False])
def test_a_day_of_prices(day: Day, rewriting: bool) -> None:
    core = cep_core.Engine(1, options=cep_core.Options(rewriting=rewriting))
    for coin in COINS:
        core.stream(coin, BAR, rate=len(day[coin]) / 86_400)
    for script, query in QUERIES:
        core.register(script.__name__, query, language="eql")
    matches: dict[str, Counter[Any]] = {script.__name__: Counter() for script, _ in QUERIES}
    for name, event in [*core.push(events(day)), *core.close()]:
        if name != "rising_runs" or event.values[1] > 1.008 * event.values[0][0]:
            assert event.t1 is not None
            matches[name][event.t0 // 60, event.t1 // 60, event.values] += 1
    for script, _ in QUERIES:
        wanted = Counter(script(day))
        assert wanted
        assert matches[script.__name__] == wanted, script.__name__
