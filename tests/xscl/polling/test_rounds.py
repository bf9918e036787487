"""Feeds polled in one round: their items are joined as if they had come in the order of time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.simulation.scheduler import Killed
from tests.waiting import PATIENCE, eventually
from tests.xscl.polling.scripted import (
    DAY,
    START,
    Clock,
    Place,
    Server,
    placed,
    polling,
    reply,
    slowly,
)
from xscl.engine.facade import Engine
from xscl.ingestion.pipeline import Consumer
from xscl.polling import feed_poller
from xscl.polling.feed import Feed
from xscl.polling.feed_commands import prepare
from xscl.polling.feed_poller import PolledFeed, poll_now
from xscl.polling.feed_repository import FeedRepository

HOSTS = ("127.0.0.1", "a.example", "b.example", "x.a.example")
QUERIES = {
    "echo": "feeds//item->a[./title->t] FOLLOWED BY{t=u, 2 d} feeds//item->b[./title->u]",
    "near": "feeds//item->a[./title->t] JOIN{t=u, 9 h} feeds//item->b[./title->u]",
    "next": "f0//item->a[./title->t] NEXT{t=u} feeds//item->b[./title->u]",
}

Found = set[tuple[str, tuple[str, ...]]]


class Mortal(Spool):
    """A spool whose process dies right after some segment has become durable."""

    left = -1

    def append(self, documents: Sequence[Document], arrived: int) -> int:
        number = super().append(documents, arrived)
        self.left -= 1
        if self.left == 0:
            raise Killed
        return number


@dataclass
class Fatal(Clock):
    """A clock that can be looked at so often and then kills the process."""

    left: int = 0

    def __call__(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return self.now


@dataclass(frozen=True)
class Case:
    """Feeds with the times of their items, the order of polling, and after which segment to die."""

    feeds: tuple[tuple[tuple[str, int], ...], ...]
    order: tuple[int, ...]
    slow: tuple[float, ...]
    dies: int


def case(seed: int) -> Case:
    dice = random.Random(seed)
    feeds = []
    for number in range(len(HOSTS)):
        times = sorted(dice.sample(range(30 * 24), 12), reverse=True)
        feeds.append(tuple((f"n{number}-{at} word{dice.randrange(4)}", at) for at in times))
    order = dice.sample(range(len(HOSTS)), len(HOSTS))
    slow = tuple(dice.choice((0.0, 0.0, 0.05, 0.1)) for _ in HOSTS)
    return Case(tuple(feeds), tuple(order), slow, (0, 1, 3, 5)[seed % 4])


def body(items: Sequence[tuple[str, int]]) -> bytes:
    """A feed whose items have a guid, a title, and a time in hours after the beginning."""
    written = "".join(
        f"<item><guid>{name.split()[0]}</guid><title>{name.split()[1]}</title>"
        f"<pubDate>{format_datetime(datetime.fromtimestamp(at * 3_600 + EARLIEST, UTC))}"
        "</pubDate></item>"
        for name, at in items
    )
    return f'<rss version="2.0"><channel><title>x</title>{written}</channel></rss>'.encode()


EARLIEST = START // 1_000_000 - 40 * 24 * 3_600


def follow_all(place: Place, given: Case) -> None:
    for number, (host, items) in enumerate(zip(HOSTS, given.feeds, strict=True)):
        place.server.says(f"/{number}", slowly(reply(body(items)), given.slow[number]))
        place.follow(f"http://{host}:{place.server.port}/{number}", stream=f"f{number}")
    prepare(place.engine)
    for name, query in QUERIES.items():
        place.engine.subscribe(name, query)


def consume(place: Place, spool: Spool) -> Found:
    Consumer(spool, place.engine.ingest).run_once()
    return {(match.subscription, match.documents) for match in place.engine.matches()}


def sorted_by_time(place: Place) -> Found:
    """The matches if all items arrive by time, for subscriptions of the same lateness."""
    with Engine() as engine:
        rows = place.engine.sql("SELECT name, lateness FROM state.stream").to_pylist()
        for row in rows:
            engine.stream(row["name"], lateness=row["lateness"])
        engine.subscribe_many(QUERIES.items())
        engine.push(sorted(place.documents(), key=lambda document: document.timestamp))
        return {(match.subscription, match.documents) for match in engine.matches()}


def chosen(place: Place, given: Case) -> list[Feed]:
    by_stream = {feed.stream: feed for feed in place.feeds}
    return [by_stream[f"f{number}"] for number in given.order]


@pytest.mark.parametrize("seed", usually(range(4), 1, 3))
def test_feeds_of_one_round_match_as_if_sorted_whatever_their_order_and_kills(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("xscl.polling.new_items.PART_DOCUMENTS", 11)
    given = case(seed)
    with placed(tmp_path, server) as place:
        follow_all(place, given)
        place.spool.close()
        spool = Mortal(tmp_path / "spool")
        with spool:
            spool.left = given.dies
            try:
                poll_now(place.feeds, spool, chosen(place, given), place.fetching)
                assert not given.dies
            except Killed:
                assert spool.latest() == given.dies
                if seed > 1:
                    consume(place, spool)
    with placed(tmp_path, server) as place:
        poll_now(place.feeds, place.spool, chosen(place, given), place.fetching)
        found = consume(place, place.spool)
        documents = place.documents()
        assert len(documents) == len({document.id for document in documents}) == 48
        assert all(a.timestamp <= b.timestamp for a, b in pairwise(documents))
        assert all(document.history for document in documents)
        assert found == sorted_by_time(place)
        assert {name for name, _ in found} == set(QUERIES)
        assert len(found) > 20


def test_what_comes_within_one_look_is_one_segment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look ends when all have answered."""
    flushed = feed_poller._flush

    def flush(*given: Any) -> list[PolledFeed]:
        monkeypatch.setattr(feed_poller, "_LOOK", 0.01)
        return flushed(*given)

    monkeypatch.setattr(feed_poller, "_LOOK", PATIENCE)
    monkeypatch.setattr(feed_poller, "_flush", flush)
    follow_all(place, replace(case(1), slow=(0.0,) * 4, dies=0))
    place.clock.now += DAY
    with polling(place):
        eventually(place.spool.latest)
    times = [document.timestamp for document in place.spool.read(1)]
    assert times == sorted(times)
    assert len({document.origin for document in place.spool.read(1)}) >= 2


def test_a_feed_that_is_due_again_while_it_is_asked_is_not_asked_beside(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is any other of its domain: somebody wants them polled now, so it is asked once more."""
    monkeypatch.setattr("xscl.polling.feed_poller._LOOK", 0.01)
    server, looked, answer = place.server, threading.Event(), threading.Event()
    for path in ("/f", "/g"):
        server.says(path, slowly(reply(body([("one word", 1)])), answer))
    feeds = [place.follow(server.url(path)) for path in ("/f", "/g")]
    find, looks = place.feeds.next_due, iter(range(5))

    def next_due(now: int, busy: Collection[str], most: int) -> list[Feed]:
        if server.asked and next(looks, None) is None:
            looked.set()
        return find(now, busy, most)

    monkeypatch.setattr(place.feeds, "next_due", next_due)
    with polling(place):
        eventually(lambda: server.asked)
        with FeedRepository(place.engine) as others:
            for feed in feeds:
                others.edit(replace(feed, next_poll=0))
        assert looked.wait(PATIENCE)
        assert len(server.asked) == 1
        answer.set()
        eventually(lambda: sorted(map(server.count, ("/f", "/g"))) == [1, 2])
        eventually(lambda: place.spool.latest() == 2)
    assert len(place.documents()) == 2
    assert server.most_at_once["127.0.0.1"] == 1


def test_a_poll_that_ends_while_others_are_recorded_is_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its feed is due until it is recorded, too."""
    monkeypatch.setattr("xscl.polling.feed_poller._LOOK", 0.01)
    recorded, answer = threading.Event(), threading.Event()
    flushed = feed_poller._flush

    def flush(
        feeds: FeedRepository, spool: Spool, answers: Sequence[PolledFeed], now: int
    ) -> list[PolledFeed]:
        if not answer.is_set() and answers:
            answer.set()  # the other poll ends now, and is not taken yet
            time.sleep(0.5)
        done = flushed(feeds, spool, answers, now)
        if spool.latest() == 2:
            recorded.set()
        return done

    monkeypatch.setattr(feed_poller, "_flush", flush)
    place.server.says("/f", reply(body([("one word", 1)])))
    place.server.says("/g", slowly(reply(body([("two words", 1)])), answer))
    for host, path in (("a.example", "/f"), ("b.example", "/g")):
        place.follow(place.server.url(path).replace("127.0.0.1", host))
    with polling(place):
        assert recorded.wait(PATIENCE)
    assert (place.server.count("/f"), place.server.count("/g")) == (1, 1)


@patch("xscl.polling.feed_poller.ROUND", 1_000)
def test_large_answers_do_not_wait_for_the_end_of_the_round(place: Place) -> None:
    given = case(2)
    follow_all(place, given)
    done = poll_now(place.feeds, place.spool, chosen(place, given), place.fetching)
    assert [polled.new for polled in done] == [12, 12, 12, 12]
    assert place.spool.latest() > 1
    assert len(place.documents()) == 48


def test_answers_without_items_do_not_wait_for_the_end_of_the_round(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five feeds of a domain four have answered when the process is killed."""
    monkeypatch.setattr("xscl.polling.feed_poller.ANSWERS", 2)
    asked = []
    with placed(tmp_path, server) as place:
        for number in range(5):
            server.says(f"/{number}", reply(status="500 Internal Server Error"))
            asked.append(place.follow(server.url(f"/{number}")))
        # It looks at the clock before each request and after each round.
        place.fetching = replace(place.fetching, clock=Fatal(left=6))
        with pytest.raises(Killed):
            place.poll(*asked)
    with placed(tmp_path, server) as place:
        assert [place.feeds[feed.key].failures for feed in asked] == [1, 1, 1, 1, 0]
        assert [feed.key for feed in place.feeds.due(place.clock.now)] == [asked[4].key]


def test_a_feed_announced_by_two_pages_is_followed_once(place: Place) -> None:
    link = '<link rel="alternate" type="application/rss+xml" href="/real.rss">'
    for path in ("/1", "/2"):
        page = reply(f"<!DOCTYPE html><html><head>{link}</head></html>".encode())
        place.server.says(path, page)
    place.server.says("/real.rss", reply(body([("one word", 1)])))
    feeds = [place.follow(place.server.url(path)) for path in ("/1", "/2")]
    place.poll()
    assert sorted(place.listed(feed)["state"] for feed in feeds) == ["failing", "ok"]
    assert len(place.documents()) == 1
