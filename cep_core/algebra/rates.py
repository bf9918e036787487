"""The rates of base streams: declared, or measured while events come.

Rewriting needs to know which streams are rare (Schultz-Møller, Migliavacca and Pietzuch 2009,
section 4.1: rates are available or can be measured).  A measured rate is rounded to half a power
of two, so that queries that are registered one after the other know the same rates, and share what
was compiled for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from typing import Any

LEAST = 20  # events from which a rate is measured


class Rates:
    """Events by stream: how many have come since the first of them."""

    def __init__(self, ticks_per_second: int) -> None:
        self.declared: dict[str, float] = {}  # events in a second
        self._ticks_per_second = ticks_per_second
        self.counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def saw(self, names: Iterable[str], time: int) -> None:
        """Count an event of some streams."""
        counts = self.counts
        for name in names:
            if name in counts:
                counts[name] += 1
            else:
                counts[name] = 1
                self._first[name] = time

    def saw_all(self, names: Sequence[str], times: Sequence[int]) -> None:
        """Count an event of each of some streams."""
        known = len(self.counts)
        self.counts.update(names)
        if len(self.counts) > known:
            firsts = dict(zip(reversed(names), reversed(times[: len(names)]), strict=True))
            self._first = firsts | self._first

    def rate(self, name: str, now: int) -> float | None:
        """Return a stream's events in a second; None as long as too little is known."""
        if name in self.declared:
            return self.declared[name]
        count = self.counts.get(name, 0)
        passed = now - self._first.get(name, now)
        if count < LEAST or passed <= 0:
            return None
        measured: float = 2 ** (round(2 * log2(count * self._ticks_per_second / passed)) / 2)
        return measured

    def dump(self) -> dict[str, Any]:
        """Return the declared and measured rates as plain data."""
        counts = {name: [count, self._first[name]] for name, count in self.counts.items()}
        return {"declared": self.declared, "counts": counts}

    def load(self, data: Mapping[str, Any]) -> None:
        """Restore the dumped rates."""
        self.declared = dict(data["declared"])
        for name, (count, first) in data["counts"].items():
            self.counts[name], self._first[name] = count, first
