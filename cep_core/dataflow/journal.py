"""Journals: the changes of a plan's state since they were read last.

A snapshot has the whole state and costs as much.  A log of the state needs the changes only, so
m-ops and lanes record which objects they `keep` and `drop`, where they do so.  A kept object, a
*thing*, is known by its identity and written under a number.  Later things have larger numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Note(NamedTuple):
    """A thing that is kept, and the m-op or lane that keeps it."""

    keeper: Any
    thing: Any


class Unwritten:
    """The journal of a plan without a log: nothing is recorded."""

    def keep(self, keeper: object, thing: object) -> None:
        """Record that a thing is kept; it may have been before."""

    def drop(self, things: Iterable[object]) -> None:
        """Record that things are dropped; they may not have been kept."""


class Journal(Unwritten):
    """The numbers of kept things, and the changes since the last `pop`.

    A thing that was kept and dropped in between is not reported.
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
        """Report what has the numbers `written` as dropped, and the things `kept` under new
        numbers.

        The numbers are ascending.
        """
        self._last = max([self._last, *written[-1:]])
        self._gone += written
        for keeper, thing in kept:
            self.drop((thing,))
            self.keep(keeper, thing)
