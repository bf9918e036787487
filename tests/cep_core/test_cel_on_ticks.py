"""CEL on minute bars of three currencies, with results that a loop over the bars confirms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cep_core.ticks import Bar, Bars, matches_of, read
from tests.corpus import Corpus

Found = Iterator[tuple[Any, ...]]


@pytest.fixture(scope="module")
def bars(corpus: Corpus) -> Bars:
    return read(corpus.folder("ticks-crypto"))


def after(bars: list[Bar], time: int) -> list[Bar]:
    """Return the bars that come after a time."""
    return [bar for bar in bars if bar.time > time]


def jumps(bars: Bars) -> Found:
    for bar in bars["BTC"]:
        if bar.move > 6:
            yield bar.time, bar.time, bar.close, bar.volume * 2


def fall_after_fall(bars: Bars) -> Found:
    """After a fall of bitcoin the next fall of ether, however long that takes."""
    falls = [one for one in bars["ETH"] if one.move < -6]
    for bar in bars["BTC"]:
        if bar.move < -6 and (later := after(falls, bar.time)):
            yield bar.time, later[0].time, bar.close, later[0].close


def within(bars: Bars) -> Found:
    for bar in bars["BTC"]:
        if bar.move > 4:
            later = [one for one in after(bars["LTC"], bar.time) if one.volume > bar.volume]
            if later and later[0].time - bar.time <= 10:
                yield bar.time, later[0].time, bar.close, later[0].close


def rises(bars: Bars) -> Found:
    """From a jump on each higher close, until one is not: how many, and the last."""
    for bar in bars["LTC"]:
        if bar.move > 5:
            last = bar
            for number, one in enumerate(after(bars["LTC"], bar.time), 2):
                if one.close <= last.close:
                    break
                last = one
                yield bar.time, one.time, bar.close, one.close, number


def quiet(bars: Bars) -> Found:
    """Half hours with few bars in which no close was much higher than its open."""
    for bar in bars["ETH"]:
        window = [one for one in bars["ETH"] if bar.time - 30 < one.time <= bar.time]
        if len(window) < 12:
            yield bar.time, bar.time, len(window), max(one.move for one in window)


def together(bars: Bars) -> Found:
    falls = [other for other in bars["ETH"] if other.move < -5]
    for one in bars["BTC"]:
        for other in falls:
            if one.move < -5 and abs(one.time - other.time) <= 3:
                times = sorted((one.time, other.time))
                yield *times, one.close, other.close


def any_of_two(bars: Bars) -> Found:
    for bar in (*bars["BTC"], *bars["LTC"]):
        if bar.move > 7:
            yield bar.time, bar.time, bar.coin, bar.move


QUERIES: dict[str, tuple[str, Callable[[Bars], Found]]] = {
    "FILTER": ("SELECT close, volume * 2 AS twice FROM FILTER{move > 6}(BTC)", jumps),
    "NEXT": (
        """SELECT b, close FROM (SELECT close AS b FROM FILTER{move < -6}(BTC))
        NEXT{$2.move < -6} ETH""",
        fall_after_fall,
    ),
    "NEXT, DUR": (
        """SELECT b, close FROM FILTER{DUR <= 10 s}(
            (SELECT close AS b, volume AS v FROM FILTER{move > 4}(BTC))
            NEXT{$2.volume > $1.v} LTC)""",
        within,
    ),
    "FOLD": (
        """SELECT close_1 AS first, close, n
        FROM (SELECT *, 1 AS n FROM FILTER{move > 5}(LTC))
        FOLD{TRUE, $2.close > $.close, $.n + 1 AS n} LTC""",
        rises,
    ),
    "WINDOW": (
        """SELECT * FROM FILTER{n < 12}(
            SELECT COUNT(*) AS n, MAX(move) AS most FROM ETH WINDOW 30 s)""",
        quiet,
    ),
    "JOIN": (
        """SELECT b, e FROM (SELECT close AS b FROM FILTER{move < -5}(BTC))
        JOIN{TRUE, 3 s} (SELECT close AS e FROM FILTER{move < -5}(ETH))""",
        together,
    ),
    "UNION": (
        "SELECT coin, move FROM FILTER{move > 7}(SELECT * FROM BTC UNION LTC)",
        any_of_two,
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_loop_over_the_bars_finds_the_same(name: str, bars: Bars) -> None:
    text, loop = QUERIES[name]
    expected = list(loop(bars))
    assert expected
    assert Counter(matches_of(text, "cel", bars)) == Counter(expected)
