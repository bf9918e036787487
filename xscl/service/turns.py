"""Turns at what keeps the service busy: a few at the same time, and for each user fewer.

Who has had as many as he may have waiting is refused at once, so one user neither takes the turns
of all others nor holds the threads in which they would wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from xscl.errors import XsclError
from xscl.service.accounts import Account


class TooMany(XsclError):
    """A user, or all of them, ask for too much at the same time."""

    code = "busy"


class Turns:
    """At most `places` at the same time; of one user `each`, and as many that wait for a while."""

    def __init__(self, places: int, each: int = 1, waiting: int = 1, patience: float = 2.0) -> None:
        self._places = places
        self._each = each
        self._waiting = waiting
        self._patience = patience
        self._freed = threading.Condition()
        self._here: Counter[int] = Counter()
        self._working: Counter[int] = Counter()

    @contextmanager
    def turn(self, who: Account) -> Iterator[None]:
        """Hold a place while the block runs; raises TooMany if none is free soon."""
        number = who.number
        with self._freed:
            if self._here[number] >= self._each + self._waiting:
                raise TooMany("what you asked before is being worked on", hint="ask again later")
            self._here[number] += 1
        try:
            self._take(number)
            try:
                yield
            finally:
                with self._freed:
                    _fewer(self._working, number)
                    self._freed.notify_all()
        finally:
            with self._freed:
                _fewer(self._here, number)

    def _take(self, number: int) -> None:
        def free() -> bool:
            return self._working.total() < self._places and self._working[number] < self._each

        with self._freed:
            if not self._freed.wait_for(free, self._patience if self._waiting else 0.0):
                raise TooMany("others are being worked on", hint="ask again in a few seconds")
            self._working[number] += 1


def _fewer(counts: Counter[int], number: int) -> None:
    counts[number] -= 1
    if not counts[number]:
        del counts[number]
