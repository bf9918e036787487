"""Following feeds: what is new goes to the spool once, whatever happens in between."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from feeds.formats.parse import parse_feed
from tests.xscl.polling.scripted import HOUR, Place, Talk, reply, rss
from xscl.engine.facade import Engine
from xscl.errors import DocumentError, StreamInUse
from xscl.language.names import EVERYTHING
from xscl.polling import hubs
from xscl.polling.feed import Feed, FeedsError
from xscl.polling.feed_commands import allow_late, follow, prepare
from xscl.polling.feed_repository import FeedRepository, FeedRequest, HubLease
from xscl.polling.new_items import new_items


@pytest.fixture
def feed(place: Place) -> Feed:
    place.server.says("/feed", reply(rss("one", "two")))
    return place.follow(place.server.url("/feed"), stream="news", tags=("daily",))


# -- The table of feeds --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a b", "", "1a", "a//b", "a>b"])
def test_a_name_that_no_query_could_use_is_refused(place: Place, name: str) -> None:
    with pytest.raises(DocumentError, match="cannot be the name of a stream"):
        place.feeds.add(FeedRequest("http://a.example/", tags=(name,)))
    assert list(place.feeds) == []


def test_the_same_feed_twice_is_refused(place: Place) -> None:
    place.feeds.add(FeedRequest("http://a.example/"))
    with pytest.raises(FeedsError, match=r"is followed already, on the stream 'a\.example'"):
        place.feeds.add(FeedRequest("http://a.example/"))


def test_a_stream_is_published_or_has_items_of_feeds(place: Place) -> None:
    place.engine.subscribe("p", "S//a PUBLISH made")
    for named in ({"stream": "made"}, {"tags": ("made",)}):
        with pytest.raises(FeedsError, match="'p' publishes the stream 'made'"):
            place.feeds.add(FeedRequest("http://a.example/", **named))
    assert place.feeds.add(FeedRequest("http://made/")).stream == "made_2"
    feed = place.feeds.add(FeedRequest("http://a.example/", stream="news", tags=("daily",)))
    with pytest.raises(FeedsError, match="'p' publishes the stream 'made'"):
        place.feeds.edit(replace(feed, tags=("made",)))
    for name in ("news", "daily", EVERYTHING):
        with pytest.raises(StreamInUse, match="which has the items of feeds"):
            place.engine.subscribe("q", f"S//a PUBLISH {name}")
    assert [one.name for one in place.engine.subscriptions] == ["p"]


# -- Polling -------------------------------------------------------------------------------


def polled(place: Place) -> list[int]:
    """Poll all feeds; how many items were new or changed in each."""
    return [outcome.new for outcome in place.poll()]


def test_the_first_poll_is_history_and_the_next_brings_news(place: Place, feed: Feed) -> None:
    assert polled(place) == [2]
    place.server.says("/feed", reply(rss("three", "one", "two changed")))
    assert polled(place) == [2]
    found = [(one.id.partition("#")[2], one.history) for one in place.spooled(feed)]
    assert found[:2] == [("two", True), ("one", True)]  # feeds begin with the newest
    assert sorted(found[2:]) == [("three", False), ("two", False)]
    assert polled(place) == [0]
    assert place.spool.latest() == 2


def test_a_private_address_is_refused_which_is_no_failure(place: Place, feed: Feed) -> None:
    allowed, place.fetching = place.fetching, replace(place.fetching, allow_addresses=())
    for _ in range(3):
        place.poll()
    refused = place.feeds[feed.key]
    assert (refused.state, refused.failures, refused.failing_since) == ("refused", 0, None)
    assert str(refused.error).endswith(f"; --allow-address {place.server.address} allows it")
    assert refused.next_poll - place.clock.now < 2 * HOUR
    assert place.server.asked == []
    place.fetching = allowed
    place.poll()
    assert place.feeds[feed.key].state == "ok"


def test_the_feeds_wish_for_rest_is_heard(place: Place, feed: Feed) -> None:
    place.server.says("/feed", reply(rss("one", head="<ttl>300</ttl>")))
    place.poll()
    assert place.feeds[feed.key].next_poll - place.clock.now >= 5 * HOUR
    place.fetching = replace(place.fetching, quick=True)
    place.poll()
    assert place.feeds[feed.key].next_poll - place.clock.now == HOUR


def killed_before_recording(place: Place, feed: Feed) -> None:
    """Append the items of a poll to the spool; then the process was killed."""
    found = new_items(feed, parse_feed(rss("one", "two"), seen_at=1).items, {}, 1)
    place.spool.append(found.documents, 1)


def test_what_was_appended_but_not_recorded_is_not_appended_again(place: Place, feed: Feed) -> None:
    killed_before_recording(place, feed)
    with FeedRepository(place.engine, place.spool.directory) as reopened:
        assert len(reopened.items_of([feed.key])[feed.key]) == 2
        assert reopened[feed.key].polls == 1
    place.server.says("/feed", reply(rss("three", "one", "two")))
    assert polled(place) == [1]
    assert not place.spooled(feed)[-1].history


def test_what_was_not_recorded_waits_for_who_writes_the_tables(place: Place, feed: Feed) -> None:
    killed_before_recording(place, feed)

    def polls() -> int:
        with FeedRepository(place.engine, place.spool.directory) as reopened:
            return reopened[feed.key].polls

    with ThreadPoolExecutor(1) as pool:
        store = place.feeds.store
        with store.transaction():
            store.fetch("UPDATE state.feed SET every = 7777 WHERE key = ?", [feed.key])
            opening = pool.submit(polls)
            with pytest.raises(TimeoutError):
                opening.result(0.3)
        assert opening.result(10) == 1
    assert (place.feeds[feed.key].polls, place.feeds[feed.key].every) == (1, 7777)


# -- Lateness ------------------------------------------------------------------------------


def lateness(engine: Engine) -> dict[str, int]:
    rows = engine.sql("SELECT name, lateness FROM state.stream").to_pylist()
    return {row["name"]: row["lateness"] for row in rows}


def test_items_may_come_two_polls_late(place: Place) -> None:
    follow(place.engine, place.feeds, FeedRequest("http://a.example/", stream="a", every=3 * 3600))
    follow(place.engine, place.feeds, FeedRequest("http://b.example/", stream="b", every=60))
    assert lateness(place.engine) == {"a": 6 * HOUR, "b": HOUR, EVERYTHING: 6 * HOUR}


def test_many_streams_get_their_lateness_at_once(place: Place) -> None:
    alike = Feed("http://a.example/", key="", stream="", tags=(), every=3 * 3600, added=0)
    feeds = [replace(alike, key=f"k{n}", stream=f"s{n}") for n in range(500)]
    place.engine.stream("s7", lateness=9 * HOUR, live=True, attributes={"title": str})
    place.engine.stream("s8", live=True, attributes={"title": str})
    place.engine.subscribe("q", "s9//item")
    assert allow_late(place.engine, feeds) == ["s9"]
    rows = place.engine.sql("SELECT name, lateness, live, attributes FROM state.stream").to_pylist()
    late = {row["name"]: row["lateness"] for row in rows}
    assert (late["s0"], late["s7"], late["s8"]) == (6 * HOUR, 9 * HOUR, 6 * HOUR)
    assert len(late) == 500
    assert all(row["live"] for row in rows)
    assert all(row["attributes"] for row in rows)
    titled = {row["name"] for row in rows if len(row["attributes"]) < len('{"title": "str", ...}')}
    assert titled == {"s7", "s8"}
    assert allow_late(place.engine, feeds) == ["s9"]


def test_a_stream_that_is_subscribed_to_keeps_its_lateness(place: Place) -> None:
    prepare(place.engine)
    place.engine.subscribe("q", "feeds//item->a[./title->t]")
    place.engine.subscribe("r", "early//item->a[./title->t]")
    added = follow(
        place.engine, place.feeds, FeedRequest("http://a.example/", stream="a", tags=["early"])
    )
    assert added[1] == ["early"]
    assert lateness(place.engine) == {"a": 2 * HOUR, EVERYTHING: 2 * HOUR}


def test_what_was_killed_halfway_is_late_before_a_subscription_reads_it(place: Place) -> None:
    place.feeds.add(FeedRequest("http://a.example/", stream="a", tags=("t",), every=3 * 3600))
    assert lateness(place.engine) == {}  # here the process was killed
    prepare(place.engine)
    place.engine.subscribe("q", "a//item->i[./title->t] JOIN{t=u, 2 d} t//item->j[./title->u]")
    assert lateness(place.engine) == {"a": 6 * HOUR, "t": 6 * HOUR, EVERYTHING: 6 * HOUR}


def test_of_feeds_that_may_be_late_only_streams_that_are_read_stay(place: Place) -> None:
    place.engine.subscribe("q", f"{EVERYTHING}//item")
    feed = place.feeds.add(FeedRequest("http://a.example/", stream="a"))
    place.feeds.edit(replace(feed, tags=("t",)))
    prepare(place.engine)
    assert lateness(place.engine) == {"a": 2 * HOUR, "t": 2 * HOUR}


# -- A requested poll begins after the request, also while an earlier one is in progr ------


MINUTE = 60_000_000

Request = Callable[[FeedRepository, Feed, int], object]


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


@pytest.mark.parametrize("request_", [FeedRepository.request_poll, by_a_hub])
def test_during_a_poll(place: Place, request_: Request) -> None:
    feed = place.follow(place.server.url("/f"))
    first = requesting(place, feed, request_, reply(rss("one")))
    place.server.says("/f", first, reply(rss("two", "one")))
    place.wait(1)
    assert place.titles(feed) == ["one", "two"]
    assert place.feeds[feed.key].next_poll > place.clock.now + HOUR // 2


def test_during_a_poll_that_is_put_off(place: Place) -> None:
    """A server's `Retry-After` takes precedence over a requested poll."""
    feed = place.follow(place.server.url("/f"))
    refused = reply(b"", "Retry-After: 600", status="429 Too Many Requests")
    place.server.says("/f", requesting(place, feed, FeedRepository.request_poll, refused))
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
