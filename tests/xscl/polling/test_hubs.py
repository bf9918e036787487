"""Leases at hubs: when hubs are asked, and when feeds are polled meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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


@pytest.fixture
def callbacks() -> HubCallbacks:
    kept = Credentials()
    return HubCallbacks("https://push.example/", lambda: kept)


@pytest.fixture
def feed(place: Place, server: Server) -> Feed:
    """A feed that was polled and names a hub."""
    server.says("/feed", reply(rss("one"), *NAMED))
    followed = place.follow(server.url("/feed"))
    place.poll(followed)
    return place.feeds[followed.key]


def lease(place: Place) -> HubLease:
    (found,) = place.feeds.leases().values()
    return found


def asked(place: Place, callbacks: HubCallbacks) -> list[HubLease]:
    hubs.end_leases(place.feeds, place.clock.now)
    return hubs.begin(place.feeds, callbacks, place.clock.now, hubs.AT_ONCE)


def confirm(place: Place, callbacks: HubCallbacks, seconds: int = hubs.LEASE) -> None:
    asked(place, callbacks)
    place.clock.now += MINUTE
    hubs.confirm(place.feeds, lease(place), seconds, place.clock.now)


def test_a_hub_is_asked_once_and_again_before_the_lease_ends(
    place: Place, callbacks: HubCallbacks, feed: Feed
) -> None:
    assert (feed.hub, feed.topic) == (HUB, TOPIC)
    (first,) = asked(place, callbacks)
    assert (first.hub, first.topic, first.state) == (HUB, TOPIC, "asked")
    assert asked(place, callbacks) == []
    hubs.confirm(place.feeds, first, 4 * 86_400, place.clock.now)
    assert (lease(place).state, lease(place).failures) == ("active", 0)
    place.clock.now += 3 * DAY - 1
    assert asked(place, callbacks) == []
    place.clock.now += 1
    (again,) = asked(place, callbacks)
    assert (again.state, again.callback) == ("active", first.callback)


@pytest.mark.parametrize(("said", "held"), [(1, 60), (10**9, hubs.LONGEST)])
def test_a_lease_has_bounds(
    place: Place, callbacks: HubCallbacks, feed: Feed, said: int, held: int
) -> None:
    confirm(place, callbacks, said)
    assert lease(place).until == place.clock.now + held * 1_000_000


def test_what_a_hub_sends_makes_the_poll_due_but_no_more_than_once_a_minute(
    place: Place, callbacks: HubCallbacks, feed: Feed
) -> None:
    confirm(place, callbacks)
    place.poll()
    polled = place.clock.now
    assert HOUR <= place.feeds[feed.key].next_poll - polled <= 2 * HOUR
    for _ in range(2):
        hubs.delivered(place.feeds, lease(place), place.clock.now)
        assert place.feeds[feed.key].next_poll == polled + MINUTE
    assert (lease(place).deliveries, lease(place).delivered) == (2, polled)
    place.clock.now += HOUR
    hubs.delivered(place.feeds, lease(place), place.clock.now)
    assert place.feeds[feed.key].next_poll == polled + MINUTE + 1 < place.clock.now


def test_a_lease_that_is_not_renewed_ends(
    place: Place, callbacks: HubCallbacks, feed: Feed
) -> None:
    confirm(place, callbacks)
    place.clock.now = lease(place).until or 0
    hubs.end_leases(place.feeds, place.clock.now)
    assert (lease(place).state, lease(place).note) == ("failed", hubs.ENDED)


def test_a_denial_is_asked_again_after_a_day(
    place: Place, callbacks: HubCallbacks, feed: Feed
) -> None:
    confirm(place, callbacks)
    place.poll()
    hubs.deny(place.feeds, lease(place), "no \x00 way\n" + "x" * 1_000, place.clock.now)
    assert lease(place).state == "denied"
    assert (lease(place).note or "")[:6] == "no way"
    assert len(lease(place).note or "") == 200
    assert asked(place, callbacks) == []
    place.clock.now += DAY
    assert len(asked(place, callbacks)) == 1


def test_another_hub_has_another_callback_and_none_ends_the_lease(
    place: Place, callbacks: HubCallbacks, feed: Feed, server: Server
) -> None:
    confirm(place, callbacks)
    before = lease(place)
    server.says("/feed", reply(rss("one"), 'Link: <https://b.example/>; rel="hub"'))
    place.poll()
    (other,) = asked(place, callbacks)
    assert (other.hub, other.state) == ("https://b.example/", "asked")
    assert other.callback != before.callback
    assert place.feeds.lease_of(before.callback) is None
    server.says("/feed", reply(rss("one")))
    place.poll()
    assert asked(place, callbacks) == []
    assert place.feeds.leases() == {}


def test_a_start_knows_the_callbacks(place: Place, callbacks: HubCallbacks, feed: Feed) -> None:
    confirm(place, callbacks)
    hubs.Hubs(place.feeds, callbacks, place.fetching, place.clock)
    assert callbacks.known == {lease(place).callback}


def test_after_a_restore_without_secrets_hubs_are_asked_anew(
    place: Place, callbacks: HubCallbacks, feed: Feed
) -> None:
    confirm(place, callbacks)
    other = HubCallbacks("https://push.example/", Credentials)
    hubs.Hubs(place.feeds, other, place.fetching, place.clock)
    assert place.feeds.leases() == {}
    assert len(asked(place, other)) == 1


@pytest.mark.parametrize("path", ["/f?token=abc", "/f"])
def test_no_hub_learns_of_a_feed_with_secrets(place: Place, server: Server, path: str) -> None:
    server.says(path, reply(rss("one"), *NAMED))
    headers = () if "token" in path else (("X-Key", "abc"),)
    place.poll(place.follow(server.url(path), headers=headers))
    assert [feed.hub for feed in place.feeds] == [None]


def test_the_number_of_callbacks_is_bounded(
    place: Place, callbacks: HubCallbacks, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "CALLBACKS", 1)
    confirm(place, callbacks)
    other = place.follow("http://a.example/other")
    place.feeds.record([replace(other, hub=HUB, topic=TOPIC)])
    assert asked(place, callbacks) == []
    place.feeds.remove(feed)
    assert [one.key for one in asked(place, callbacks)] == [other.key]


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
