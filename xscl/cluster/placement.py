"""The cell of each subscription, and the silent copies of publishers that its cell needs.

Equal definitions share rows of R_T and states of the automaton, and so do different ones with
common constants: a channel, a keyword.  So a subscription is placed by its definition and its
constants.  Each constant ranks the cells in an order of its own (rendezvous hashing), and a cell
that is much fuller than the others is passed over.

A cell that reads a published stream needs all its publishers, and these what they read.  Such a
copy is silent: its matches are answered by the cell in which it was placed.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from xscl.documents.results import Subscription
from xscl.language.constants import split

SLACK = 1.25
"""The most that a cell may have, as a multiple of the mean."""
ROOM = 8
"""Subscriptions above that multiple, so that a few may lie together."""

Choose: TypeAlias = Callable[[Subscription], int]


class Placement:
    """Chooses cells; what it has placed determines what it chooses next.

    The choice is recorded in the log, so it need not be repeatable.
    """

    def __init__(self, cells: int, placed: Iterable[tuple[Subscription, int]] = ()) -> None:
        self._cells = cells
        self._sizes = Counter[int]()
        self._often = Counter[str]()
        for subscription, cell in placed:
            self._count(subscription, cell)

    def __call__(self, subscription: Subscription) -> int:
        """Return the cell of a new subscription."""
        most = SLACK * (sum(self._sizes.values()) + 1) / self._cells + ROOM
        for cell in self._ranked(self._mark(subscription)):
            if self._sizes[cell] < most:
                self._count(subscription, cell)
                return cell
        raise AssertionError("some cell has at most the mean")

    def _count(self, subscription: Subscription, cell: int) -> None:
        self._sizes[cell] += 1
        self._often.update(_constants(subscription.query))

    def _mark(self, subscription: Subscription) -> str:
        """Return the constant that most other subscriptions share, or the definition."""
        constants = _constants(subscription.query)
        if not constants:
            return subscription.query
        return max(constants, key=lambda one: (self._often[one], one))

    def _ranked(self, mark: str) -> list[int]:
        def weight(cell: int) -> bytes:
            return hashlib.blake2b(f"{cell} {mark}".encode(), digest_size=8).digest()

        return sorted(range(self._cells), key=weight)


def _constants(query: str) -> list[str]:
    found = split(query)
    return [] if found is None else [one for one in found[1] if isinstance(one, str)]


def needed_copies(
    subscriptions: Sequence[Subscription], cells: Mapping[str, int]
) -> defaultdict[str, set[int]]:
    """Return the cells that need a silent copy of a publisher, by its key.

    `cells` are those in which subscriptions were placed.
    """
    publishers = defaultdict[str, list[Subscription]](list)
    for one in subscriptions:
        if one.publish is not None:
            publishers[one.publish].append(one)
    copies = defaultdict[str, set[int]](set)
    if not publishers:
        return copies
    for one in subscriptions:
        cell = cells[one.key]
        reading, known = [one], {one.key}
        while reading:
            for stream in reading.pop().reads:
                for publisher in publishers.get(stream, ()):
                    if publisher.key not in known:
                        known.add(publisher.key)
                        reading.append(publisher)
                        if cells[publisher.key] != cell:
                            copies[publisher.key].add(cell)
    return copies
