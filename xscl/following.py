"""Polling the feeds that are followed: from what is due to what is new in the spool.

A poll of a feed:

1. fetch it, with the validators of the last good answer;
2. parse it, and compare each item's content with what was seen before;
3. append the new and the changed items to the spool (durable when that returns);
4. record items, validators, the next poll and the last error in one transaction.

Steps 3 and 4 follow each other without a pause, so that the table of feeds
knows the spool up to a segment and nothing after it.  The items of a feed's
first good poll are history.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from feeds.documents import Document
from feeds.errors import FeedError
from feeds.fetch import (
    Cache,
    Failed,
    FeedState,
    Fetched,
    Gone,
    NotModified,
    Settings,
    fetch,
)
from feeds.items import Item
from feeds.parse import ParsedFeed, parse_feed
from feeds.schedule import Policy, Wishes, next_poll
from feeds.spool import Spool
from xscl.engine import Engine
from xscl.followed import EVERY, EVERYTHING, Feed, Feeds, ItemRow, item_hash, lateness_of, ticks

VERSIONS = 20
"""Of an item that changes more often than this, later versions are not passed on."""


@dataclass(frozen=True, slots=True)
class News:
    """What a feed's latest items are worth: documents for the spool, rows to remember."""

    documents: tuple[Document, ...]
    items: tuple[ItemRow, ...]


def news(feed: Feed, items: Sequence[Item], seen: dict[str, tuple[bytes, int]]) -> News:
    """Return what is new or changed among a feed's items, the oldest first.

    `seen` has the hash and the number of versions of the items known by
    identity.  Where a feed has several versions of an item, the last one
    counts as the latest.
    """
    known = dict(seen)
    documents: list[Document] = []
    oldest_first = list(reversed(items))  # where times are equal: feeds begin with the newest
    oldest_first.sort(key=lambda item: item.timestamp)
    for item in oldest_first:
        digest = item_hash(item.canonical)
        before, versions = known.get(item.identity, (b"", 0))
        if digest == before or versions >= VERSIONS:
            continue
        known[item.identity] = (digest, versions + 1)
        documents.append(_document(feed, item))
    changed = ((name, *row) for name, row in known.items() if seen.get(name) != row)
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
) -> tuple[Feed, list[str]]:
    """Follow a feed; return it, and those of its streams whose lateness could not be raised.

    An item may come as late as two polls take, one hour at least.  That has
    to be known before a stream is subscribed to.
    """
    feed = feeds.add(url, stream=stream, tags=tags, every=every)
    return feed, [name for name in feed.streams if not _allow_late(engine, name, feed.lateness)]


def prepare(engine: Engine) -> None:
    """Give the stream of all items its lateness before the first subscription reads it."""
    _allow_late(engine, EVERYTHING, lateness_of(EVERY))


def _allow_late(engine: Engine, stream: str, ticks: int) -> bool:
    """Raise the lateness of a stream to some ticks; False if subscriptions forbid it."""
    rows = engine.sql("SELECT name, lateness, live FROM state.stream").to_pylist()
    known = {row["name"]: row for row in rows}.get(stream, {"lateness": 0, "live": False})
    if known["lateness"] >= ticks:
        return True
    if any(stream in subscription.reads for subscription in engine.subscriptions):
        return False
    engine.stream(stream, lateness=ticks, live=known["live"])
    return True


# -- Polling -------------------------------------------------------------------------------

AT_ONCE = 16
"""Hosts that are asked at the same time; one host is asked one thing at a time."""

_LOOK = 0.2  # seconds between two looks at what is due


@dataclass(frozen=True, slots=True)
class Fetching:
    """How to fetch: which private addresses are allowed, as host:port.

    `quick` polls every feed exactly as often as its `every` says, whatever the
    feed wishes: for the demonstration and for tests.
    """

    allow_addresses: tuple[str, ...] = ()
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Polled:
    """What became of a poll: the feed as it is now, and how many items were new or changed."""

    feed: Feed
    new: int = 0


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
    while not stopping.is_set():
        round_ = asyncio.create_task(_poll_all(feeds, spool, feeds.due(ticks()), fetching))
        while not round_.done() and not stopping.is_set():
            await asyncio.wait({round_}, timeout=_LOOK)
        round_.cancel()
        await asyncio.gather(round_, return_exceptions=stopping.is_set())
        await asyncio.sleep(_LOOK)


async def _poll_all(
    feeds: Feeds, spool: Spool, chosen: Sequence[Feed], fetching: Fetching
) -> list[Polled]:
    """Poll feeds: hosts beside one another, the feeds of a host one after the other."""
    hosts: dict[str, list[Feed]] = {}
    for feed in chosen:
        hosts.setdefault(feed.host, []).append(feed)
    places = asyncio.Semaphore(AT_ONCE)

    async def poll_host(group: Sequence[Feed]) -> list[Polled]:
        async with places:
            return [await _poll(feeds, spool, feed, fetching) for feed in group]

    done = await asyncio.gather(*(poll_host(group) for group in hosts.values()))
    return [polled for group in done for polled in group]


async def _poll(feeds: Feeds, spool: Spool, feed: Feed, fetching: Fetching) -> Polled:
    """Poll a feed, take its news to the spool, and record what became of it."""
    now = ticks()
    settings = Settings(allow_addresses=frozenset(fetching.allow_addresses))
    outcome = await fetch(feed.request, now=now, settings=settings)
    feed = replace(feed, polled=now)
    match outcome:
        case Fetched():
            try:
                parsed = await asyncio.to_thread(_parse, feed, outcome, now)
            except FeedError as error:
                failed = Failed(error.reason_code, f"the feed cannot be read: {error}")
                return _record(feeds, _after_failure(feed, failed, fetching))
            answered = _answered(feed, outcome.state, outcome.cache, parsed, fetching)
            found = news(feed, parsed.items, feeds.items(feed))
            segment = spool.append(found.documents, now)
            feeds.record(answered, found.items, segment)
            return Polled(answered, len(found.documents))
        case NotModified():
            return _record(feeds, _answered(feed, outcome.state, outcome.cache, None, fetching))
        case Gone():
            return _record(feeds, replace(feed, gone=True, error="the server says that it is gone"))
        case Failed():
            return _record(feeds, _after_failure(feed, outcome, fetching))


def _record(feeds: Feeds, feed: Feed) -> Polled:
    feeds.record(feed)
    return Polled(feed)


def _parse(feed: Feed, fetched: Fetched, now: int) -> ParsedFeed:
    """Return what was fetched; items are not told an address that may be a secret."""
    return parse_feed(
        fetched.body, url=feed.public_url, content_type=fetched.content_type, seen_at=now
    )


def _answered(
    feed: Feed, state: FeedState, cache: Cache, parsed: ParsedFeed | None, fetching: Fetching
) -> Feed:
    """Return a feed after a good answer; `parsed` is None if nothing has changed."""
    feed = replace(
        feed,
        etag=state.etag,
        last_modified=state.last_modified,
        validated_by=state.validated_by,
        unchanged=state.unchanged,
        polls=feed.polls + 1,
        failures=0,
        error=None,
    )
    if parsed is not None:
        feed = replace(
            feed,
            title=parsed.title,
            ttl=parsed.ttl,
            skip_hours=" ".join(map(str, sorted(parsed.skip_hours))),
            skip_days=" ".join(sorted(parsed.skip_days)),
        )
    return _scheduled(feed, fetching, max_age=cache.max_age, expires=cache.expires)


def _after_failure(feed: Feed, failed: Failed, fetching: Fetching) -> Feed:
    hint = f"; the page names {failed.discovered[0]}" if failed.discovered else ""
    feed = replace(feed, failures=feed.failures + 1, error=f"{failed.message}{hint}")
    return _scheduled(feed, fetching, retry_after=failed.retry_after)


def _scheduled(
    feed: Feed,
    fetching: Fetching,
    *,
    max_age: int | None = None,
    expires: int | None = None,
    retry_after: int | None = None,
) -> Feed:
    """Return a feed with the time of its next poll."""
    wishes = Wishes(
        ttl=feed.ttl,
        max_age=max_age,
        expires=expires,
        retry_after=retry_after,
        errors=feed.failures,
        skip_hours=frozenset() if fetching.quick else frozenset(map(int, feed.skip_hours.split())),
        skip_days=frozenset() if fetching.quick else frozenset(feed.skip_days.split()),
    )
    policy = Policy(base=feed.every, floor=min(feed.every, Policy().floor))
    if fetching.quick:
        policy = Policy(base=feed.every, floor=feed.every, cap=feed.every, jitter=0.0)
    now = feed.added if feed.polled is None else feed.polled
    return replace(feed, next_poll=next_poll(feed.url, now, wishes, policy))
