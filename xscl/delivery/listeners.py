"""Pages of matches for live listeners, each of which has a cursor of its own.

A notification carries no matches.  A notified listener reads from the store after its cursor.
Listeners with the same query and cursor share a cached page, which is rendered once.  The cache is
bounded, and the only state of a listener is its cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

from xscl.delivery.message import Message, message_of
from xscl.delivery.message_reader import following
from xscl.delivery.store_epochs import StoreEpochs
from xscl.documents.results import Subscription
from xscl.engine.match_log import LAST, MatchLog, MatchPlace, PositionRange

PAGE = 100
"""Maximum number of matches in a page."""
FRESH = 256
"""Maximum number of cached pages."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Encoded events after a cursor, and the cursor to continue from."""

    events: tuple[bytes, ...]
    place: MatchPlace


@dataclass(frozen=True, slots=True)
class ListenerQuery:
    """The query of a listener: matches of one subscription, or of all that satisfy `mine`.

    The names of the latter begin with `prefix`.  Equal queries have equal keys.
    """

    key: tuple[object, ...]
    one: Subscription | None = field(default=None, compare=False)
    mine: Callable[[Subscription], bool] = field(default=lambda _: False, compare=False)
    prefix: str = field(default="", compare=False)
    grouped: bool = field(default=True, compare=False)


class ListenerReader:
    """Reads pages for listeners, one at a time, in a thread of its own."""

    def __init__(self, pages: MatchLog, generations: StoreEpochs) -> None:
        self._pages = pages
        self.generations = generations
        self._reading = ThreadPoolExecutor(1, "live-reading")
        self._read = lru_cache(FRESH)(self._read_page)
        self.position = pages.position()
        """The newest known position."""

    def advance(self, position: int) -> None:
        """Record that there are results up to a position."""
        self.position = max(self.position, position)

    def id_of(self, place: MatchPlace) -> str:
        """Return the event id that encodes a cursor."""
        position, number = place
        within = "" if number == LAST else f"-{number}"
        return f"{self.generations.prefix}{position}{within}"

    def place_of(self, generation: int, place: MatchPlace) -> MatchPlace:
        """Translate a cursor of some store generation so that no match is missed.

        Positions that the current generation does not share become the last shared one, or 0 if
        none is known.
        """
        agreed = self.generations.agreed(generation, place[0])
        return place if agreed == place[0] else (agreed, LAST)

    async def span(self) -> PositionRange:
        """Return the range of positions that the store keeps now."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._pages.span)

    def close(self) -> None:
        """Stop after the page that is being read."""
        self._reading.shutdown(cancel_futures=True)

    async def after(self, query: ListenerQuery, place: MatchPlace) -> EventPage:
        """Return the events after a cursor, possibly none.  Raises UnknownSubscription."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading, self._read, query, place, self.position)

    def _read_page(self, query: ListenerQuery, place: MatchPlace, position: int) -> EventPage:
        """Return the page after a cursor; a new `position` replaces a page in the cache."""
        return self._of_one(query, query.one, place) if query.one else self._of_all(query, place)

    def _of_one(self, query: ListenerQuery, one: Subscription, place: MatchPlace) -> EventPage:
        read = following(self._pages, one.name, place[0], grouped=query.grouped, limit=PAGE)
        events = _events(read.messages, lambda message: self.id_of((message.last, LAST)))
        return EventPage(events, (max(read.end, place[0]), LAST))

    def _of_all(self, query: ListenerQuery, place: MatchPlace) -> EventPage:
        page = self._pages.page_of_all(query.mine, after=place, limit=PAGE, prefix=query.prefix)
        made = [message_of([match]) for match in page.matches]
        events = _events(made, lambda message: self.id_of((message.position, message.number)))
        return EventPage(events, max(place, page.place))


def event(name: str, data: bytes, id: str = "") -> bytes:
    """Encode a server-sent event; its data must be one line."""
    head = f"id: {id}\nevent: {name}\ndata: " if id else f"event: {name}\ndata: "
    return head.encode() + data + b"\n\n"


def _events(messages: Iterable[Message], id_of: Callable[[Message], str]) -> tuple[bytes, ...]:
    live = (message for message in messages if not message.backfilled)
    return tuple(event("match", message.json(), id_of(message)) for message in live)
