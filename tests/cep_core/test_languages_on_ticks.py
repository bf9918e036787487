"""The languages on minute bars of three currencies; a loop over the bars confirms the results.

A tick is a minute.  The bars are read from `tests/data`, and real ones from ../shared/data
(`tests.corpus`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from cep_core import Engine, Event
from tests.corpus import Corpus

DAYS = ("20180404", "20180405")
COINS = ("BTC", "ETH", "LTC")


class Bar(NamedTuple):
    """A minute of a currency; ``move`` is the change in tenths of a percent."""

    time: int
    coin: str
    move: float
    close: float
    volume: float


Bars = dict[str, list[Bar]]
Found = Iterator[tuple[Any, ...]]


@pytest.fixture(scope="module")
def bars(corpus: Corpus) -> Bars:
    """The bars of two days by currency, in order."""
    folder = corpus.folder("ticks-crypto") / "minute"
    found: Bars = {coin: [] for coin in COINS}
    for coin in COINS:
        for day, name in enumerate(DAYS):
            with (folder / f"{coin.lower()}usd" / f"{name}.csv").open() as lines:
                for millis, *rest in csv.reader(lines):
                    opened, _, _, close, volume = map(float, rest)
                    move = (close - opened) / opened * 1000
                    time = day * 1440 + int(millis) // 60_000
                    found[coin].append(Bar(time, coin, move, close, volume))
    return found


def between(bars: list[Bar], after: int, before: float) -> list[Bar]:
    """Return the bars with after < time < before."""
    return [bar for bar in bars if after < bar.time < before]


def fall_after_fall(bars: Bars) -> Found:
    """After a fall of bitcoin the next fall of ether, if it comes within ten minutes."""
    for b in (one for one in bars["BTC"] if one.move < -4):
        falls = [e for e in between(bars["ETH"], b.time, b.time + 11) if e.move < -3]
        if falls:
            yield b.time, falls[0].time, b.close, falls[0].close


def rising(bars: Bars) -> Found:
    """Runs of at least seven rising closes, in consecutive bars, each of them and its parts."""
    series = bars["BTC"]
    for begin in range(len(series)):
        end = begin + 1
        while end < len(series) and series[end].close > series[end - 1].close:
            end += 1
            if end - begin >= 7:
                yield series[begin].time, series[end - 1].time, end - begin


def not_followed(bars: Bars) -> Found:
    for b in (one for one in bars["BTC"] if one.move < -4):
        if not any(e.move < -3 for e in between(bars["ETH"], b.time, b.time + 5)):
            yield b.time, b.time + 4, b.close


def without_warning(bars: Bars) -> Found:
    for e in (one for one in bars["ETH"] if one.move > 4):
        if not any(b.move > 2 for b in between(bars["BTC"], e.time - 10, e.time)):
            yield e.time, e.time, e.close


def undisturbed(bars: Bars) -> Found:
    """A fall of litecoin and its next rise, unless bitcoin falls in between."""
    for one in (bar for bar in bars["LTC"] if bar.move < -5):
        rises = [bar for bar in bars["LTC"] if bar.time > one.time and bar.move > 0]
        if rises and all(b.move >= 0 for b in between(bars["BTC"], one.time, rises[0].time)):
            yield one.time, rises[0].time, one.close, rises[0].close


def volume_jumps(bars: Bars) -> Found:
    for coin in COINS:
        for x, y in pairwise(bars[coin]):
            if y.volume > 25 * x.volume and y.time - x.time < 3:
                yield x.time, y.time, coin, y.volume


def quiet(bars: Bars) -> Found:
    """Half hours with few bars in which no close was much higher than its open."""
    for bar in bars["ETH"]:
        window = between(bars["ETH"], bar.time - 30, bar.time + 1)
        if len(window) < 12:
            yield bar.time, bar.time, len(window), max(one.move for one in window)


def together(bars: Bars) -> Found:
    falls = [other for other in bars["ETH"] if other.move < -5]
    for one in (bar for bar in bars["BTC"] if bar.move < -5):
        for other in between(falls, one.time - 4, one.time + 4):
            yield *sorted((one.time, other.time)), one.close, other.close


ANY = "ANY(BTC, ETH, LTC)"
QUERIES: list[tuple[str, Callable[[Bars], Found], str]] = [
    (
        "cel",
        fall_after_fall,
        """SELECT b, close FROM FILTER{DUR <= 10 s}(
            (SELECT close AS b FROM FILTER{move < -4}(BTC)) NEXT{$2.move < -3} ETH)""",
    ),
    (
        "eql",
        fall_after_fall,
        """SELECT A.close, B.close AS ether FROM BTC A ; ETH B
        WHERE A.move < -4, FILTER(B.move < -3), (A, B) OCCURS WITHIN 10 s""",
    ),
    (
        "sase",
        fall_after_fall,
        """EVENT SEQ(BTC b, ETH e) WHERE skip_till_next_match(b, e) {b.move < -4 AND e.move < -3}
        WITHIN 11 RETURN b.close, e.close AS ether""",
    ),
    (
        "sase",
        rising,
        """EVENT SEQ(BTC+ b[])
        WHERE strict_contiguity(b[]) {b[i].close > b[i-1].close AND COUNT(b[]) >= 7}
        RETURN COUNT(b[]) AS n""",
    ),
    (
        "cel",
        rising,
        """SELECT n FROM FILTER{n >= 7}((SELECT *, 1 AS n FROM BTC)
        FOLD{TRUE, $2.close > $.close, $.n + 1 AS n} BTC)""",
    ),
    (
        "sase",
        not_followed,
        """EVENT SEQ(BTC b, !(ETH e)) WHERE b.move < -4 AND e.move < -3
        WITHIN 5 RETURN b.close""",
    ),
    (
        "sase",
        without_warning,
        "EVENT SEQ(!(BTC b), ETH e) WHERE e.move > 4 AND b.move > 2 WITHIN 10 RETURN e.close",
    ),
    (
        "eql",
        undisturbed,
        r"""SELECT A.close, B.close AS again FROM (LTC A ; LTC B) \ BTC Z
        WHERE A.move < -5, FILTER(B.move > 0), Z.move < 0""",
    ),
    (
        "sase",
        volume_jumps,
        f"""EVENT SEQ({ANY} x, {ANY} y)
        WHERE partition_contiguity(x, y) {{[coin] AND y.volume > 25 * x.volume}}
        WITHIN 3 RETURN x.coin, y.volume""",
    ),
    (
        "cel",
        quiet,
        """SELECT * FROM FILTER{n < 12}(
            SELECT COUNT(*) AS n, MAX(move) AS most FROM ETH WINDOW 30 s)""",
    ),
    (
        "cel",
        together,
        """SELECT b, e FROM (SELECT close AS b FROM FILTER{move < -5}(BTC))
        JOIN{TRUE, 3 s} (SELECT close AS e FROM FILTER{move < -5}(ETH))""",
    ),
]


@pytest.mark.parametrize(("language", "loop", "text"), QUERIES)
def test_a_loop_over_the_bars_finds_the_same(
    language: str, loop: Callable[[Bars], Found], text: str, bars: Bars
) -> None:
    core = Engine(1)
    for coin in COINS:
        core.stream(coin, {"coin": str, "move": float, "close": float, "volume": float})
    core.register("q", text, language)
    ordered = sorted((bar for one in bars.values() for bar in one), key=lambda bar: bar.time)
    matches = core.push(Event(bar.coin, bar[1:], bar.time) for bar in ordered) + core.close()
    expected = Counter(loop(bars))
    assert expected
    assert Counter((event.t0, event.t1, *event.values) for _, event in matches) == expected
