"""Memory of a feed's items: shown items are never forgotten, the rest is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.items import FeedItem
from feeds.formats.parse import parse_feed
from tests.corpus import OWN
from tests.examples import examples
from tests.xscl.polling.scripted import Place, reply, rss
from xscl.polling.feed import Feed
from xscl.polling.new_items import VERSIONS, ItemVersion, NewItems, item_hash, new_items

FEED = Feed("http://a.example/", key="k", stream="s", tags=(), every=60, added=0, polls=1)


def taken(
    seen: dict[str, ItemVersion], titles: list[str], now: int
) -> tuple[NewItems, dict[str, ItemVersion]]:
    """The new items of an answer, and the remembered items after it."""
    found = new_items(FEED, parse_feed(rss(*titles), seen_at=now).items, seen, now)
    rest = {name: row for name, row in seen.items() if name not in found.forgotten}
    return found, rest | dict(found.items)


def test_an_item_that_has_left_is_marked_and_comes_back_as_known() -> None:
    _, seen = taken({}, ["one", "two"], 1)
    assert [row.missing_since for row in seen.values()] == [None, None]
    found, seen = taken(seen, ["two"], 2)
    assert (found.documents, seen["one"].missing_since) == ((), 2)
    found, seen = taken(seen, ["two"], 3)
    assert (found.items, seen["one"].missing_since) == ((), 2)
    found, seen = taken(seen, ["one"], 4)
    assert found.documents == ()
    assert (seen["one"].missing_since, seen["two"].missing_since) == (None, 4)


@examples(25)
@given(
    st.lists(st.sets(st.integers(0, 40), max_size=12), min_size=5, max_size=40),
    st.integers(0, 9),
)
def test_what_a_feed_shows_is_never_new_twice_and_the_rest_is_bounded(
    answers: list[set[int]], kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xscl.polling.new_items.KEPT", kept)
        seen: dict[str, ItemVersion] = {}
        last: set[str] = set()
        gone: list[str] = []  # in the order in which they left the answers
        for now, answer in enumerate(answers):
            titles = [f"i{number}" for number in sorted(answer)]
            found, seen = taken(seen, titles, now)
            new = {document.id.partition("#")[2] for document in found.documents}
            assert new <= set(titles) - last
            gone += sorted(last - set(titles))
            known = {name for name in gone[-kept:] if kept and name in titles}
            assert not new & known
            assert set(titles) <= seen.keys()
            assert len(seen) <= len(titles) + kept + kept // 10
            gone = [name for name in gone if name not in titles]
            last = set(titles)


def test_edits_that_are_not_passed_on_are_counted(place: Place) -> None:
    edits = [rss(f"one {number}") for number in range(VERSIONS + 3)]
    place.server.says("/f", *map(reply, edits))
    feed = place.follow(place.server.url("/f"))
    new = [place.poll()[0].new for _ in edits]
    assert new == [1] * VERSIONS + [0] * 3
    listed = place.listed(feed)
    assert (listed["versions"], listed["skipped"]) == (VERSIONS, 3)
    assert place.poll()[0].new == 0
    changed = dict.fromkeys(("polled", "next_poll", "polls"))
    assert place.listed(feed) | changed == listed | changed


def test_f9_a_time_that_was_clipped_or_guessed_is_seen(place: Place) -> None:
    written = {"ahead": "2100-01-01", "past": "2013-03-19", "vague": "soon"}
    items = "".join(
        f"<item><guid>{guid}</guid><pubDate>{date}</pubDate></item>"
        for guid, date in written.items()
    )
    body = f'<rss version="2.0"><channel><title>S</title>{items}</channel></rss>'.encode()
    place.server.says("/f", reply(body), reply(body.replace(b"2100", b"2101")))
    feed = place.follow(place.server.url("/f"))
    for _ in range(2):
        place.poll()
        listed = place.listed(feed)
        assert (listed["items"], listed["clipped"], listed["undated"]) == (3, 1, 1)
        told = place.engine.sql(
            "SELECT identity, time_from, clipped, written FROM state.feed_item ORDER BY 1"
        ).to_pylist()
        assert [tuple(row.values()) for row in told] == [
            ("ahead", "published", True, "2100-01-01"),
            ("past", "published", False, None),
            ("vague", "seen_at", False, "soon"),
        ]


# -- Hashes of items -----------------------------------------------------------------------


SEEN = 1_790_000_000_000_000
OWNED = replace(FEED, url="http://example.org/f", key="_7.example.org-0123456789")


def items(file: str, *, seen_at: int = SEEN + 60) -> tuple[FeedItem, ...]:
    body = (OWN / (file if "/" in file else f"feeds/{file}")).read_bytes()
    return parse_feed(body, url="http://example.org/f", seen_at=seen_at).items


def test_a_document_has_the_key_of_its_feed_and_the_hash_of_its_item() -> None:
    found = new_items(OWNED, items("town-rss20.xml"), {}, 1)
    memory = dict(found.items)
    for document in found.documents:
        assert document.xml.count(b"<feed>example.org-0123456789</feed>") == 1
        assert item_hash(document.xml) == memory[document.id.partition("#")[2]].hash


def feed_of(title: str, description: str = "d", more: str = "") -> bytes:
    item = f"<item>{more}<title>{title}</title><description>{description}</description></item>"
    return f"<rss><channel>{item}</channel></rss>".encode()


def versions(*bodies: bytes) -> list[int]:
    """Return the number of new documents of each answer, in order."""
    seen: dict[str, ItemVersion] = {}
    counts = []
    for now, body in enumerate(bodies, 1):
        found = new_items(OWNED, parse_feed(body, seen_at=SEEN).items, seen, now)
        assert bool(found.items) is bool(found.documents)
        seen |= found.items
        counts.append(len(found.documents))
    return counts


@pytest.mark.parametrize("more", ["<guid>1</guid>", ""])
def test_layout_is_no_new_version_and_no_new_item(more: str) -> None:
    """White space at the ends of texts, more of it between words, and beside tags of HTML."""
    plain = feed_of("Ferry stops", "&lt;p>It is &lt;b>late&lt;/b>.&lt;/p>", more)
    laid_out = feed_of(
        "\n   Ferry\n   stops\n", "\n  &lt;p>It is &lt;b>late&lt;/b>.&lt;/p>\n", more
    )
    assert versions(plain, laid_out) == [1, 0]


@pytest.mark.parametrize("title", ["Ferry stop", "Ferrystops", "Ferry stops."])
def test_another_word_is_a_new_version(title: str) -> None:
    titles = ("Ferry stops", title)
    assert versions(*(feed_of(each, more="<guid>1</guid>") for each in titles)) == [1, 1]


def test_indented_markup_is_no_new_version() -> None:
    body = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><content type="xhtml">'
        '<div xmlns="http://www.w3.org/1999/xhtml"><p>a</p><p>b</p></div></content></entry></feed>'
    )
    indented = body.replace("><p", ">\n   <p").replace("</p></", "</p>\n  </")
    assert versions(body.encode(), indented.encode()) == [1, 0]
