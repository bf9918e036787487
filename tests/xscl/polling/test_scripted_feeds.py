"""Feeds behind a scripted server: each ends in the expected state, no item lost, none doubled."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from feeds.formats.parse import MAX_ITEMS
from feeds.http.fetch import UNCONDITIONAL
from tests.examples import usually
from tests.waiting import PATIENCE, eventually
from tests.xscl.polling.scripted import (
    DAY,
    HOUR,
    START,
    Answer,
    Place,
    Server,
    moved,
    placed,
    reply,
    rss,
    serving,
)
from xscl.polling import poll_history
from xscl.polling.feed_poller import keep_polling
from xscl.polling.lifecycle import MOVES


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Iterator[Place]:
    with placed(tmp_path, server) as made:
        yield made


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


def test_f7_a_tag_that_changes_each_time_doubles_nothing(place: Place) -> None:
    answers = [reply(rss("one", "two"), f'ETag: "{number}"') for number in range(5)]
    place.server.says("/f", *answers)
    feed = place.follow(place.server.url("/f"))
    place.wait(5 * HOUR)
    assert place.server.count("/f") == 5
    assert sorted(place.titles(feed)) == ["one", "two"]


def test_f7_a_wrong_304_after_a_change_is_believed_for_a_while_only(place: Place) -> None:
    always = b"HTTP/1.1 304 Not Modified\r\n\r\n"
    script = [reply(rss("one"), 'ETag: "1"'), *[always] * UNCONDITIONAL, reply(rss("two", "one"))]
    place.server.says("/f", *script)
    feed = place.follow(place.server.url("/f"))
    place.wait(4 * DAY)
    assert place.titles(feed) == ["one", "two"]
    assert place.listed(feed)["state"] == "ok"


def test_f7_last_modified_in_the_future_goes_back_as_it_came(place: Place) -> None:
    future = "Last-Modified: Fri, 31 Dec 2100 23:59:59 GMT"
    place.server.says("/f", reply(rss("one"), future), reply(rss("two", "one"), future))
    feed = place.follow(place.server.url("/f"))
    place.wait(2 * HOUR)
    assert place.server.asked[1][1]["if-modified-since"] == "fri, 31 dec 2100 23:59:59 gmt"
    assert place.titles(feed) == ["one", "two"]


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


def test_f5_a_temporary_redirect_moves_nothing(place: Place) -> None:
    place.server.says("/f", moved("/there", "302 Found"))
    place.server.says("/there", reply(rss("one")))
    feed = place.follow(place.server.url("/f"))
    place.wait(9 * HOUR)
    assert place.server.count("/f") == place.server.count("/there") >= 8
    assert place.listed(feed)["url"] == feed.url
    assert place.titles(feed) == ["one"]


def test_f5_a_permanent_redirect_that_comes_and_goes_moves_nothing(place: Place) -> None:
    here, there = reply(rss("one")), moved("/there")
    place.server.says("/f", there, there, here, there, there, here)
    place.server.says("/there", reply(rss("one")))
    feed = place.follow(place.server.url("/f"))
    place.wait(8 * HOUR)
    assert place.listed(feed)["url"] == feed.url
    assert place.titles(feed) == ["one"]


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
    assert (
        listed["note"] == f"it has moved to {place.server.url('/there')}, which is followed already"
    )


@pytest.mark.parametrize(
    "to", ["/f", "ftp://a.example/f", "file:///etc/passwd", "http://10.0.0.1/"]
)
def test_f5_redirects_that_lead_nowhere(place: Place, to: str) -> None:
    place.server.says("/f", reply(rss("one")), moved(to))
    feed = place.follow(place.server.url("/f"))
    place.wait(3 * HOUR)
    listed = place.listed(feed)
    assert (listed["state"], listed["items"]) == ("failing", 1)
    assert listed["code"] in ("fetch_redirect", "url_private")


def test_relative_links_are_resolved_where_the_feed_was_found(place: Place) -> None:
    place.server.says("/f", moved("/deep/er/feed", "302 Found"))
    body = rss("one").replace(b"</guid>", b"</guid><link>post</link>")
    place.server.says("/deep/er/feed", reply(body))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    link = f"<item_url>{place.server.url('/deep/er/post')}</item_url>"
    assert link.encode() in place.spooled(feed)[0].xml


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


def test_404_for_days_backs_off_is_lost_and_comes_back(place: Place) -> None:
    missing = reply(b"nothing", status="404 Not Found")
    place.server.says("/f", reply(rss("one")), missing)
    feed = place.follow(place.server.url("/f"))
    place.wait(2 * DAY)
    listed = place.listed(feed)
    assert (listed["state"], listed["error"]) == ("failing", "the server answered 404 Not Found")
    assert 5 <= listed["failures"] <= 6  # after 1, 2, 4, 8, 16 hours
    place.wait(8 * DAY)
    listed = place.listed(feed)
    assert (listed["state"], listed["code"]) == ("lost", "fetch_status")
    assert 12 <= listed["failures"] <= 14  # once a day
    assert listed["failing_since"] < START + 2 * HOUR
    place.server.says("/f", reply(rss("two", "one")))
    place.wait(DAY)
    listed = place.listed(feed)
    assert (listed["state"], listed["failures"], listed["failing_since"]) == ("ok", 0, None)
    assert place.titles(feed) == ["one", "two"]


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [("86400", 24, 24), ("18000", 5, 6), ("garbage", 2, 3), ("-5", 2, 3), ("999999999", 24, 24)],
)
def test_f11_429_is_left_alone_for_as_long_as_it_says(
    place: Place, written: str, least: int, most: int
) -> None:
    place.server.says("/f", reply(b"", f"Retry-After: {written}", status="429 Too Many Requests"))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["code"]) == ("failing", "fetch_status")
    assert least * HOUR <= listed["next_poll"] - place.clock.now <= most * HOUR


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


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await writer.drain()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


LOGIN = b"<!DOCTYPE html><html><body><form action='/login'>Please log in</form></body></html>"
CUT = gzip.compress(rss("two"))[:-9]
BOMB = gzip.compress(rss(*["x" * 1000] * 20_000), 1)
DOCTYPE = b'<!DOCTYPE rss [<!ENTITY a "b">]>'

USELESS: dict[str, tuple[Answer, str]] = {
    "drip": (drip, "fetch_timeout"),
    "endless": (endless, "fetch_too_large"),
    "bomb": (reply(BOMB, "Content-Encoding: gzip"), "fetch_too_large"),
    "damaged gzip": (reply(b"\x1f\x8bnothing", "Content-Encoding: gzip"), "fetch_encoding"),
    "cut gzip": (
        reply(CUT, "Content-Encoding: gzip"),
        "fetch_incomplete",
    ),
    "brotli": (reply(b"x", "Content-Encoding: br"), "fetch_encoding"),
    "short": (reply(rss("two", "one"), length=5_000), "fetch_incomplete"),
    "long": (reply(rss("two", "one"), length=40), "xml_syntax"),
    "cut off": (reply(rss("two", "one")[:-20]), "xml_syntax"),
    "login": (reply(LOGIN, "Content-Type: text/html"), "fetch_html"),
    "empty": (reply(), "xml_syntax"),
    "entities": (reply(DOCTYPE + rss("two")), "xml_entities"),
    "another format": (reply(b"<catalogue/>"), "not_a_feed"),
    "json": (reply(b'{"error": "login required"}'), "not_a_feed"),
    "partial": (reply(rss("two"), status="206 Partial Content"), "fetch_status"),
    "refused": (reply(rss("two"), status="401 Unauthorized"), "fetch_status"),
    "broken": (reply(rss("two"), status="500 Internal Server Error"), "fetch_status"),
    "not http": (b"ftp ready\r\n\r\n", "fetch_protocol"),
    "hangs up": (hang_up, "fetch_protocol"),
}


REPRESENTATIVE = ("cut off", "damaged gzip", "bomb", "login", "entities", "not http", "drip")


@pytest.mark.parametrize("name", usually(USELESS, *REPRESENTATIVE))
def test_f1_f4_f6_a_useless_answer_fails_and_costs_no_item(tmp_path: Path, name: str) -> None:
    answer, code = USELESS[name]
    with (
        serving() as server,
        placed(tmp_path, server, seconds=2 if name == "drip" else 20, largest=300_000) as place,
    ):
        good = reply(rss("one"), 'ETag: "1"')
        server.says("/f", good, answer, answer, reply(rss("two", "one"), 'ETag: "2"'))
        feed = place.follow(server.url("/f"))
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


def test_an_unexpected_error_is_that_feeds_own(place: Place) -> None:
    place.server.says("/f", reply(rss("one")))
    broken = place.follow("http://name.broken/f")
    sound = place.follow(place.server.url("/f"))
    place.poll()
    assert place.listed(broken)["code"] == "feed_internal"
    assert place.listed(broken)["error"] == "reading the feed failed: LookupError"
    assert place.listed(sound)["state"] == "ok"


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


def test_a_page_in_the_place_of_a_feed_that_was_well_leads_nowhere(place: Place) -> None:
    place.server.says("/f", reply(rss("one")), page("/other.rss"))
    place.server.says("/other.rss", reply(rss("spam")))
    feed = place.follow(place.server.url("/f"))
    place.wait(3 * HOUR)
    listed = place.listed(feed)
    assert (listed["url"], listed["state"]) == (feed.url, "failing")
    assert listed["error"].endswith(f"the page names {place.server.url('/other.rss')}")
    assert place.server.count("/other.rss") == 0


def test_a_page_may_not_lead_to_a_private_address(place: Place) -> None:
    place.server.says("/", page("http://10.0.0.1/f", "http://localhost/f", "/real.rss"))
    place.server.says("/real.rss", reply(LOGIN))
    feed = place.follow(place.server.url("/"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["url"], listed["code"]) == ("failing", feed.url, "fetch_html")


# -- Charsets ------------------------------------------------------------------------------

NAME = "Zoë‰Ω"
CHARSETS = {
    "http is right": (rss("Zoë‰Ω", declared="iso-8859-1"), "utf-8", NAME, "mended"),
    "document is right": (rss("Zoë‰Ω", declared="utf-8"), "iso-8859-1", NAME, "strict"),
    "only bytes are right": (rss("Zoë‰Ω"), "iso-8859-1", NAME, "strict"),
    "only http knows": (rss("Zoë", encoding="cp1250"), "windows-1250", "Zoë", "mended"),
    "nobody knows": (rss("Zoë‰", encoding="cp1252"), "utf-8", "Zoë‰", "mended"),
    "mark of utf-16": (rss("Zoë‰Ω", encoding="utf-16"), "utf-8", NAME, "strict"),
    "declared": (rss("Ω", encoding="iso-8859-7", declared="iso-8859-7"), "utf-8", "Ω", "strict"),
    "unheard of": (rss("Zoë‰Ω"), "x-klingon", NAME, "strict"),
}


@pytest.mark.parametrize(
    "name", usually(CHARSETS, "http is right", "nobody knows", "mark of utf-16", "unheard of")
)
def test_conflicts_of_charsets(place: Place, name: str) -> None:
    body, charset, title, quality = CHARSETS[name]
    place.server.says("/f", reply(body, f"Content-Type: application/xml; charset={charset}"))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["quality"], listed["items"]) == ("ok", quality, 1)
    assert place.titles(feed) == [title]


# -- Items ---------------------------------------------------------------------------------


def test_f10_items_that_leave_or_change_places_are_neither_lost_nor_doubled(place: Place) -> None:
    answers = (rss("one", "two"), rss("two", "one"), rss(), rss("three", "one", "two"))
    place.server.says("/f", *map(reply, answers))
    feed = place.follow(place.server.url("/f"))
    place.wait(6 * HOUR)
    assert sorted(place.titles(feed)) == ["one", "three", "two"]
    assert place.listed(feed)["state"] == "ok"


def test_f10_a_feed_that_is_too_long_says_what_it_left_out(place: Place) -> None:
    place.server.says("/f", reply(rss(*map(str, range(MAX_ITEMS + 7)))))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    listed = place.listed(feed)
    assert (listed["state"], listed["items"]) == ("ok", MAX_ITEMS)
    assert listed["note"] == "the last 7 items were left out"


def test_f8_edits_are_versions_and_feeds_with_equal_guids_do_not_collide(place: Place) -> None:
    place.server.says("/1", reply(rss("one first")), reply(rss("one second")))
    place.server.says("/2", reply(rss("one first")))
    edited, other = (place.follow(place.server.url(path)) for path in ("/1", "/2"))
    place.wait(3 * HOUR)
    assert place.titles(edited) == ["one first", "one second"]
    assert (place.listed(edited)["items"], place.listed(edited)["versions"]) == (1, 2)
    assert place.titles(other) == ["one first"]
    assert len({document.id for document in place.spooled(edited)}) == 1


def test_the_rule_of_identity_is_kept(place: Place) -> None:
    place.server.says("/f", reply(rss("one")))
    feed = place.follow(place.server.url("/f"))
    place.poll()
    rows = place.engine.sql("SELECT identity, rule FROM state.feed_item").to_pylist()
    assert rows == [{"identity": "one", "rule": "guid"}]
    assert feed.key in place.spooled(feed)[0].id


def test_a_redirect_makes_no_new_versions(place: Place) -> None:
    place.server.says("/f", reply(rss("one")), moved("/there", "302 Found"))
    place.server.says("/there", reply(rss("one")))
    feed = place.follow(place.server.url("/f"))
    place.wait(3 * HOUR)
    assert place.server.count("/there") >= 1
    assert place.listed(feed)["versions"] == 1


# -- Secrets -------------------------------------------------------------------------------


def test_secrets_go_to_their_server_and_nowhere_else(place: Place) -> None:
    port = place.server.port
    place.server.says("/f", moved(f"http://a.example:{port}/g", "302 Found"))
    place.server.says("/g", moved(f"http://b.example:{port}/h"))
    place.server.says("/h", reply(rss("one")))
    url = f"http://ann:pw%20d@a.example:{port}/f"
    feed = place.follow(url, headers=(("X-Key", "s3cret"),))
    place.poll()
    sent = dict(place.server.asked)
    for path in ("/f", "/g"):
        assert sent[path]["x-key"] == "s3cret"
        assert sent[path]["authorization"] == "basic yw5uonb3igq="  # as the server lowers it
    assert not {"x-key", "authorization"} & set(sent["/h"])
    shown = repr(place.feeds[feed.key]) + str(place.listed(feed))
    assert not any(secret in shown for secret in ("s3cret", "ann:", "pw%20", "YW5u"))
    assert place.listed(feed)["headers"] == ["X-Key", "Authorization"]
    assert all(b"s3cret" not in d.xml and b"ann:" not in d.xml for d in place.spooled(feed))


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
    with serving() as server, placed(tmp_path, server, seconds=5, quick=True) as place:
        port = server.port
        server.says("/slow", drip)
        server.says("/f", reply(rss("one")))
        slow = [place.follow(f"http://slow.example:{port}/slow?{n}") for n in range(3)]
        for number in range(3):
            server.says(f"/slow?{number}", drip)
        fast = place.follow(f"http://b.example:{port}/f", every=60)
        also = place.follow(f"http://a.example:{port}/f", every=60)
        stopping, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                keep_polling(place.feeds, place.spool, place.fetching, stopping)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()

        def polled() -> bool:
            place.clock.now += 61_000_000  # the fast feeds are always due
            return stopping.wait(0.05) or bool(failures) or server.count("/f") >= 10

        eventually(polled)
        stopping.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert failures == []
        assert server.count("/f") >= 10
        assert server.most_at_once["slow.example"] == 1
        assert len(slow) == 3
        assert place.listed(fast)["state"] == place.listed(also)["state"] == "ok"


def test_polling_in_one_run_and_with_restarts_between_bring_the_same(tmp_path: Path) -> None:
    bodies = [
        rss("one"),
        rss("two", "one"),
        rss("three", "two changed", "one"),
        rss("four", "three"),
        rss("five", "four", "three changed"),
    ]
    with serving() as server:
        found = []
        for restarts in (False, True):
            directory = tmp_path / str(restarts)
            directory.mkdir()
            server.says("/f", *map(reply, bodies))
            with placed(directory, server) as place:
                feed = place.follow(server.url("/f"))
                if not restarts:
                    for _ in bodies:
                        place.poll()
                    found.append(place.titles(feed))
            if restarts:
                for _ in bodies:
                    with placed(directory, server) as place:
                        place.poll()
                        titles = place.titles(feed)
                found.append(titles)
        assert found[0] == found[1]
        assert Counter(found[0]) == Counter(
            ["one", "two", "three", "two changed", "four", "five", "three changed"]
        )


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
    monkeypatch.setattr(poll_history, "MOST", 2)
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
