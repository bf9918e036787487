"""Listeners: who reads matches as they come, each from a place of its own.

Nobody is handed matches: a bell says that there are some, and whoever hears it reads from the store
after its own place.  Many who wait at the same place read the same page, which is made once: what
is kept of pages is bounded, and so is what is kept of a listener, which is its place.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from xscl.delivery.message import Message, message_of
from xscl.delivery.reading import following
from xscl.generations import Generations
from xscl.pages import LAST, Pages, Place, Span
from xscl.results import Subscription

PAGE = 100
"""Matches that a listener is given at once."""
FRESH = 256
"""Pages that were read lately and that others may read."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Events that came after a place, each as it is sent, and the place to go on from."""

    events: tuple[bytes, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Wish:
    """What a listener wants: matches of one subscription, or of all that are `mine`.

    The names of those begin with `prefix`.  `key` is the same for those who want the same.
    """

    key: tuple[object, ...]
    one: Subscription | None = None
    mine: Callable[[Subscription], bool] | None = None
    prefix: str = ""
    grouped: bool = True


_Key: TypeAlias = tuple[object, ...]


class Listening:
    """Reads for listeners, one page at a time, in a thread of its own."""

    def __init__(self, pages: Pages, generations: Generations) -> None:
        self._pages = pages
        self.generations = generations
        self._reading = ThreadPoolExecutor(1, "live-reading")
        self._mutex = threading.Lock()
        self._fresh: OrderedDict[_Key, Heard] = OrderedDict()
        self.position = pages.position()
        """The last position that there is, as far as it was told."""

    def tell(self, position: int) -> None:
        """Be told that there are results up to a position."""
        self.position = max(self.position, position)

    def id_of(self, place: Place) -> str:
        """Return the id of an event after which a listener goes on from a place."""
        position, number = place
        within = "" if number == LAST else f"-{number}"
        return f"{self.generations.prefix}{position}{within}"

    def place_of(self, generation: int, place: Place) -> Place:
        """Return from where to go on after a place of some generation, so that none is missed.

        What that generation has beyond the one that is served is no place here: it is the last one
        that both have, or the beginning of all that is kept.
        """
        agreed = self.generations.agreed(generation, place[0])
        return place if agreed == place[0] else (agreed, LAST)

    async def span(self) -> Span:
        """Return which positions are kept, as the store says now."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._pages.span)

    def close(self) -> None:
        """End, when the page that is being read has been."""
        self._reading.shutdown(cancel_futures=True)

    async def after(self, wish: Wish, place: Place) -> Heard:
        """Return what there is after a place, perhaps nothing.  Raises UnknownSubscription."""
        # what was read when there were fewer results says nothing of those that are there now
        key = (*wish.key, place, self.position)
        known = self._known(key)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._read, wish, place, key)

    def _known(self, key: _Key) -> Heard | None:
        with self._mutex:
            return self._fresh.get(key)

    def _read(self, wish: Wish, place: Place, key: _Key) -> Heard:
        known = self._known(key)
        if known is not None:
            return known
        heard = self._of_one(wish, wish.one, place) if wish.one else self._of_all(wish, place)
        with self._mutex:
            self._fresh[key] = heard
            while len(self._fresh) > FRESH:
                self._fresh.popitem(last=False)
        return heard

    def _of_one(self, wish: Wish, one: Subscription, place: Place) -> Heard:
        read = following(self._pages, one.name, place[0], grouped=wish.grouped, limit=PAGE)
        events = _events(read.messages, lambda message: self.id_of((message.last, LAST)))
        return Heard(events, (max(read.end, place[0]), LAST))

    def _of_all(self, wish: Wish, place: Place) -> Heard:
        assert wish.mine is not None
        page = self._pages.of_all(wish.mine, after=place, limit=PAGE, prefix=wish.prefix)
        made = [message_of([match]) for match in page.matches]
        events = _events(made, lambda message: self.id_of((message.position, message.number)))
        if page.more and len(made) == PAGE:
            return Heard(events, (made[-1].last, made[-1].number))
        return Heard(events, max(place, (page.end, LAST)))


def event(name: str, data: bytes, id: str = "") -> bytes:
    """Return an event as it is sent; its data is one line."""
    head = f"id: {id}\nevent: {name}\ndata: " if id else f"event: {name}\ndata: "
    return head.encode() + data + b"\n\n"


def _events(messages: Iterable[Message], id_of: Callable[[Message], str]) -> tuple[bytes, ...]:
    return tuple(event("match", message.json(), id_of(message)) for message in messages)
