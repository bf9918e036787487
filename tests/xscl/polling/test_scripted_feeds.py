"""Feeds behind a scripted server: each ends in the expected state, no item lost, none doubled."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from feeds.formats.parse import MAX_ITEMS
from feeds.http.fetch import UNCONDITIONAL
from tests.waiting import PATIENCE, eventually
from tests.xscl.polling.scripted import (
    DAY,
    HOUR,
    Answer,
    Place,
    moved,
    placed,
    polling,
    reply,
    rss,
    serving,
)
from xscl.polling import feed_repository
from xscl.polling.lifecycle import MOVES

# -- Not modified --------------------------------------------------------------------------


def test_f7_304_keeps_the_feed_well_and_a_new_tag_brings_the_news(place: Place) -> None:
    one, two = reply(rss("one"), 'ETag: "1"'), reply(rss("two", "one"), 'ETag: "2"')
    place.server.says("/f", one, one, one, two)
    feed = place.follow(place.server.url("/f"))
    place.wait(6 * HOUR)
    assert place.titles(feed) == ["one", "two"]
    listed = place.listed(feed)
    assert (listed["state"], listed["items"], listed["versions"]) == ("ok", 2, 2)
    assert (listed["polls"], listed["error"], listed["quality"]) == (6, None, "strict")
    tags = [headers.get("if-none-match") for _, headers in place.server.asked]
    assert tags == [None, '"1"', '"1"', '"1"', '"2"', '"2"']


def test_f7_a_wrong_304_after_a_change_is_believed_for_a_while_only(place: Place) -> None:
    always = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    script = [reply(rss("one"), 'ETag: "1"'), *[always] * UNCONDITIONAL, reply(rss("two", "one"))]
    place.server.says("/f", *script)
    feed = place.follow(place.server.url("/f"))
    place.wait(4 * DAY)
    assert place.titles(feed) == ["one", "two"]
    assert place.listed(feed)["state"] == "ok"


# -- Redirects -----------------------------------------------------------------------------


def test_f5_a_permanent_chain_is_the_address_after_three_good_answers(place: Place) -> None:
    place.server.says("/old", moved("/middle"))
    place.server.says("/middle", moved("/new", "308 Permanent Redirect"))
    place.server.says("/new", reply(rss("one"), 'ETag: "1"'))
    feed = place.follow(place.server.url("/old"))
    place.wait((MOVES - 1) * HOUR)
    listed = place.listed(feed)
    assert (listed["url"], listed["moved_to"]) == (feed.url, place.server.url("/new"))
    place.server.says("/new", reply(rss("two", "one"), 'ETag: "2"'))
    place.wait(4 * HOUR)
    listed = place.listed(feed)
    assert (listed["url"], listed["moved_to"]) == (place.server.url("/new"), None)
    assert (listed["key"], listed["state"], listed["items"]) == (feed.key, "ok", 2)
    assert place.server.count("/old") == MOVES
    assert [document.id for document in place.spooled(feed)] == [
        f"{feed.key}#{n}" for n in ("one", "two")
    ]


def test_f5_a_permanent_redirect_to_what_is_no_feed_moves_nothing(place: Place) -> None:
    place.server.says("/f", reply(rss("one")), moved("/parked"))
    place.server.says("/parked", reply(b"<!DOCTYPE html><html><body>For sale</body></html>"))
    feed = place.follow(place.server.url("/f"))
    place.wait(5 * DAY)
    listed = place.listed(feed)
    assert (listed["url"], listed["state"], listed["code"]) == (feed.url, "failing", "fetch_html")


def test_f5_a_move_to_a_feed_that_is_followed_is_noted_only(place: Place) -> None:
    place.server.says("/f", moved("/there"))
    place.server.says("/there", reply(rss("one")))
    feed = place.follow(place.server.url("/f"))
    place.follow(place.server.url("/there"))
    place.wait(6 * HOUR)
    listed = place.listed(feed)
    assert listed["url"] == feed.url
    there = place.server.url("/there")
    assert listed["note"] == f"it has moved to {there}, which is followed already"


# -- Gone, missing, too many ---------------------------------------------------------------


def test_f11_410_ends_the_polling_until_somebody_asks(place: Place) -> None:
    place.server.says("/f", reply(rss("one")), reply(status="410 Gone"), reply(rss("two", "one")))
    feed = place.follow(place.server.url("/f"))
    place.wait(30 * DAY)
    listed = place.listed(feed)
    assert (listed["state"], listed["code"], listed["next_poll"]) == ("gone", "fetch_gone", None)
    assert place.server.count("/f") == 2
    assert place.poll(feed)[0].new == 1
    assert place.listed(feed)["state"] == "ok"
    assert place.titles(feed) == ["one", "two"]


def test_f11_retry_after_holds_all_feeds_of_the_domain_and_no_other(place: Place) -> None:
    port = place.server.port
    busy = reply(b"", "Retry-After: 7200", status="503 Service Unavailable")
    place.server.says("/1", busy, reply(rss("one")))
    place.server.says("/2", reply(rss("one")))
    first = place.follow(f"http://a.example:{port}/1")
    same = place.follow(f"http://x.a.example:{port}/2")
    other = place.follow(f"http://b.example:{port}/2")
    asked = {polled.feed.key: polled.asked for polled in place.poll(first, same, other)}
    assert asked == {first.key: True, same.key: False, other.key: True}
    assert place.listed(same)["state"] == "new"
    assert place.listed(same)["next_poll"] == place.clock.now + 2 * HOUR
    place.wait(3 * HOUR)
    assert [place.listed(feed)["state"] for feed in (first, same, other)] == ["ok"] * 3


# -- Answers that are no feed --------------------------------------------------------------


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


LOGIN = b"<!DOCTYPE html><html><body><form action='/login'>Please log in</form></body></html>"
DOCTYPE = b'<!DOCTYPE rss [<!ENTITY a "b">]>'

USELESS: dict[str, tuple[Answer, str]] = {
    "cut off": (reply(rss("two", "one")[:-20]), "xml_syntax"),
    "login": (reply(LOGIN, "Content-Type: text/html"), "fetch_html"),
    "entities": (reply(DOCTYPE + rss("two")), "xml_entities"),
    "not http": (b"ftp ready\r\n\r\n", "fetch_protocol"),
}


@pytest.mark.parametrize("name", USELESS)
def test_f6_a_useless_answer_fails_and_costs_no_item(place: Place, name: str) -> None:
    answer, code = USELESS[name]
    good = reply(rss("one"), 'ETag: "1"')
    place.server.says("/f", good, answer, answer, reply(rss("two", "one"), 'ETag: "2"'))
    feed = place.follow(place.server.url("/f"))
    place.wait(3 * HOUR)
    listed = place.listed(feed)
    assert (listed["state"], listed["code"]) == ("failing", code)
    assert (listed["items"], listed["polls"], listed["failures"]) == (1, 1, 1)
    assert listed["error"]
    assert "Traceback" not in listed["error"]
    place.wait(10 * HOUR)
    listed = place.listed(feed)
    assert (listed["state"], listed["code"], listed["failures"]) == ("ok", None, 0)
    assert place.titles(feed) == ["one", "two"]
    assert not place.spooled(feed)[1].history


def test_a_failure_keeps_the_validators_of_the_last_good_answer(place: Place) -> None:
    good = reply(rss("one"), 'ETag: "1"')
    place.server.says("/f", good, reply(LOGIN, 'ETag: "login"'), good)
    feed = place.follow(place.server.url("/f"))
    place.wait(5 * HOUR)
    assert place.server.asked[2][1]["if-none-match"] == '"1"'
    assert place.listed(feed)["state"] == "ok"


# -- Web pages -----------------------------------------------------------------------------


def page(*links: str) -> bytes:
    named = "".join(
        f'<link rel="alternate" type="application/rss+xml" href="{to}">' for to in links
    )
    return reply(f"<!DOCTYPE html><html><head>{named}</head></html>".encode())


def test_a_page_in_the_place_of_a_new_feed_leads_to_it(place: Place) -> None:
    place.server.says("/", page("/broken.rss", "/real.rss"))
    place.server.says("/broken.rss", reply(status="404 Not Found"))
    place.server.says("/real.rss", reply(rss("one")))
    feed = place.follow(place.server.url("/"))
    assert [polled.new for polled in place.poll()] == [1]
    listed = place.listed(feed)
    assert (listed["url"], listed["key"]) == (place.server.url("/real.rss"), feed.key)
    place.wait(3 * HOUR)
    assert place.server.count("/") == 1
    assert place.titles(feed) == ["one"]


def test_a_page_may_not_lead_to_a_private_address(place: Place) -> None:
    place.server.says("/", page("http://10.0.0.1/f", "http://localhost/f", "/real.rss"))
    place.server.says("/real.rss", reply(LOGIN))
    feed = place.follow(place.server.url("/"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["url"], listed["code"]) == ("failing", feed.url, "fetch_html")


# -- Items ---------------------------------------------------------------------------------


def test_f10_a_feed_that_is_too_long_says_what_it_left_out(place: Place) -> None:
    place.server.says("/f", reply(rss(*map(str, range(MAX_ITEMS + 7)))))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["items"]) == ("ok", MAX_ITEMS)
    assert listed["note"] == "the last 7 items were left out"


# -- Secrets -------------------------------------------------------------------------------


def test_secrets_do_not_follow_a_feed_that_moves(place: Place) -> None:
    port = place.server.port
    place.server.says("/f", moved(f"http://b.example:{port}/h"))
    place.server.says("/h", reply(rss("one")))
    feed = place.follow(f"http://a.example:{port}/f", headers=(("X-Key", "s3cret"),))
    place.wait((MOVES + 2) * HOUR)
    assert place.listed(feed)["url"] == f"http://b.example:{port}/h"
    assert all("x-key" not in headers for path, headers in place.server.asked if path == "/h")
    assert place.server.count("/f") == MOVES


# -- Many feeds at once --------------------------------------------------------------------


def test_l4_a_slow_server_delays_its_own_domain_only(tmp_path: Path) -> None:
    with serving() as server, placed(tmp_path, server, seconds=PATIENCE, quick=True) as place:
        port = server.port
        server.says("/slow", drip)
        server.says("/f", reply(rss("one")))
        slow = [place.follow(f"http://slow.example:{port}/slow?{n}") for n in range(3)]
        for number in range(3):
            server.says(f"/slow?{number}", drip)
        fast = place.follow(f"http://b.example:{port}/f", every=60)
        also = place.follow(f"http://a.example:{port}/f", every=60)

        def polled() -> bool:
            place.clock.now += 61_000_000  # the fast feeds are always due
            time.sleep(0.05)
            return server.count("/f") >= 10

        with polling(place):
            eventually(polled)
        assert server.most_at_once["slow.example"] == 1
        assert len(slow) == 3
        assert place.listed(fast)["state"] == place.listed(also)["state"] == "ok"


# -- Histories -----------------------------------------------------------------------------


def test_a_feed_keeps_its_last_polls_with_errors_and_redirects(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, there = reply(rss("one", "two"), 'ETag: "1"'), place.server.url("/g")
    place.server.says("/f", good, good, reply(status="500 No"), *[moved(there)] * MOVES)
    place.server.says("/g", reply(rss("three", "one", "two")))
    place.server.says("/other", reply(status="404 No"))
    feed, other = (place.follow(place.server.url(path)) for path in ("/f", "/other"))
    for _ in range(3 + MOVES):
        place.poll(feed)
    found = place.feeds.polls(feed)[::-1]
    assert [(one.outcome, one.items) for one in found] == [
        *(("ok", 2), ("unchanged", 0), ("fetch_status", 0), ("ok", 1)),
        *[("ok", 0)] * (MOVES - 1),
    ]
    failed, last = found[2], found[-1]
    assert failed.is_failed
    assert "500" in (failed.note or "")
    assert last.note == f"moved to {there}"
    assert {one.polled for one in found} == {place.clock.now}
    assert all(0 < one.seconds < PATIENCE for one in found)
    place.poll(other)
    assert [one.outcome for one in place.feeds.polls(other)] == ["fetch_status"]
    monkeypatch.setattr(feed_repository, "MOST", 2)
    assert place.feeds.polls(feed) == [last, found[-2]]
    for _ in range(3):
        place.clock.now += 1
        place.poll(feed, other)
    kept = place.feeds.store.fetch("SELECT key, count(*) FROM state.feed_poll GROUP BY key")
    assert dict(kept) == {feed.key: 2, other.key: 2}
    assert [one.polled for one in place.feeds.polls(feed)] == [place.clock.now, place.clock.now - 1]
    place.feeds.remove(place.feeds[feed.key])
    assert place.feeds.polls(feed) == []
    assert len(place.feeds.polls(other)) == 2
