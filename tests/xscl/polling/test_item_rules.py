"""Hashes of items: what is a new version, and what is only another layout."""

from __future__ import annotations

import pytest

from feeds.formats.items import FeedItem
from feeds.formats.parse import parse_feed
from tests.corpus import OWN
from xscl.polling.feed import Feed
from xscl.polling.new_items import item_hash, new_items

SEEN = 1_790_000_000_000_000
FEED = Feed("_7.example.org-0123456789", "http://example.org/f", "s", (), 60, 0, polls=1)


def items(file: str, *, seen_at: int = SEEN + 60) -> tuple[FeedItem, ...]:
    body = (OWN / (file if "/" in file else f"feeds/{file}")).read_bytes()
    return parse_feed(body, url="http://example.org/f", seen_at=seen_at).items


def test_a_document_has_the_key_of_its_feed_and_the_hash_of_its_item() -> None:
    found = new_items(FEED, items("town-rss20.xml"), {}, 1)
    memory = dict(found.items)
    for document in found.documents:
        assert document.xml.count(b"<feed>example.org-0123456789</feed>") == 1
        assert item_hash(document.xml) == memory[document.id.partition("#")[2]].hash


def feed_of(title: str, description: str = "d", more: str = "") -> bytes:
    item = f"<item>{more}<title>{title}</title><description>{description}</description></item>"
    return f"<rss><channel>{item}</channel></rss>".encode()


@pytest.mark.parametrize("more", ["<guid>1</guid>", ""])
def test_layout_is_no_new_version_and_no_new_item(more: str) -> None:
    """White space at the ends of texts, more of it between words, and beside tags of HTML."""
    plain = feed_of("Ferry stops", "&lt;p>It is &lt;b>late&lt;/b>.&lt;/p>", more)
    laid_out = feed_of(
        "\n   Ferry\n   stops\n", "\n  &lt;p>It is &lt;b>late&lt;/b>.&lt;/p>\n", more
    )
    first = new_items(FEED, parse_feed(plain, seen_at=SEEN).items, {}, 1)
    again = new_items(FEED, parse_feed(laid_out, seen_at=SEEN).items, dict(first.items), 2)
    assert len(first.documents) == 1
    assert (again.documents, again.items) == ((), ())


@pytest.mark.parametrize("title", ["Ferry stop", "Ferrystops", "Ferry stops."])
def test_another_word_is_a_new_version(title: str) -> None:
    bodies = (feed_of(each, more="<guid>1</guid>") for each in ("Ferry stops", title))
    one, other = (parse_feed(body, seen_at=SEEN).items for body in bodies)
    seen = dict(new_items(FEED, one, {}, 1).items)
    assert len(new_items(FEED, other, seen, 2).documents) == 1


def test_indented_markup_is_no_new_version() -> None:
    body = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><content type="xhtml">'
        '<div xmlns="http://www.w3.org/1999/xhtml"><p>a</p><p>b</p></div></content></entry></feed>'
    )
    indented = body.replace("><p", ">\n   <p").replace("</p></", "</p>\n  </")
    one, other = (parse_feed(each.encode(), seen_at=SEEN).items for each in (body, indented))
    seen = dict(new_items(FEED, one, {}, 1).items)
    assert new_items(FEED, other, seen, 2).documents == ()
