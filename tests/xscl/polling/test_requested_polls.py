"""A requested poll begins after the request, also while an earlier one is in progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.xscl.polling.scripted import HOUR, Place, Server, Talk, placed, reply, rss
from xscl.polling import hubs
from xscl.polling.feed import Feed
from xscl.polling.feed_repository import FeedRepository, HubLease

MINUTE = 60_000_000

Request = Callable[[FeedRepository, Feed, int], object]


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Iterator[Place]:
    with placed(tmp_path, server) as made:
        yield made


def by_a_person(feeds: FeedRepository, feed: Feed, now: int) -> object:
    return feeds.request_poll(feed, now)


def by_a_hub(feeds: FeedRepository, feed: Feed, now: int) -> None:
    hubs.delivered(feeds, HubLease(feed.key, "", "", "", 0, 0), now)


def requesting(place: Place, feed: Feed, request: Request, then: bytes) -> Talk:
    """Return an answer during which somebody requests a poll."""

    async def talk(writer: asyncio.StreamWriter) -> None:
        with FeedRepository(place.engine) as beside:
            request(beside, beside[feed.key], place.clock.now)
        writer.write(then)
        await writer.drain()

    return talk


@pytest.mark.parametrize("request_", [by_a_person, by_a_hub])
def test_during_a_poll(place: Place, request_: Request) -> None:
    feed = place.follow(place.server.url("/f"))
    place.server.says(
        "/f",
        requesting(place, feed, request_, reply(rss("one"))),
        reply(rss("two", "one")),
    )
    place.wait(1)
    assert place.titles(feed) == ["one", "two"]
    assert place.feeds[feed.key].next_poll > place.clock.now + HOUR // 2


def test_during_a_poll_that_is_put_off(place: Place) -> None:
    """A server's `Retry-After` takes precedence over a requested poll."""
    feed = place.follow(place.server.url("/f"))
    refused = reply(b"", "Retry-After: 600", status="429 Too Many Requests")
    place.server.says("/f", requesting(place, feed, by_a_person, refused))
    place.wait(5 * MINUTE)
    assert place.server.count("/f") == 1


@pytest.mark.parametrize(
    ("owner", "at_once", "during", "pause"),
    [
        *(("", False, False, 0), ("", False, True, 0), ("_7.", False, False, MINUTE)),
        *(("_7.", False, True, MINUTE), ("_7.", True, False, 0), ("_7.", True, True, MINUTE)),
    ],
)
def test_a_user_has_a_feed_polled_once_a_minute(
    place: Place, owner: str, at_once: bool, during: bool, pause: int
) -> None:
    def request_(feeds: FeedRepository, feed: Feed, now: int) -> object:
        return feeds.request_poll(feed, now, at_once=at_once)

    feed = place.follow(place.server.url("/f"), owner=owner)
    one = reply(rss("one"))
    place.server.says("/f", requesting(place, feed, request_, one) if during else one, one)
    place.wait(0)
    if not during:
        request_(place.feeds, place.feeds[feed.key], place.clock.now)
    if pause:
        place.wait(pause - 1)
        assert place.server.count("/f") == 1
    place.wait(1)
    assert place.server.count("/f") == 2
