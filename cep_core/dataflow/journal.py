"""Journals: the changes of a plan's state since they were read last.

A snapshot has the whole state and costs as much.  A log of the state needs the changes only, so
m-ops and lanes record each object that they `keep` or `drop`.  A kept object, a *thing*, is known
by its identity and written under a number.  Later things have larger numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Note(NamedTuple):
    """A kept object, such as a row, and the m-op or lane that keeps it."""

    keeper: Any
    thing: Any


class Unwritten:
    """The journal of a plan without a log: nothing is recorded."""

    def keep(self, keeper: object, thing: object) -> None:
        """Record that ``keeper``, such as a lane, keeps a thing; no effect if it is recorded."""

    def drop(self, things: Iterable[object]) -> None:
        """Record that things are dropped; no effect for those that are not recorded as kept."""


class Journal(Unwritten):
    """The numbers of kept things, and the changes since the last `pop`.

    `pop` does not report a thing that was both kept and dropped since then.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # of things, by identity
        self._fresh: dict[int, Note] = {}  # by number
        self._gone: list[int] = []
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._fresh or self._gone)

    def keep(self, keeper: object, thing: object) -> None:
        if id(thing) not in self._numbers:
            self._last += 1
            self._numbers[id(thing)] = self._last
            self._fresh[self._last] = Note(keeper, thing)

    def drop(self, things: Iterable[object]) -> None:
        numbers, fresh = self._numbers, self._fresh
        for thing in things:
            number = numbers.pop(id(thing), None)
            if number is not None and fresh.pop(number, None) is None:
                self._gone.append(number)

    def pop(self) -> tuple[dict[int, Note], list[int]]:
        """Return the new notes by ascending number, and the numbers of dropped objects."""
        fresh, gone = self._fresh, self._gone
        self._fresh, self._gone = {}, []
        return fresh, gone

    def begin_anew(self, written: Sequence[int], kept: Iterable[Note]) -> None:
        """Report the things with the numbers `written` as dropped, and `kept` under new numbers.

        `written` is ascending; the new numbers are larger.
        """
        self._last = max([self._last, *written[-1:]])
        self._gone += written
        for keeper, thing in kept:
            self.drop((thing,))
            self.keep(keeper, thing)
