"""Polling of followed feeds: from due feeds to new items in the spool.

A round of polls:

1. fetch each feed, with the validators of its last good answer, and parse it;
2. compare the content of the items with what was seen before (`xscl.polling.new_items`);
3. append the new and the changed items of all these feeds to the spool, by time (durable when that
   returns);
4. record items, validators, the next polls and the last errors in one transaction.

Steps 3 and 4 follow each other without a pause, so that the table of feeds knows the spool up to a
segment and nothing after it.  A round has the answers of one interval; when feeds are polled once,
it has all answers, up to bounds of number and bytes.  The items of a feed's first good poll are
history.

Polls run concurrently, but each registrable domain gets one request at a time, for its own feeds
and for those that are redirected to it (`DomainLimiter`).  A slow feed holds its slot
and its domain, and blocks no other.  `Retry-After` of a server applies to all feeds of its domain,
and to those redirected there while the process runs.  A failure of one feed is that feed's last
error; a spool or a table that cannot be written to ends the polling.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from feeds.documents import Document
from feeds.errors import FeedError
from feeds.faultpoints import reached
from feeds.formats.parse import ParsedFeed, parse_feed
from feeds.http.connection import DomainBlocked, RequestSettings
from feeds.http.fetch import (
    Deferred,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Outcome,
    fetch,
)
from feeds.spool import Spool
from xscl.limiter import KeyedLimiter
from xscl.polling import lifecycle
from xscl.polling.feed import Feed, FeedsError, public, shown
from xscl.polling.feed_repository import (
    DEFERRED,
    LONGEST,
    OK,
    UNCHANGED,
    FeedRepository,
    PollRecord,
    ticks,
)
from xscl.polling.hubs import HubCallbacks, Hubs, unlease
from xscl.polling.new_items import by_time, new_items, parts
from xscl.time_format import SECOND

LONGEST_WAIT = 60
"""Seconds to wait for a domain's slot."""

AFTERWARDS = 600
"""Seconds after which a request that waited in vain is tried again."""


class DomainLimiter:
    """The slots of all domains; `clock` returns the time in ticks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._slots = KeyedLimiter[str]()
        self._blocked: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return self._slots.waiting

    @asynccontextmanager
    async def hold(self, domain: str) -> AsyncIterator[None]:
        """Hold a domain's slot; raises `DomainBlocked` if it is blocked, or busy for too long."""
        self._expect_open(domain)
        async with self._slots.hold_async(domain, 1, DomainBlocked(AFTERWARDS), LONGEST_WAIT):
            self._expect_open(domain)
            yield

    def block(self, domain: str, until: int) -> None:
        """Refuse requests to a domain before a time in ticks."""
        self._blocked[domain] = max(until, self._blocked.get(domain, until))

    def blocked_until(self, domain: str) -> int | None:
        """Return the time in ticks until which a domain is blocked; None if it is not."""
        until = self._blocked.get(domain)
        if until is not None and until <= self._clock():
            del self._blocked[domain]
            return None
        return until

    def _expect_open(self, domain: str) -> None:
        until = self.blocked_until(domain)
        if until is not None:
            raise DomainBlocked(-(-(until - self._clock()) // SECOND))


AT_ONCE = 64
"""Most domains with a request at the same time; each has one request at a time."""

WAITING = 64
"""Feeds that may wait for a domain's slot, in addition to `AT_ONCE`."""

ROUND = 64_000_000
"""Bytes of answers after which `poll_now` records them, before all polls have ended."""

ANSWERS = 500
"""Number of answers after which it records them: what servers said must outlive a kill."""

_LOOK = 0.2  # seconds between two looks at what is due


@dataclass(frozen=True, slots=True)
class PollSettings(RequestSettings):
    """Settings of polls.

    `quick` polls every feed exactly at its interval `every`, whatever the feed
    requests: for the demonstration and for tests.  `clock` returns the time in ticks; a
    service has its own (`xscl.polling.arrival_clock`) unless one is given.  While
    `is_paused` returns True, no feed is polled.
    """

    quick: bool = False
    clock: Callable[[], int] | None = None
    is_paused: Callable[[], bool] = bool

    def now(self) -> int:
        """Return the time, in ticks."""
        return ticks() if self.clock is None else self.clock()


@dataclass(frozen=True, slots=True)
class PolledFeed:
    """A poll at a time in ticks: the feed before and after it; `new` counts new or changed items.

    `parsed` is dropped when the items are stored.  `holds` is the domain with a `Retry-After` until
    `held_until`; if it is empty, only the feed itself is deferred until then.  `size` are the bytes
    of the body, `seconds` the time until it was read.
    """

    before: Feed
    feed: Feed
    at: int
    parsed: ParsedFeed | None = None
    held_until: int | None = None
    holds: str = ""
    size: int = 0
    seconds: float = 0.0
    new: int = 0

    @property
    def asked(self) -> bool:
        """False if the feed was skipped because a server has asked for a pause."""
        return self.held_until is None or bool(self.holds)


def try_first(feeds: FeedRepository, feed: Feed, fetching: PollSettings) -> str | None:
    """Request an added feed where no service polls; if the feed fails, remove it.

    Raises FeedsError then.  Return the text of an error of which the feed is not the cause.
    """
    answer = asyncio.run(_Requests(feeds, fetching).ask(feed))
    try:
        lifecycle.refuse_failed(answer.feed)
    except FeedsError:
        feeds.remove(feed)
        raise
    return answer.feed.error


def poll_now(
    feeds: FeedRepository, spool: Spool, chosen: Sequence[Feed], fetching: PollSettings
) -> list[PolledFeed]:
    """Poll some feeds, and return the outcome of each.

    It has a limiter of its own, so the caller must hold the data directory (`DataDirectory.hold`)
    and poll nothing else.
    """
    return asyncio.run(_poll_all(feeds, spool, chosen, fetching))


async def keep_polling(
    feeds: FeedRepository,
    spool: Spool,
    fetching: PollSettings,
    stopping: threading.Event,
    callbacks: HubCallbacks | None = None,
) -> None:
    """Poll due feeds until the event is set, and ask hubs to send what is new.

    Free slots are filled at every interval, and the answers are processed.  What blocks runs in
    threads, one after the other.
    """
    asking = _Requests(feeds, fetching)
    hubs = None
    if callbacks is None:
        await asyncio.to_thread(lambda: unlease(feeds, feeds.leases()))
    else:
        hubs = await asyncio.to_thread(Hubs, feeds, callbacks, asking.settings, fetching.now)
    flying: dict[asyncio.Task[PolledFeed], str] = {}  # with their domains
    try:
        while not stopping.is_set():
            if hubs is not None and not fetching.is_paused():
                await hubs.ask_due()
            beside = min(asking.domains.waiting, WAITING)
            free = 0 if fetching.is_paused() else AT_ONCE + beside - len(flying)
            if free > 0:
                now, busy = fetching.now(), frozenset(flying.values())
                for feed in await asyncio.to_thread(feeds.next_due, now, busy, free):
                    flying[asyncio.create_task(asking.ask(feed))] = feed.domain
            if not flying:
                await asyncio.sleep(_LOOK)
                continue
            # Waking for each poll that ends would cost more than the polls if many are due.
            ended, _ = await asyncio.wait(flying, timeout=_LOOK)
            if ended:
                answers = [task.result() for task in ended]
                await asyncio.to_thread(_flush, feeds, spool, answers, fetching.now())
                # A domain is busy until then: a feed is due as long as its poll is not recorded.
                flying = {task: domain for task, domain in flying.items() if task not in ended}
                asking.release(answers)
    finally:
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        if hubs is not None:
            await hubs.close()


async def _poll_all(
    feeds: FeedRepository, spool: Spool, chosen: Sequence[Feed], fetching: PollSettings
) -> list[PolledFeed]:
    """Poll feeds: domains concurrently, the feeds of a domain one after the other."""
    domains: dict[str, list[Feed]] = {}
    for feed in {feed.key: feed for feed in chosen}.values():  # each once, however it was named
        domains.setdefault(feed.domain, []).append(feed)
    places = asyncio.Semaphore(AT_ONCE)
    asking = _Requests(feeds, fetching)
    answers: list[PolledFeed] = []
    done: dict[str, PolledFeed] = {}

    def flush() -> None:
        done.update((one.feed.key, one) for one in _flush(feeds, spool, answers, fetching.now()))
        answers.clear()

    async def poll_domain(group: Sequence[Feed]) -> None:
        """Poll the feeds of a domain; none after a `Retry-After` of its server."""
        async with places:
            for feed in group:
                until = asking.domains.blocked_until(feed.domain)
                if until is not None:
                    done[feed.key] = PolledFeed(feed, feed, fetching.now(), held_until=until)
                    continue
                answers.append(await asking.ask(feed))
                if sum(answer.size for answer in answers) > ROUND or len(answers) >= ANSWERS:
                    flush()

    await asyncio.gather(*(poll_domain(group) for group in domains.values()))
    flush()
    return [done[feed.key] for group in domains.values() for feed in group]


# -- Asking --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Requests:
    """The requests of polls; `claimed` are found addresses of feeds that the table lacks yet."""

    feeds: FeedRepository
    fetching: PollSettings
    claimed: set[str] = field(default_factory=set)
    domains: DomainLimiter = field(init=False)
    settings: RequestSettings = field(init=False)

    def __post_init__(self) -> None:
        self.domains = DomainLimiter(self.fetching.now)
        self.settings = replace(self.fetching, turn=self.domains.hold)

    async def ask(self, feed: Feed) -> PolledFeed:
        """Request a feed; return the poll with its duration, nothing of which is stored yet."""
        begun = time.monotonic()
        answer = await self._answer(feed)
        after = answer.feed
        if self.fetching.quick:
            after = replace(after, next_poll=answer.at + after.every * SECOND)
        return replace(answer, feed=after, seconds=time.monotonic() - begun)

    async def _answer(self, feed: Feed) -> PolledFeed:
        now, domain = self.fetching.now(), feed.domain
        outcome, parsed = await self._asked(feed, now)
        if isinstance(outcome, Failed):
            feed, outcome, parsed = await self._searched(feed, outcome, now)
        match outcome:
            case Fetched() | NotModified():
                size = len(outcome.body) if isinstance(outcome, Fetched) else 0
                after = lifecycle.answered(feed, outcome, parsed, now)
                return PolledFeed(feed, after, now, parsed, size=size)
            case Gone():
                return PolledFeed(feed, lifecycle.gone(feed, now), now)
            case Deferred(seconds):
                after = lifecycle.put_off(feed, seconds, now)
                return PolledFeed(feed, after, now, held_until=after.next_poll)
            case Failed():
                fail = lifecycle.refused if lifecycle.is_ours(feed, outcome) else lifecycle.failed
                held = None if self.fetching.quick else lifecycle.held_until(outcome, now)
                holds = outcome.domain or domain
                if held is not None:
                    self.domains.block(holds, held)
                after = fail(feed, outcome, now)
                return PolledFeed(feed, after, now, held_until=held, holds=holds)

    def release(self, answers: Iterable[PolledFeed]) -> None:
        """Drop the claimed addresses of recorded answers: the table has them."""
        self.claimed.difference_update(answer.before.url for answer in answers)

    async def _searched(
        self, feed: Feed, failure: Failed, now: int
    ) -> tuple[Feed, Outcome, ParsedFeed | None]:
        """Return the feed at the first announced address that has one, or the failure."""
        for there in lifecycle.announced(feed, failure):
            if self.feeds.is_followed(there.url, besides=feed) or there.url in self.claimed:
                continue
            self.claimed.add(there.url)
            outcome, parsed = await self._asked(there, now)
            if parsed is not None:
                return there, outcome, parsed
            self.claimed.discard(there.url)
        return feed, failure, None

    async def _asked(self, feed: Feed, now: int) -> tuple[Outcome, ParsedFeed | None]:
        """Return the outcome of a request and the parsed feed, if any; errors are outcomes, too."""
        if (lost := lifecycle.secret_lost(feed)) is not None:
            return lost, None
        try:
            outcome = await fetch(feed, now=now, settings=self.settings)
            if not isinstance(outcome, Fetched):
                return outcome, None
            loop = asyncio.get_running_loop()
            return outcome, await loop.run_in_executor(_readers(), _parse, outcome, now)
        except FeedError as error:
            return Failed(error.reason_code, f"the feed cannot be read: {error}"), None
        except Exception as error:  # one feed must not stop the others, whatever it does
            return Failed("feed_internal", f"reading the feed failed: {type(error).__name__}"), None


@functools.cache
def _readers() -> ThreadPoolExecutor:
    """Return two threads for parsing; a tree takes ten times the bytes of its feed."""
    return ThreadPoolExecutor(2, "read")


def _parse(fetched: Fetched, now: int) -> ParsedFeed:
    """Return the parsed answer; items contain no address that may be a secret."""
    return parse_feed(
        fetched.body, url=public(fetched.url), content_type=fetched.content_type, seen_at=now
    )


# -- Taking --------------------------------------------------------------------------------


def _flush(
    feeds: FeedRepository, spool: Spool, answers: Sequence[PolledFeed], now: int
) -> list[PolledFeed]:
    """Append the new items to the spool and record the polls; return these without `parsed`."""
    if not answers:
        return []
    answers = sorted(answers, key=lambda answer: answer.feed.key)
    read = {one.feed.key: (one, one.parsed) for one in answers if one.parsed is not None}
    seen = feeds.items_of(read)
    found = [
        new_items(one.before, parsed.items, seen[key], one.at)
        for key, (one, parsed) in read.items()
    ]
    reached("fetched")
    segment = _append(feeds, spool, by_time(found), now)
    reached("spooled")
    new = {one.feed: len(one.documents) for one in found}
    after = _settled(feeds, [_with_last_item(answer) for answer in answers])
    done = [
        replace(answer, feed=feed, new=new.get(feed.key, 0))
        for answer, feed in zip(answers, after, strict=True)
    ]
    holds = {one.holds: one.held_until for one in done if one.holds and one.held_until is not None}
    polls = {one.feed.key: _recorded(one) for one in done}
    due = {one.feed.key: one.before.next_poll for one in done if one.asked}
    feeds.record(after, found, segment, holds, polls, due)
    return [replace(one, parsed=None) for one in done]


def _with_last_item(answer: PolledFeed) -> Feed:
    """Return the feed after a poll, with the time of the newest item that it has shown."""
    feed, parsed = answer.feed, answer.parsed
    times = () if parsed is None else (item.timestamp for item in parsed.items)
    last = max(times, default=feed.last_item or 0)
    return replace(feed, last_item=max(last, feed.last_item or 0) or None)


def _recorded(one: PolledFeed) -> PollRecord:
    """Return the entry of a poll in the history of its feed."""
    after = one.feed
    note = after.error
    if not one.asked:
        outcome = DEFERRED
    elif after.error is not None:
        outcome = after.code or "failed"
    else:
        outcome = UNCHANGED if one.parsed is None else OK
        there = after.url if after.url != one.before.url else after.moved_to
        note = None if there is None else f"moved to {shown(there)}"
    text = None if note is None else note[:LONGEST]
    return PollRecord(one.at, outcome, one.seconds, one.new, text)


def _append(
    feeds: FeedRepository, spool: Spool, documents: Sequence[Document], now: int
) -> int | None:
    """Append documents, and return the last segment, None without documents."""
    pieces = list(parts(documents))
    if len(pieces) > 1:
        feeds.announce(len(pieces))
    segments = [spool.append(piece, now) for piece in pieces]
    return segments[-1] if segments else None


def _settled(feeds: FeedRepository, after: Sequence[Feed]) -> list[Feed]:
    """Return feeds at their new addresses, unless another feed is there."""
    settled: list[Feed] = []
    taken: set[str] = set()
    for feed in after:
        moved = lifecycle.settled(feed)
        if moved is not feed and (moved.url in taken or feeds.is_followed(moved.url, besides=feed)):
            moved = replace(
                feed, note=f"it has moved to {shown(moved.url)}, which is followed already"
            )
        elif moved is not feed:
            taken.add(moved.url)
        settled.append(moved)
    return settled
