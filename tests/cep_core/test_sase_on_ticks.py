"""SASE on minute bars of three currencies, with results that a loop over the bars confirms.

A tick is a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.cep_core.ticks import COINS, Bar, Bars, matches_of, read
from tests.corpus import Corpus

Found = Iterator[tuple[Any, ...]]


@pytest.fixture(scope="module")
def bars(corpus: Corpus) -> Bars:
    return read(corpus.folder("ticks-crypto"))


def between(bars: list[Bar], after: int, before: int) -> list[Bar]:
    """Return the bars with after < time < before."""
    return [bar for bar in bars if after < bar.time < before]


def falling_together(bars: Bars) -> Found:
    for b in (one for one in bars["BTC"] if one.move < -3):
        for e in between(bars["ETH"], b.time, b.time + 6):
            for last in between(bars["LTC"], e.time, b.time + 6):
                if e.move < -3 and last.move < -3:
                    yield b.time, last.time, b.close, e.close, last.close


def not_followed(bars: Bars) -> Found:
    for b in (one for one in bars["BTC"] if one.move < -4):
        if not any(e.move < -3 for e in between(bars["ETH"], b.time, b.time + 5)):
            yield b.time, b.time + 4, b.close


def without_warning(bars: Bars) -> Found:
    for e in (one for one in bars["ETH"] if one.move > 4):
        if not any(b.move > 2 for b in between(bars["BTC"], e.time - 10, e.time)):
            yield e.time, e.time, e.close


def not_between(bars: Bars) -> Found:
    for b in (one for one in bars["BTC"] if one.move > 5):
        for e in between(bars["ETH"], b.time, b.time + 8):
            quiet = not any(one.move > 3 for one in between(bars["LTC"], b.time, e.time))
            if e.move > 3 and quiet:
                yield b.time, e.time, b.volume, e.volume


def rising(bars: Bars) -> Found:
    """Runs of at least seven rising closes, in consecutive bars, each of them and its parts."""
    series = bars["BTC"]
    for begin in range(len(series)):
        end = begin + 1
        while end < len(series) and series[end].close > series[end - 1].close:
            end += 1
            if end - begin >= 7:
                run = series[begin:end]
                yield run[0].time, run[-1].time, len(run), max(one.volume for one in run)


def volume_jumps(bars: Bars) -> Found:
    for coin in COINS:
        for x, y in pairwise(bars[coin]):
            if y.volume > 25 * x.volume and y.time - x.time < 3:
                yield x.time, y.time, coin, y.volume


def the_next(bars: Bars) -> Found:
    for b in (one for one in bars["BTC"] if one.move > 3):
        later = [e for e in bars["ETH"] if e.time > b.time and e.move > b.move]
        if later and later[0].time - b.time < 60:
            yield b.time, later[0].time, b.close, later[0].close


ANY = "ANY(BTC, ETH, LTC)"
QUERIES: dict[str, tuple[str, Callable[[Bars], Found]]] = {
    "falling together": (
        """EVENT SEQ(BTC b, ETH e, LTC l) WHERE b.move < -3 AND e.move < -3 AND l.move < -3
        WITHIN 6 RETURN b.close, e.close AS ether, l.close AS lite""",
        falling_together,
    ),
    "a fall that ether does not follow": (
        """EVENT SEQ(BTC b, !(ETH e)) WHERE b.move < -4 AND e.move < -3
        WITHIN 5 RETURN b.close""",
        not_followed,
    ),
    "a jump without a warning": (
        "EVENT SEQ(!(BTC b), ETH e) WHERE e.move > 4 AND b.move > 2 WITHIN 10 RETURN e.close",
        without_warning,
    ),
    "nothing between": (
        """EVENT SEQ(BTC b, !(LTC l), ETH e) WHERE b.move > 5 AND e.move > 3 AND l.move > 3
        WITHIN 8 RETURN b.volume, e.volume AS ether""",
        not_between,
    ),
    "rising": (
        """EVENT SEQ(BTC+ b[])
        WHERE strict_contiguity(b[]) {b[i].close > b[i-1].close AND COUNT(b[]) >= 7}
        RETURN COUNT(b[]) AS n, MAX(b[].volume) AS most""",
        rising,
    ),
    "volume jumps": (
        f"""EVENT SEQ({ANY} x, {ANY} y)
        WHERE partition_contiguity(x, y) {{[coin] AND y.volume > 25 * x.volume}}
        WITHIN 3 RETURN x.coin, y.volume""",
        volume_jumps,
    ),
    "the next larger move": (
        """EVENT SEQ(BTC b, ETH e)
        WHERE skip_till_next_match(b, e) {b.move > 3 AND e.move > b.move}
        WITHIN 60 RETURN b.close, e.close AS ether""",
        the_next,
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_loop_over_the_bars_finds_the_same(name: str, bars: Bars) -> None:
    text, loop = QUERIES[name]
    found = matches_of(text, "sase", bars)
    expected = list(loop(bars))
    assert expected
    assert Counter(found) == Counter(expected)
