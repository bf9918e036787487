"""Identity, versions, times and the canonical document."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.formats.entries import Category, Enclosure, FeedChannel, FeedEntry
from feeds.formats.items import LEAVES, LONGEST_TITLE, FeedItem, make_items
from feeds.formats.times import parse_time

SEEN = 1_363_687_200_000_000  # 2013-03-19T10:00:00Z


def items(*entries: FeedEntry, seen_at: int = SEEN, title: str = "") -> tuple[FeedItem, ...]:
    channel = FeedChannel("rss20", title=title, entries=entries)
    return make_items(channel, "http://example.org/feed", seen_at)


def identities(*entries: FeedEntry) -> list[tuple[str, str]]:
    return [(item.identity, item.rule) for item in items(*entries)]


def test_f8_first_rule_that_fires() -> None:
    file = Enclosure("http://x/f.mp3")
    assert identities(
        FeedEntry(guid=" g1\n", link="http://x/1"),
        FeedEntry(guid="g2", link="http://x/2"),
        FeedEntry(guid="g2", link="http://x/3"),
        FeedEntry(link="http://x/4", enclosures=(file,)),
        FeedEntry(link="http://x/same", enclosures=(Enclosure("http://x/g.mp3"),)),
        FeedEntry(link="http://x/same", title="t"),
    )[:5] == [
        ("g1", "guid"),
        ("g2 http://x/2", "guid+link"),
        ("g2 http://x/3", "guid+link"),
        ("http://x/4", "link"),
        ("http://x/g.mp3", "enclosure"),
    ]


def test_f8_hash_is_the_last_rule_and_depends_on_the_content_alone() -> None:
    (first,), (second,) = items(FeedEntry(title="a")), items(FeedEntry(title="a", published="2013"))
    (other,) = items(FeedEntry(title="b"))
    assert first.rule == "hash"
    assert first.identity == second.identity != other.identity
    assert re.fullmatch("sha256:[0-9a-f]{64}", first.identity)


def test_f8_repeated_guid_without_a_link_is_told_apart_by_place() -> None:
    found = identities(FeedEntry(guid="g", title="a"), FeedEntry(guid="g", title="b"))
    assert found == [("g #2", "guid+place"), ("g #1", "guid+place")]


def test_f8_long_guid_is_hashed() -> None:
    (item,) = items(FeedEntry(guid="g" * 1_000_000))
    assert len(item.identity) == len("sha256:") + 64
    assert len(item.canonical) < 1_000


def test_f8_changed_title_is_a_new_version_of_the_same_item() -> None:
    (old,), (new,) = items(FeedEntry(guid="g", title="a")), items(FeedEntry(guid="g", title="b"))
    assert old.identity == new.identity
    assert old.names.content_hash != new.names.content_hash


def test_dates_and_time_of_the_poll_are_no_new_version() -> None:
    entry = FeedEntry(guid="g", title="a", updated="2013-01-01")
    (old,) = items(entry)
    (new,) = items(replace(entry, updated="2013-01-02"), seen_at=SEEN + 1)
    assert old.names.content_hash == new.names.content_hash


ENTRY = FeedEntry(
    "g", "l", "t", "d", "c", ("a",), (Category("k"),), "2013", "2013", (Enclosure("u", "m"),)
)


@pytest.mark.parametrize(
    "changed",
    [
        replace(ENTRY, link="x"),
        replace(ENTRY, title="x"),
        replace(ENTRY, description="x"),
        replace(ENTRY, content="x"),
        replace(ENTRY, authors=("x",)),
        replace(ENTRY, authors=("a", "k"), categories=()),
        replace(ENTRY, categories=(Category("x"),)),
        replace(ENTRY, enclosures=(Enclosure("u", "x"),)),
        replace(ENTRY, description="dc", content=None),
    ],
)
def test_each_part_counts_for_the_version(changed: FeedEntry) -> None:
    assert items(changed)[0].names.content_hash != items(ENTRY)[0].names.content_hash


@pytest.mark.parametrize(
    ("published", "updated", "time", "source", "clipped"),
    [
        ("2013-03-18", "2013-03-19", "2013-03-18", "published", False),
        (None, "2013-03-17", "2013-03-17", "updated", False),
        ("soon", "2013-03-17", "2013-03-17", "updated", False),
        ("2015-03-18", None, "2013-03-19T10:00:00Z", "published", True),
        ("9999-12-31T23:59:59Z", "2013-03-17", "2013-03-19T10:00:00Z", "published", True),
        ("9999-12-31T23:59:59-14:00", None, "2013-03-19T10:00:00Z", "seen_at", False),
        ("0001-01-01T00:00:00+14:00", None, "2013-03-19T10:00:00Z", "seen_at", False),
        (None, None, "2013-03-19T10:00:00Z", "seen_at", False),
        ("2013-03-19T10:00:00Z", None, "2013-03-19T10:00:00Z", "published", False),
        ("2013-03-19T10:00:00.000001Z", None, "2013-03-19T10:00:00Z", "published", True),
    ],
)
def test_f9_event_time(
    published: str | None, updated: str | None, time: str, source: str, clipped: bool
) -> None:
    (item,) = items(FeedEntry(guid="g", published=published, updated=updated))
    assert item.timestamp == parse_time(time)
    assert (item.time_from, item.clipped) == (source, clipped)
    assert (item.published_raw, item.updated_raw) == (published, updated)


def test_each_item_has_the_title_of_its_feed_in_one_line_and_bounded() -> None:
    (item,) = items(FeedEntry(guid="1"), title=f"\n The  News & {'x' * 1_000_000}")
    title = etree.fromstring(item.canonical).findtext("feed_title")
    assert title is not None
    assert title.startswith("The News & x")
    assert len(title) == LONGEST_TITLE


def test_leaves_are_those_of_an_item_with_all_of_them() -> None:
    entry = FeedEntry(
        *("1", "http://x/", "<b>t</b>", "d", "c"),
        authors=("Ann",),
        categories=(Category("k"),),
        published="Tue, 19 Mar 2013 10:00:00 +0100",
        updated="Tue, 19 Mar 2013 10:00:00 +0100",
        article="http://y/",
        comments="c",
        source="s",
        rights="r",
        image="i",
        duration=1,
    )
    root = etree.fromstring(items(entry, title="News")[0].in_feed("f"))
    assert tuple(child.tag for child in root) == LEAVES


def test_what_the_feed_lacks_is_left_out() -> None:
    """Two items without a title must not have equal titles."""
    root = etree.fromstring(items(FeedEntry(guid="1"))[0].canonical)
    assert [leaf.tag for leaf in root] == ["id", "channel_url", "seen_at"]


ANY = st.text(st.characters(codec=None), max_size=20)
XML_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def allowed(text: str) -> str:
    """The text without what XML forbids, C1 control characters being those of Windows-1252."""
    meant = (
        bytes([ord(c)]).decode("cp1252", "replace") if "\x80" <= c <= "\x9f" else c for c in text
    )
    return XML_CHARACTERS.sub("", "".join(meant))


@given(title=ANY, guid=ANY, author=ANY, url=ANY)
def test_any_text_is_written_exactly_less_what_xml_forbids(
    title: str, guid: str, author: str, url: str
) -> None:
    entry = FeedEntry(
        guid=guid, title=title, authors=(author,), enclosures=(Enclosure(url, title),)
    )
    (item,) = items(entry)
    root = etree.fromstring(item.canonical)
    raw_title = root.findtext("raw_title") or root.findtext("title") or ""
    assert raw_title == allowed(title)
    assert (root.findtext("author") or "") == allowed(author)
    assert root.xpath("string(enclosure/@url)") == allowed(url)
    assert root.findtext("id") == item.identity
