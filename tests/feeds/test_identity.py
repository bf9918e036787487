"""Identities over several answers of a feed: repeated guids, guids that are written otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from feeds.formats.entries import FeedChannel, FeedEntry
from feeds.formats.items import make_items
from xscl.polling.feed import Feed
from xscl.polling.new_items import ItemVersion, new_items

FEED = Feed("http://example.org/f", key="f-1", stream="s", tags=(), every=60, added=0, polls=1)


@dataclass
class Follower:
    """The state that is kept of a feed, and the ids of the documents of its last answer."""

    seen: dict[str, ItemVersion] = field(default_factory=dict)
    now: int = 10**15

    def answer(self, *entries: FeedEntry) -> list[str]:
        """Return the identities of the new and changed items of an answer."""
        self.now += 1
        channel = FeedChannel("rss20", entries=entries)
        found = new_items(FEED, make_items(channel, "http://c/", self.now), self.seen, self.now)
        self.seen |= dict(found.items)
        return sorted(document.id.partition("#")[2] for document in found.documents)


@pytest.fixture
def follower() -> Follower:
    return Follower()


def shared(*titles: str) -> list[FeedEntry]:
    return [FeedEntry(guid="g", link="http://x/1", title=title) for title in titles]


def test_entries_with_one_guid_and_link_are_told_apart_by_their_place(follower: Follower) -> None:
    assert follower.answer(*shared("b", "a")) == ["g http://x/1 #1", "g http://x/1 #2"]
    assert follower.answer(*shared("b", "a")) == []


@pytest.mark.parametrize(
    ("titles", "changed"),
    [
        (("c", "b", "A"), ["#1"]),
        (("c", "B", "a"), ["#2"]),
        (("C", "b", "a"), ["#3"]),
        (("C", "B", "a"), ["#2", "#3"]),
        (("C", "B", "A"), ["#1", "#2", "#3"]),
        (("d", "c", "b", "a"), ["#4"]),
        (("d", "c", "b"), ["#4"]),
        (("d", "c", "B", "a"), ["#2", "#4"]),
        (("b", "a"), []),
        (("a", "b", "c"), []),
        (("d", "C", "b", "a"), ["#3", "#4"]),
    ],
)
def test_an_edit_is_a_version_and_what_is_on_top_is_new(
    follower: Follower, titles: Sequence[str], changed: Sequence[str]
) -> None:
    follower.answer(*shared("c", "b", "a"))
    assert follower.answer(*shared(*titles)) == [f"g http://x/1 {place}" for place in changed]
    assert follower.answer(*shared(*titles)) == []


def test_a_window_over_entries_with_one_guid_loses_none(follower: Follower) -> None:
    """A publisher with one guid for everything: each new entry is a new item."""
    texts = [f"t{number}" for number in range(30)]
    follower.answer(*shared(*reversed(texts[:5])))
    for start in range(1, 26):
        assert len(follower.answer(*shared(*reversed(texts[start : start + 5])))) == 1
    assert len(follower.seen) == 30
    assert {row.versions for row in follower.seen.values()} == {1}


def test_a_second_entry_with_a_guid_leaves_the_first_its_name(follower: Follower) -> None:
    assert follower.answer(*shared("a")) == ["g"]
    assert follower.answer(*shared("b", "a")) == ["g http://x/1 #1"]
    assert follower.answer(*shared("b", "A")) == ["g"]
    assert follower.answer(*shared("B", "A")) == ["g http://x/1 #1"]
    assert follower.answer(*shared("B")) == []


def articles(guid: str, *numbers: int) -> list[FeedEntry]:
    return [
        FeedEntry(guid=guid.format(n), link=f"http://x/{n}", title=f"Article {n}", content="text")
        for n in numbers
    ]


def test_guids_that_are_all_written_otherwise_are_the_same_items(follower: Follower) -> None:
    old = follower.answer(*articles("http://x/?p={}", 4, 3, 2, 1))
    assert follower.answer(*articles("tag:x,2026:{}", 5, 4, 3, 2)) == ["tag:x,2026:5"]
    assert follower.answer(*articles("tag:x,2026:{}", 6, 5, 4, 3)) == ["tag:x,2026:6"]
    *above, edited = articles("tag:x,2026:{}", 5, 4, 3)
    assert follower.answer(*above, replace(edited, content="edited")) == ["http://x/?p=3"]
    *above, moved = articles("tag:x,2026:{}", 5, 4, 3)
    assert follower.answer(*above, replace(moved, link="http://x/moved")) == ["http://x/?p=3"]
    assert {*old, "tag:x,2026:5", "tag:x,2026:6"} == follower.seen.keys()


def test_guids_that_change_with_the_scheme_of_links_are_the_same_items(follower: Follower) -> None:
    follower.answer(*articles("http://x/{}", 3, 2, 1))
    entries = [
        replace(each, guid=f"https://www.x/{each.link}", link=f"https://www.{each.link[7:]}/")
        for each in articles("", 3, 2, 1)
        if each.link
    ]
    assert follower.answer(*entries) == ["http://x/1", "http://x/2", "http://x/3"]
    assert follower.answer(*entries) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (articles("a{}", 2, 1), articles("b{}", 2, 1)),
        (articles("a{}", 8, 7, 6, 5, 4, 3, 2, 1), articles("a{}", 9, 8, 7, 6) + articles("b{}", 3)),
        (articles("a{}", 3, 2, 1), [replace(e, title="News") for e in articles("b{}", 3, 2, 1)]),
        (
            [replace(e, link="http://x/", title="Daily") for e in articles("a{}", 4, 3, 2, 1)],
            [replace(e, link="http://x/", title="Daily") for e in articles("b{}", 4, 3, 2, 1)],
        ),
    ],
    ids=["too few", "one only", "other titles", "one link and title for all"],
)
def test_other_new_guids_are_new_items(
    follower: Follower, before: Sequence[FeedEntry], after: Sequence[FeedEntry]
) -> None:
    follower.answer(*before)
    known = {entry.guid for entry in before}
    assert follower.answer(*after) == sorted(str(e.guid) for e in after if e.guid not in known)


def test_thousands_of_entries_with_one_guid_are_told_apart(follower: Follower) -> None:
    many = shared(*(f"t{number}" for number in range(1_000)))
    assert len(follower.answer(*many)) == 1_000
    assert follower.answer(*shared("edited"), *many[1:]) == ["g http://x/1 #1000"]
