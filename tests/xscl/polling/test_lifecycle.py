"""The life cycle of a feed by its answers, as pure functions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.parse import parse_feed
from feeds.http.fetch import Failed, Fetched, NotModified
from feeds.http.schedule import PollHints
from xscl.polling.feed import LOST_AFTER, SECOND, Feed, feed_key, shown, split_user, tag_name
from xscl.polling.lifecycle import (
    MOVES,
    SEARCHES,
    announced,
    answered,
    failed,
    held_until,
    settled,
)

URL = "http://a.example/f"
FEED = Feed(URL, key=feed_key(URL), stream="a.example", tags=(), every=3600, added=0)
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
RSS = b"<rss version='2.0'><channel><title>t</title>%s</channel></rss>"
FAILURE = Failed("fetch_status", "the server answered 404 Not Found", status=404)


def well(feed: Feed, now: int, moved_to: str | None = None, max_age: int | None = None) -> Feed:
    outcome = NotModified(feed, PollHints(max_age=max_age), moved_to)
    return settled(answered(feed, outcome, None, now))


@pytest.mark.parametrize("count", [0, 1])
def test_validators_of_an_answer_without_items_are_not_kept(count: int) -> None:
    body = RSS % (b"<item><title>a</title></item>" * count)
    outcome = Fetched(replace(FEED, etag='"7"', last_modified="now"), body, URL)
    feed = answered(FEED, outcome, parse_feed(body, seen_at=0), 0)
    assert (feed.etag, feed.last_modified) == (('"7"', "now") if count else (None, None))


def test_a_feed_that_only_fails_is_lost_after_a_week() -> None:
    feed = failed(FEED, FAILURE, 0)
    assert failed(feed, FAILURE, LOST_AFTER - 1).state == "failing"
    lost = failed(feed, FAILURE, LOST_AFTER)
    assert lost.state == "lost"
    assert lost.next_poll - LOST_AFTER <= DAY
    assert well(lost, LOST_AFTER + DAY).state == "ok"


def test_a_move_is_believed_after_some_answers_in_a_row() -> None:
    feed = FEED
    for number in range(MOVES - 1):
        feed = well(feed, number, "http://b.example/")
        assert feed.url == URL
    assert well(feed, 9).moved_polls == 0  # an answer from here
    assert well(feed, 9, "http://c.example/").moved_polls == 1  # from elsewhere
    assert failed(feed, FAILURE, 9).moved_polls == 0
    moved = well(feed, 9, "http://ann:pw@b.example/")
    assert (moved.url, moved.key, moved.moved_to) == ("http://b.example/", FEED.key, None)


def test_a_page_is_searched_only_where_no_feed_has_been() -> None:
    urls = (URL, *(f"http://a.example/{n}" for n in range(9)))
    failure = Failed("fetch_html", "a page", discovered=urls)
    assert [feed.url for feed in announced(FEED, failure)] == list(urls[1 : SEARCHES + 1])
    assert announced(replace(FEED, polls=1), failure) == ()
    assert announced(FEED, FAILURE) == ()


HELD = {(429, 60): 60, (429, None): 300, (503, 60): 60, (429, 10**9): 86_400}


def test_how_long_a_domain_is_left_alone() -> None:
    for (status, retry_after), seconds in HELD.items():
        failure = Failed("fetch_status", "", retry_after, status)
        assert held_until(failure, 7) == 7 + seconds * SECOND
    assert held_until(Failed("fetch_status", "", None, 503), 7) is None


NUMBERS = st.none() | st.integers(-(10**12), 10**12)
STEPS = st.lists(
    st.tuples(st.sampled_from(["well", "ill", "moved"]), NUMBERS, st.integers(0, 40 * DAY)),
    max_size=12,
)


@given(STEPS)
def test_whatever_servers_say_the_next_poll_comes_within_a_day(
    steps: list[tuple[str, int | None, int]],
) -> None:
    feed, now = FEED, 0
    for kind, number, passed in steps:
        now += passed
        match kind:
            case "ill":
                feed = failed(feed, replace(FAILURE, retry_after=number), now)
            case "moved":
                feed = well(feed, now, f"http://b.example/{number}")
            case _:
                feed = well(feed, now, max_age=number or 0)
        assert 300 * SECOND <= feed.next_poll - now <= DAY
        assert (feed.error is None) == (feed.failures == 0) == (feed.failing_since is None)
        assert feed.key == FEED.key
    assert well(feed, now, max_age=0).next_poll - now >= 3_600 * SECOND


# -- What is shown -------------------------------------------------------------------------


SHOWN = {
    "https://u:p@a.example/f?x=1": "https://a.example/f?x=1",
    "https://a.example/f?API_KEY=a%20b&x=1": "https://a.example/f?API_KEY=***&x=1",
    "https://a.example/f?x=1&auth_token=t#top": "https://a.example/f?x=1&auth_token=***",
    "https://a.example/f?feed=rss2": "https://a.example/f?feed=rss2",
}


def test_what_is_shown_of_an_address() -> None:
    assert {url: shown(url) for url in SHOWN} == SHOWN


def test_user_and_password_become_a_header() -> None:
    header = ("Authorization", "Basic YUBiOnA6dw==")
    found = split_user("http://a%40b:p%3Aw@h.example:81/x")
    assert found == ("http://h.example:81/x", (header,))
    assert split_user("http://h.example/x@y") == ("http://h.example/x@y", ())


NAMES = {
    **{"Tech & Science": "Tech-Science", "C++": "C", "2024": "_2024", "Газета": "Газета"},
    **{" --- ": "", "a//b>c": "a-b-c"},
}


def test_folders_become_names_that_queries_can_write() -> None:
    assert {text: tag_name(text) for text in NAMES} == NAMES
