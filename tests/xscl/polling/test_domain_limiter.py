"""A domain gets one request at a time on all paths to it, and none before its `Retry-After`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from feeds.http.connection import DomainBlocked
from tests.xscl.polling.scripted import (
    HOUR,
    START,
    Clock,
    Place,
    Server,
    moved,
    placed,
    reply,
    rss,
    slowly,
)
from xscl.polling.feed_poller import AFTERWARDS, DomainLimiter

SIX = tuple(f"r{number}.example" for number in range(6))
SECOND = 1_000_000


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Iterator[Place]:
    """Six feeds of six domains that all lead to b.example, which has one of its own."""
    allowed = tuple(f"{name}:{server.port}" for name in (*SIX, "b.example"))
    with placed(tmp_path, server, allow_addresses=allowed) as place:
        for name in SIX:
            server.says(f"/{name}", moved(f"http://b.example:{server.port}/there"))
            place.follow(f"http://{name}:{server.port}/{name}")
        place.follow(f"http://b.example:{server.port}/there")
        yield place


def test_redirects_to_one_domain_ask_it_one_after_the_other(place: Place) -> None:
    place.server.says("/there", slowly(reply(rss("one"))))
    place.poll()
    assert {place.listed(feed)["state"] for feed in place.feeds} == {"ok"}
    assert place.server.count("/there") == 7
    assert place.server.most_at_once["b.example"] == 1


def test_f11_the_domain_that_answered_is_held_not_the_one_that_led_there(place: Place) -> None:
    place.server.says("/there", reply(b"", "Retry-After: 7200", status="429 Too Many Requests"))
    place.server.says("/own", reply(rss("one")))
    beside = place.follow(f"http://{SIX[0]}:{place.server.port}/own")
    polled = place.poll()
    assert place.server.count("/there") == 1
    (own,) = (feed for feed in place.feeds if feed.domain == "b.example")
    assert own.next_poll >= START + 2 * HOUR
    assert place.listed(beside)["state"] == "ok"
    assert place.feeds[beside.key].next_poll < START + 2 * HOUR
    assert sum(bool(feed.failures) for feed in place.feeds) == 1
    assert sum(not one.asked for one in polled) == 6
    waiting = [feed for feed in place.feeds if feed.domain in SIX and not feed.polls]
    assert len(waiting) == 6
    assert all(feed.next_poll >= START + 2 * HOUR for feed in waiting)


def test_a_turn_that_is_not_had_in_time_is_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.polling.feed_poller.LONGEST_WAIT", 0.01)

    async def wait() -> None:
        domains = DomainLimiter(Clock())
        async with domains.hold("a.example"), domains.hold("b.example"):
            with pytest.raises(DomainBlocked) as raised:
                async with domains.hold("a.example"):
                    pytest.fail("two have the turn of a domain")
            assert (raised.value.seconds, domains.waiting) == (AFTERWARDS, 0)
        async with domains.hold("a.example"):
            pass

    asyncio.run(wait())


def test_who_waits_for_a_domain_that_is_then_held_does_not_ask_it() -> None:
    async def wait() -> None:
        clock = Clock()
        domains = DomainLimiter(clock)

        async def ask() -> None:
            async with domains.hold("a.example"):
                pytest.fail("a domain that is held is asked")

        async with domains.hold("a.example"):
            waiting = asyncio.create_task(ask())
            await asyncio.sleep(0)
            assert domains.waiting == 1
            domains.block("a.example", START + 60 * SECOND)
        with pytest.raises(DomainBlocked) as raised:
            await waiting
        assert raised.value.seconds == 60
        clock.now += 60 * SECOND
        assert domains.blocked_until("a.example") is None

    asyncio.run(wait())
