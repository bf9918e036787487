"""The cell of each subscription, and the silent copies of publishers that its cell needs.

Equal definitions share rows of R_T and states of the automaton, and so do different ones with
common constants: a channel, a keyword.  So a subscription is placed by its definition and its
constants, those of equalities first: where the last one with the same lies, else in the cell that
the constant ranks first (rendezvous hashing).  A cell that is much fuller than the others is passed
over.

A cell is split along the same lines: subscriptions with a common constant stay together.

A cell that reads a published stream needs all its publishers, and these what they read.  Such a
copy is silent: its matches are answered by the cell in which it was placed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from xscl.documents.results import Subscription
from xscl.language.constants import split

SLACK = 1.25
"""The most that a cell may have, as a multiple of the mean."""
ROOM = 8
"""Subscriptions above that multiple, so that a few may lie together."""

_EQUALS = re.compile(r"""(?<![!<>])=\s*["']$""")
"""The end of a text before a constant that something has to equal."""

Choose: TypeAlias = Callable[[Subscription], int]


class Placement:
    """Chooses cells; what it has placed determines what it chooses next.

    The choice is recorded in the log, so it need not be repeatable.
    """

    def __init__(
        self, cells: Sequence[int], placed: Iterable[tuple[Subscription, int]] = ()
    ) -> None:
        self._cells = cells
        self._sizes = Counter[int]()
        self._often = Counter[str]()
        self._last = dict[str, int]()  # the cell of the last one with a constant or a definition
        for subscription, cell in placed:
            self._count(subscription, cell)

    def __call__(self, subscription: Subscription) -> int:
        """Return the cell of a new subscription."""
        most = SLACK * (sum(self._sizes.values()) + 1) / len(self._cells) + ROOM
        for cell in self._ranked(_mark(subscription, self._often)):
            if self._sizes[cell] < most:
                self._count(subscription, cell)
                return cell
        raise AssertionError("some cell has at most the mean")

    def _count(self, subscription: Subscription, cell: int) -> None:
        self._sizes[cell] += 1
        constants = _constants(subscription.query)
        self._often.update(constants)
        self._last.update(dict.fromkeys(constants or [subscription.query], cell))

    def _ranked(self, mark: str) -> list[int]:
        last = self._last.get(mark)

        def rank(cell: int) -> tuple[bool, bytes]:
            weight = hashlib.blake2b(f"{cell} {mark}".encode(), digest_size=8).digest()
            return cell != last, weight

        return sorted(self._cells, key=rank)


def halved(subscriptions: Sequence[Subscription]) -> list[Subscription]:
    """Return about half of the subscriptions of a cell, to be moved to a new one.

    Equal definitions stay together, and those with a common constant unless one constant is in more
    than half of them.  Returns nothing if all have one definition.
    """
    often = Counter(one for some in subscriptions for one in _constants(some.query))
    groups = defaultdict[str, list[Subscription]](list)
    for one in subscriptions:
        groups[_mark(one, often)].append(one)
    together: list[list[Subscription]] = []
    for some in groups.values():
        if 2 * len(some) <= len(subscriptions):
            together.append(some)
            continue
        equal = defaultdict[str, list[Subscription]](list)
        for one in some:
            equal[one.query].append(one)
        together += equal.values()
    stay, move = list[Subscription](), list[Subscription]()
    for some in sorted(together, key=len, reverse=True):
        (move if len(move) < len(stay) else stay).extend(some)
    return move


def _mark(subscription: Subscription, often: Counter[str]) -> str:
    """Return the constant that most other subscriptions share, or the definition."""
    constants = _constants(subscription.query)
    if not constants:
        return subscription.query
    return max(constants, key=lambda one: (often[one], one))


def _constants(query: str) -> list[str]:
    """Return the strings that something of a query has to equal, else all its strings.

    A document satisfies few equalities with different constants, and many words may occur in it.
    So cells divide documents better by the former.  Sum of four cells over one with 20,000
    subscriptions (docs/measurements/cluster.md): 2.9 by any constant, 2.4 by these.
    """
    found = split(query)
    if found is None:
        return []
    shape, constants = found
    strings = [one for one in constants if isinstance(one, str)]
    before = zip(shape.pieces, shape.same, strict=False)
    equal = {constants[place] for piece, place in before if _EQUALS.search(piece)}
    return [one for one in strings if one in equal] or strings


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
