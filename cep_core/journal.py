"""Journals: what a plan has begun and ceased to keep.

A snapshot has all that m-ops and lanes keep, so it costs what the state costs.  Who writes the
state down again and again wants what has changed instead: m-ops and lanes say what they `keep` and
`drop`, thing by thing, where they do it.  A thing is an object that its keeper has until it drops
it; it is known by its identity, and written under a number.  Later things have larger numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Note(NamedTuple):
    """A thing that is kept, and whose it is."""

    keeper: Any
    thing: Any


class Unwritten:
    """The journal of a plan that nobody writes down."""

    def keep(self, keeper: object, thing: object) -> None:
        """Note that a thing is kept; it may have been before."""

    def drop(self, things: Iterable[object]) -> None:
        """Note that things are kept no more; they may not have been."""


class Journal(Unwritten):
    """The numbers of what is kept, and what came and went since it was asked last.

    What came and went in between is not told.
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

    def take(self) -> tuple[dict[int, Note], list[int]]:
        """Return what is new, by ascending number, and the numbers of what is gone."""
        fresh, gone = self._fresh, self._gone
        self._fresh, self._gone = {}, []
        return fresh, gone

    # -- What was written before -----------------------------------------------------------

    def begin_after(self, number: int) -> None:
        """Give new things larger numbers than one that was written."""
        self._last = max(self._last, number)

    def adopt(self, number: int, thing: object) -> None:
        """Note that a thing, which is new, is what was written under a number."""
        del self._fresh[self._numbers[id(thing)]]
        self._numbers[id(thing)] = number

    def reading(self, number: int, read: Callable[[], None]) -> None:
        """Take back what was written under a number: ``read`` has it kept again.

        Unless it becomes one thing it is gone, and what it has become is new.
        """
        first = self._last + 1
        read()
        made = [one for one in range(first, self._last + 1) if one in self._fresh]
        if len(made) == 1:
            self.adopt(number, self._fresh[made[0]].thing)
        else:
            self._gone.append(number)

    def forget(self, number: int) -> None:
        """Note that what was written under a number is of no use."""
        self._gone.append(number)
