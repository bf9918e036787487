"""Leases at hubs: when hubs are asked, and when feeds are polled meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.xscl.polling.scripted import DAY, HOUR, Place, Server, placed, reply, rss, serving
from xscl.polling import hubs
from xscl.polling.credentials import NAME, Credentials, secrets_in
from xscl.polling.feed import Feed
from xscl.polling.feed_repository import HubLease
from xscl.polling.hubs import PATH, TOKEN, HubCallbacks

HUB = "https://hub.example/"
TOPIC = "https://a.example/feed"
NAMED = (f'Link: <{HUB}>; rel="hub", <{TOPIC}>; rel="self"',)
MINUTE = HOUR // 60


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Place]:
    with placed(tmp_path_factory.mktemp("hubs"), server) as found:
        yield found


@pytest.fixture
def place(shared: Place) -> Iterator[Place]:
    """A place without feeds."""
    yield shared
    for feed in shared.feeds:
        shared.feeds.remove(feed)
    with shared.feeds.writing() as store:
        store.fetch("DELETE FROM state.feed_item")


@dataclass
class Followed:
    """A feed that was polled and names a hub, with the callbacks of the service."""

    place: Place
    callbacks: HubCallbacks
    key: str

    @property
    def feed(self) -> Feed:
        return self.place.feeds[self.key]

    @property
    def lease(self) -> HubLease:
        (found,) = self.place.feeds.leases().values()
        return found

    def asked(self, callbacks: HubCallbacks | None = None) -> list[HubLease]:
        """Ask the hubs that are to be asked now."""
        feeds, now = self.place.feeds, self.place.clock.now
        hubs.end_leases(feeds, now)
        return hubs.begin(feeds, callbacks or self.callbacks, now, hubs.AT_ONCE)

    def confirm(self, seconds: int = hubs.LEASE) -> None:
        self.asked()
        self.place.clock.now += MINUTE
        hubs.confirm(self.place.feeds, self.lease, seconds, self.place.clock.now)

    def delivered(self) -> None:
        hubs.delivered(self.place.feeds, self.lease, self.place.clock.now)


@pytest.fixture
def followed(place: Place, server: Server) -> Followed:
    server.says("/feed", reply(rss("one"), *NAMED))
    feed = place.follow(server.url("/feed"))
    place.poll(feed)
    kept = Credentials()
    return Followed(place, HubCallbacks("https://push.example/", lambda: kept), feed.key)


def test_a_hub_is_asked_once_and_again_before_the_lease_ends(followed: Followed) -> None:
    assert (followed.feed.hub, followed.feed.topic) == (HUB, TOPIC)
    (first,) = followed.asked()
    assert (first.hub, first.topic, first.state) == (HUB, TOPIC, "asked")
    assert followed.asked() == []
    place = followed.place
    hubs.confirm(place.feeds, first, 4 * 86_400, place.clock.now)
    assert (followed.lease.state, followed.lease.failures) == ("active", 0)
    place.clock.now += 3 * DAY - 1
    assert followed.asked() == []
    place.clock.now += 1
    (again,) = followed.asked()
    assert (again.state, again.callback) == ("active", first.callback)


@pytest.mark.parametrize(("said", "held"), [(1, 60), (10**9, hubs.LONGEST)])
def test_a_lease_has_bounds(followed: Followed, said: int, held: int) -> None:
    followed.confirm(said)
    assert followed.lease.until == followed.place.clock.now + held * 1_000_000


def test_what_a_hub_sends_makes_the_poll_due_but_once_a_minute(followed: Followed) -> None:
    followed.confirm()
    followed.place.poll()
    polled = followed.place.clock.now
    assert HOUR <= followed.feed.next_poll - polled <= 2 * HOUR
    for _ in range(2):
        followed.delivered()
        assert followed.feed.next_poll == polled + MINUTE
    assert (followed.lease.deliveries, followed.lease.delivered) == (2, polled)
    followed.place.clock.now += HOUR
    followed.delivered()
    assert followed.feed.next_poll == polled + MINUTE + 1 < followed.place.clock.now


def test_a_lease_that_is_not_renewed_ends(followed: Followed) -> None:
    followed.confirm()
    hubs.end_leases(followed.place.feeds, followed.lease.until or 0)
    assert (followed.lease.state, followed.lease.note) == ("failed", hubs.ENDED)


def test_a_denial_is_asked_again_after_a_day(followed: Followed) -> None:
    followed.confirm()
    place = followed.place
    place.poll()
    hubs.deny(place.feeds, followed.lease, "no \x00 way\n" + "x" * 1_000, place.clock.now)
    assert followed.lease.state == "denied"
    assert (followed.lease.note or "")[:6] == "no way"
    assert len(followed.lease.note or "") == 200
    assert followed.asked() == []
    place.clock.now += DAY
    assert len(followed.asked()) == 1


def test_another_hub_has_another_callback_and_none_ends_the_lease(followed: Followed) -> None:
    followed.confirm()
    before, place = followed.lease, followed.place
    place.server.says("/feed", reply(rss("one"), 'Link: <https://b.example/>; rel="hub"'))
    place.poll()
    (other,) = followed.asked()
    assert (other.hub, other.state) == ("https://b.example/", "asked")
    assert other.callback != before.callback
    assert place.feeds.lease_of(before.callback) is None
    place.server.says("/feed", reply(rss("one")))
    place.poll()
    assert followed.asked() == []
    assert place.feeds.leases() == {}


def test_a_start_knows_the_callbacks(followed: Followed) -> None:
    followed.confirm()
    place = followed.place
    hubs.Hubs(place.feeds, followed.callbacks, place.fetching, place.clock)
    assert followed.callbacks.known == {followed.lease.callback}


def test_after_a_restore_without_secrets_hubs_are_asked_anew(followed: Followed) -> None:
    followed.confirm()
    other, place = HubCallbacks("https://push.example/", Credentials), followed.place
    hubs.Hubs(place.feeds, other, place.fetching, place.clock)
    assert place.feeds.leases() == {}
    assert len(followed.asked(other)) == 1


@pytest.mark.parametrize("path", ["/f?token=abc", "/f"])
def test_no_hub_learns_of_a_feed_with_secrets(place: Place, server: Server, path: str) -> None:
    server.says(path, reply(rss("one"), *NAMED))
    headers = () if "token" in path else (("X-Key", "abc"),)
    place.poll(place.follow(server.url(path), headers=headers))
    assert [feed.hub for feed in place.feeds] == [None]


@patch.object(hubs, "CALLBACKS", 1)
def test_the_number_of_callbacks_is_bounded(followed: Followed) -> None:
    followed.confirm()
    other = followed.place.follow("http://a.example/other")
    followed.place.feeds.record([replace(other, hub=HUB, topic=TOPIC)])
    assert followed.asked() == []
    followed.place.feeds.remove(followed.feed)
    assert [one.key for one in followed.asked()] == [other.key]


def test_callbacks_differ_by_feed_hub_and_topic_and_stay(tmp_path: Path) -> None:
    file = tmp_path / NAME
    callbacks = HubCallbacks("https://push.example/", lambda: secrets_in(file))
    named = [("a", "h", "t"), ("b", "h", "t"), ("a", "i", "t"), ("a", "h", "u"), ("a", "ht", "")]
    tokens = [callbacks.token(*each) for each in named]
    assert len({*tokens, *map(callbacks.secret, tokens)}) == 2 * len(named)
    assert all(TOKEN.fullmatch(token) for token in tokens)
    assert callbacks.address(tokens[0]) == f"https://push.example{PATH}{tokens[0]}"
    again = HubCallbacks("https://push.example", lambda: Credentials(file))
    assert [again.token(*each) for each in named] == tokens
    assert again.secret(tokens[0]) == callbacks.secret(tokens[0])
    assert tokens[0] not in file.read_text()
    assert list(json.loads(file.read_text())) == ["websub"]
    other = HubCallbacks("https://push.example", Credentials)
    assert other.token(*named[0]) != tokens[0]
