"""Polling the feeds that are followed: from what is due to what is new in the spool.

A poll of a feed:

1. fetch it, with the validators of the last good answer;
2. parse it, and compare each item's content with what was seen before;
3. append the new and the changed items to the spool (durable when that returns);
4. record items, validators, the next poll and the last error in one transaction.

Steps 3 and 4 follow each other without a pause, so that the table of feeds
knows the spool up to a segment and nothing after it.  The items of a feed's
first good poll are history.

Polls run beside one another, but of each registrable domain one at a time; a
slow feed holds its place and its domain, and nobody else.  A server that asks
to be left alone (`Retry-After`) is, for all feeds of its domain.  Whatever goes
wrong with one feed is that feed's last error; a spool or a table that cannot
be written to ends the polling.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from feeds.addresses import Resolve, resolve
from feeds.documents import Document
from feeds.errors import FeedError
from feeds.fetch import DEFAULT, Failed, Fetched, Gone, NotModified, Outcome, Settings, fetch
from feeds.items import Item
from feeds.parse import ParsedFeed, parse_feed
from feeds.spool import Spool
from xscl import lifecycle
from xscl.engine import Engine
from xscl.feed import EVERY, EVERYTHING, Feed, Headers, lateness_of, public, shown
from xscl.followed import Feeds, ItemRow, item_hash, ticks

VERSIONS = 20
"""Of an item that changes more often than this, later versions are not passed on."""


@dataclass(frozen=True, slots=True)
class News:
    """What a feed's latest items are worth: documents for the spool, rows to remember."""

    documents: tuple[Document, ...]
    items: tuple[ItemRow, ...]


def news(feed: Feed, items: Sequence[Item], seen: Mapping[str, tuple[bytes, int]]) -> News:
    """Return what is new or changed among a feed's items, the oldest first.

    `seen` has the hash and the number of versions of the items known by
    identity.  Where a feed has several versions of an item, the last one
    counts as the latest.
    """
    known = dict(seen)
    rules: dict[str, str] = {}
    documents: list[Document] = []
    oldest_first = list(reversed(items))  # where times are equal: feeds begin with the newest
    oldest_first.sort(key=lambda item: item.timestamp)
    for item in oldest_first:
        digest = item_hash(item.canonical)
        before, versions = known.get(item.identity, (b"", 0))
        if digest == before or versions >= VERSIONS:
            continue
        known[item.identity] = (digest, versions + 1)
        rules[item.identity] = item.rule
        documents.append(_document(feed, item))
    changed = (
        (name, *row, rules.get(name, "")) for name, row in known.items() if seen.get(name) != row
    )
    return News(tuple(documents), tuple(changed))


def _document(feed: Feed, item: Item) -> Document:
    return Document(
        stream=feed.streams,
        id=f"{feed.key}#{item.identity}",
        timestamp=item.timestamp,
        xml=item.canonical,
        history=not feed.polls,
        origin=feed.key,
    )


# -- Streams -------------------------------------------------------------------------------


def follow(
    engine: Engine,
    feeds: Feeds,
    url: str,
    *,
    stream: str | None = None,
    tags: Sequence[str] = (),
    every: int = EVERY,
    headers: Headers = (),
) -> tuple[Feed, list[str]]:
    """Follow a feed; return it, and those of its streams whose lateness could not be raised.

    An item may come as late as two polls take, one hour at least.  That has
    to be known before a stream is subscribed to.
    """
    feed = feeds.add(url, stream=stream, tags=tags, every=every, headers=headers)
    return feed, [name for name, raised in allow_late(engine, [feed]) if not raised]


def prepare(engine: Engine) -> None:
    """Give the stream of all items its lateness before the first subscription reads it."""
    _raise(engine, {EVERYTHING: lateness_of(EVERY)})


def allow_late(engine: Engine, feeds: Sequence[Feed]) -> Iterator[tuple[str, bool]]:
    """Raise the lateness of the feeds' streams as they need; yield each, and whether it could be.

    A stream's lateness is fixed as soon as a subscription reads it.
    """
    needed: dict[str, int] = {}
    for feed in feeds:
        for name in feed.streams:
            needed[name] = max(feed.lateness, needed.get(name, 0))
    yield from _raising(engine, needed)


def _raise(engine: Engine, needed: Mapping[str, int]) -> None:
    for _ in _raising(engine, needed):
        continue


def _raising(engine: Engine, needed: Mapping[str, int]) -> Iterator[tuple[str, bool]]:
    rows = engine.sql("SELECT name, lateness, live FROM state.stream").to_pylist()
    known = {row["name"]: (row["lateness"], row["live"]) for row in rows}
    read = {name for subscription in engine.subscriptions for name in subscription.reads}
    for name, ticks_needed in needed.items():
        lateness, live = known.get(name, (0, False))
        if lateness < ticks_needed and name not in read:
            engine.stream(name, lateness=ticks_needed, live=live)
        yield name, lateness >= ticks_needed or name not in read


# -- Polling -------------------------------------------------------------------------------

AT_ONCE = 64
"""Domains that are asked at the same time; one domain is asked one thing at a time."""

_LOOK = 0.2  # seconds between two looks at what is due


@dataclass(frozen=True, slots=True)
class Fetching:
    """How to fetch: which private addresses are allowed, as host:port.

    `quick` polls every feed exactly as often as its `every` says, whatever the
    feed wishes: for the demonstration and for tests.  `clock` tells the time in
    ticks.
    """

    allow_addresses: tuple[str, ...] = ()
    quick: bool = False
    seconds: float = DEFAULT.seconds
    largest: int = DEFAULT.largest
    resolve: Resolve = resolve
    clock: Callable[[], int] = ticks

    @property
    def settings(self) -> Settings:
        return Settings(self.seconds, self.largest, frozenset(self.allow_addresses), self.resolve)


@dataclass(frozen=True, slots=True)
class Polled:
    """What became of a poll: the feed as it is now, and how many items were new or changed.

    `held_until` is set if the server wants to be left alone until then, `asked`
    is false if for that reason it was.
    """

    feed: Feed
    new: int = 0
    held_until: int | None = None
    asked: bool = True


def poll_now(
    feeds: Feeds, spool: Spool, chosen: Sequence[Feed], fetching: Fetching
) -> list[Polled]:
    """Poll some feeds, and return what became of each."""
    return asyncio.run(_poll_all(feeds, spool, chosen, fetching))


def keep_polling(feeds: Feeds, spool: Spool, fetching: Fetching, stopping: threading.Event) -> None:
    """Poll the feeds that are due, again and again, until the event is set."""
    asyncio.run(_keep_polling(feeds, spool, fetching, stopping))


async def _keep_polling(
    feeds: Feeds, spool: Spool, fetching: Fetching, stopping: threading.Event
) -> None:
    """Fill free places with feeds that are due, at every look."""
    flying: set[asyncio.Task[Polled]] = set()
    busy: set[str] = set()
    try:
        while not stopping.is_set():
            free = AT_ONCE - len(flying)
            for feed in feeds.next_due(fetching.clock(), busy, free) if free else ():
                busy.add(feed.domain)
                flying.add(asyncio.create_task(_poll(feeds, spool, feed, fetching, busy)))
            for task in await _ended(flying):
                flying.discard(task)
                task.result()
    finally:
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)


async def _ended(flying: Set[asyncio.Task[Polled]]) -> set[asyncio.Task[Polled]]:
    """The polls that have ended, after a look's time, or when all have.

    To look whenever one has ended would cost more than the polls if many are due.
    """
    if not flying:
        await asyncio.sleep(_LOOK)
        return set()
    done, _ = await asyncio.wait(flying, timeout=_LOOK)
    return done


async def _poll_all(
    feeds: Feeds, spool: Spool, chosen: Sequence[Feed], fetching: Fetching
) -> list[Polled]:
    """Poll feeds: domains beside one another, the feeds of a domain one after the other."""
    domains: dict[str, list[Feed]] = {}
    for feed in chosen:
        domains.setdefault(feed.domain, []).append(feed)
    places = asyncio.Semaphore(AT_ONCE)
    busy: set[str] = set()

    async def poll_domain(group: Sequence[Feed]) -> list[Polled]:
        async with places:
            return await _poll_in_turn(feeds, spool, group, fetching, busy)

    done = await asyncio.gather(*(poll_domain(group) for group in domains.values()))
    return [polled for group in done for polled in group]


async def _poll_in_turn(
    feeds: Feeds, spool: Spool, group: Sequence[Feed], fetching: Fetching, busy: set[str]
) -> list[Polled]:
    """Poll the feeds of a domain; none after its server has asked to be left alone."""
    done: list[Polled] = []
    held: int | None = None
    for feed in group:
        if held is not None:
            done.append(Polled(feeds[feed.key], held_until=held, asked=False))
            continue
        busy.add(feed.domain)
        polled = await _poll(feeds, spool, feed, fetching, busy)
        held = polled.held_until
        done.append(polled)
    return done


async def _poll(
    feeds: Feeds, spool: Spool, feed: Feed, fetching: Fetching, busy: set[str]
) -> Polled:
    """Poll a feed, take its news to the spool, and record what became of it.

    `busy` holds the domains that are being asked, the feed's among them, which
    is free afterwards.
    """
    now, domain = fetching.clock(), feed.domain
    try:
        outcome, parsed = await _asked(feed, now, fetching)
        if isinstance(outcome, Failed):
            feed, outcome, parsed = await _searched(feeds, feed, outcome, now, fetching, busy)
    finally:
        busy.discard(domain)
    match outcome:
        case Fetched() | NotModified():
            after = lifecycle.answered(feed, outcome, parsed, now, fetching.quick)
            return _take(feeds, spool, _settled(feeds, after), feed, parsed, now)
        case Gone():
            return _record(feeds, lifecycle.gone(feed, now))
        case Failed():
            return _after_failure(feeds, feed, outcome, now, fetching)


async def _searched(
    feeds: Feeds, feed: Feed, failure: Failed, now: int, fetching: Fetching, busy: set[str]
) -> tuple[Feed, Outcome, ParsedFeed | None]:
    """The feed at the first of the addresses announced in its place that is a feed."""
    for there in lifecycle.announced(feed, failure):
        elsewhere = there.domain != feed.domain
        if feeds.is_followed(there.url, besides=feed) or (elsewhere and there.domain in busy):
            continue
        busy.add(there.domain)
        try:
            outcome, parsed = await _asked(there, now, fetching)
        finally:
            if elsewhere:
                busy.discard(there.domain)
        if parsed is not None:
            return there, outcome, parsed
    return feed, failure, None


async def _asked(feed: Feed, now: int, fetching: Fetching) -> tuple[Outcome, ParsedFeed | None]:
    """What a request brought, and the feed in it; whatever goes wrong is a failure of the feed."""
    try:
        outcome = await fetch(feed.request, now=now, settings=fetching.settings)
        if isinstance(outcome, Fetched):
            loop = asyncio.get_running_loop()
            return outcome, await loop.run_in_executor(_readers(), _parse, outcome, now)
        return outcome, None
    except FeedError as error:
        return Failed(error.reason_code, f"the feed cannot be read: {error}"), None
    except Exception as error:  # one feed must not stop the others, whatever it does to a library
        return Failed("feed_internal", f"reading the feed failed: {type(error).__name__}"), None


@functools.cache
def _readers() -> ThreadPoolExecutor:
    """Two threads: the tree of a large feed takes ten times its bytes, and there may be many."""
    return ThreadPoolExecutor(2, "read")


def _parse(fetched: Fetched, now: int) -> ParsedFeed:
    """Return what was fetched; items are not told an address that may be a secret."""
    return parse_feed(
        fetched.body, url=public(fetched.url), content_type=fetched.content_type, seen_at=now
    )


def _take(
    feeds: Feeds, spool: Spool, after: Feed, before: Feed, parsed: ParsedFeed | None, now: int
) -> Polled:
    """Append what is new to the spool and record the poll, without a pause in between."""
    if parsed is None:
        return _record(feeds, after)
    found = news(before, parsed.items, feeds.items(before))
    segment = spool.append(found.documents, now)
    feeds.record(after, found.items, segment)
    return Polled(after, len(found.documents))


def _settled(feeds: Feeds, feed: Feed) -> Feed:
    """Return the feed at the address to which it has moved, unless another feed is there."""
    moved = lifecycle.settled(feed)
    if moved is feed or not feeds.is_followed(moved.url, besides=feed):
        return moved
    return replace(feed, note=f"it has moved to {shown(moved.url)}, which is followed already")


def _after_failure(
    feeds: Feeds, feed: Feed, failure: Failed, now: int, fetching: Fetching
) -> Polled:
    after = lifecycle.failed(feed, failure, now, fetching.quick)
    feeds.record(after)
    held = None if fetching.quick else lifecycle.held_until(failure, now)
    if held is not None:
        feeds.hold(feed.domain, held)
    return Polled(after, held_until=held)


def _record(feeds: Feeds, feed: Feed) -> Polled:
    feeds.record(feed)
    return Polled(feed)
