"""Minute bars of three currencies on two days; a tick is a minute.

They are read from `tests/data`, and real ones from ../shared/data (`tests.corpus`).
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from cep_core import Engine, Event

DAYS = ("20180404", "20180405")
COINS = ("BTC", "ETH", "LTC")


class Bar(NamedTuple):
    """A minute of a currency."""

    coin: str
    time: int
    open: float
    close: float
    volume: float

    @property
    def move(self) -> float:
        """The change in tenths of a percent."""
        return (self.close - self.open) / self.open * 1000


Bars = dict[str, list[Bar]]


def read(ticks: Path) -> Bars:
    """The bars of two days by currency, in order."""
    folder = ticks / "minute"
    found: Bars = {}
    for coin in COINS:
        found[coin] = []
        for day, name in enumerate(DAYS):
            with (folder / f"{coin.lower()}usd" / f"{name}.csv").open() as lines:
                for millis, opened, _, _, closed, volume in csv.reader(lines):
                    time = day * 1440 + int(millis) // 60_000
                    bar = Bar(coin, time, float(opened), float(closed), float(volume))
                    found[coin].append(bar)
    return found


def matches_of(text: str, language: str, bars: Bars) -> list[tuple[object, ...]]:
    """The matches of a query over a stream for each currency: begin, end, values."""
    core = Engine(1)
    for coin in COINS:
        core.stream(coin, {"coin": str, "move": float, "close": float, "volume": float})
    core.register("q", text, language)
    ordered = sorted((bar for one in bars.values() for bar in one), key=lambda bar: bar.time)
    matches = core.push(
        Event(bar.coin, (bar.coin, bar.move, bar.close, bar.volume), bar.time) for bar in ordered
    )
    return [(event.t0, event.t1, *event.values) for _, event in matches + core.close()]
