"""Thousands of feeds on one schedule: addresses invented or real, answers and time simulated."""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from feeds.formats.opml import FeedOutline, read_list
from feeds.http.fetch import Failed, NotModified
from tests.corpus import shared_folder
from tests.examples import usually
from xscl.engine.facade import Engine
from xscl.polling import lifecycle
from xscl.polling.feed import Feed
from xscl.polling.feed_list import import_outlines
from xscl.polling.feed_poller import AT_ONCE
from xscl.polling.feed_repository import FeedRepository

SECOND = 1_000_000
HOUR = 3_600 * SECOND
LATE = 1 << 60


INVENTED = tuple(
    FeedOutline(
        f"https://{'blogs' if number % 20 == 0 else f'site{number}'}.example/{number}/feed.xml"
    )
    for number in range(3_000)
)
"""Feeds of which every twentieth is at one domain, as at a large host of blogs."""


@pytest.fixture(scope="module", params=usually([0, 10, 1], 0))
def outlines(request: pytest.FixtureRequest) -> tuple[FeedOutline, ...]:
    """Invented feeds; every tenth of the real ones, or all."""
    if not request.param:
        return INVENTED
    return read_list((shared_folder("feed-urls") / "smallweb.txt").read_bytes())[:: request.param]


@pytest.fixture
def feeds(tmp_path: Path, outlines: tuple[FeedOutline, ...]) -> Iterator[FeedRepository]:
    with Engine(tmp_path / "state.db") as engine, FeedRepository(engine) as made:
        taken = import_outlines(made, outlines)
        assert Counter(line.outcome for line in taken.lines) == {"added": len(outlines)}
        yield made


def takes(feed: Feed) -> int:
    """The latency of its server: half a second to two, every tenth one until the deadline."""
    number = zlib.crc32(feed.domain.encode())
    return 30 * SECOND if number % 10 == 7 else (500 + number % 1_500) * 1_000


@dataclass
class Simulation:
    """Polls with the table's schedule, at most `AT_ONCE`, by a time of its own."""

    feeds: FeedRepository
    now: int
    flying: list[tuple[int, str, Feed]] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    polled: Counter[str] = field(default_factory=Counter)
    most: int = 0

    def run(self, until: int, look: int) -> None:
        while self.now < until:
            self._land()
            free = AT_ONCE - len(self.flying)
            for feed in self.feeds.next_due(self.now, self.busy, free) if free else ():
                assert feed.domain not in self.busy
                self.busy.add(feed.domain)
                heapq.heappush(self.flying, (self.now + takes(feed), feed.key, feed))
            self.most = max(self.most, len(self.flying))
            self.now += look

    def _land(self) -> None:
        while self.flying and self.flying[0][0] <= self.now:
            ended, _, feed = heapq.heappop(self.flying)
            self.busy.discard(feed.domain)
            self.polled[feed.key] += 1
            self.feeds.record([_after(feed, ended)])


def _after(feed: Feed, now: int) -> Feed:
    if takes(feed) == 30 * SECOND:
        return lifecycle.failed(feed, Failed("fetch_timeout", "too slow"), now)
    return lifecycle.answered(feed, NotModified(feed), None, now)


def test_places_are_filled_and_no_domain_is_asked_twice_at_once(feeds: FeedRepository) -> None:
    start = max(feed.next_poll for feed in feeds)
    simulation = Simulation(feeds, start)
    simulation.run(start + 30 * SECOND, look=SECOND)
    assert simulation.most == AT_ONCE
    assert max(simulation.polled.values()) == 1
    assert simulation.polled.total() >= 400
    assert all(feed.next_poll > start for feed in feeds if simulation.polled[feed.key])


@pytest.mark.slow
def test_all_are_polled_within_an_hour_though_every_tenth_hangs(feeds: FeedRepository) -> None:
    start = max(feed.next_poll for feed in feeds)
    simulation = Simulation(feeds, start)
    simulation.run(start + HOUR, look=2 * SECOND)
    never = [feed.key for feed in feeds if not simulation.polled[feed.key]]
    assert never == []


def test_a_domain_with_a_thousand_feeds_holds_up_nobody(feeds: FeedRepository) -> None:
    domains = Counter(feed.domain for feed in feeds)
    ((largest, number),) = domains.most_common(1)
    assert number >= sum(domains.values()) / 40
    due = feeds.next_due(LATE, (), 40_000)
    assert len(due) == len({feed.domain for feed in due}) == len(domains)
    assert largest not in {feed.domain for feed in feeds.next_due(LATE, (largest,), 40_000)}
    feeds.record([], holds={largest: LATE})  # its server asks for rest
    assert {feed.domain for feed in feeds.due(LATE - 1)} == set(domains) - {largest}
