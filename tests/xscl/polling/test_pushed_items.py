"""Items of pushes: with polls in any order they are those of polls alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.formats.parse import parse_feed
from xscl.polling.feed import Feed
from xscl.polling.new_items import ItemVersion, new_items, pushed_items

FEED = Feed("example.org-1", "http://example.org/f", "s", (), 60, 0, polls=1)
SEEN = 1_790_000_000_000_000

Entry = tuple[str, int]
"""The guid or link of an entry, and its version."""


def body(entries: Sequence[Entry]) -> bytes:
    items = "".join(
        f"<item>{name}<title>{name.strip('<>/guidlnk')} {version}</title></item>"
        for name, version in entries
    )
    return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


class Reader:
    """A feed as it is remembered, and what went to the spool: ids with titles."""

    def __init__(self) -> None:
        self.seen: dict[str, ItemVersion] = {}
        self.spooled: list[tuple[str, bytes]] = []
        self.now = SEEN

    def poll(self, state: Sequence[Entry]) -> None:
        self._read(state, is_push=False)

    def push(self, state: Sequence[Entry], sent: Sequence[Entry]) -> None:
        """Take what a hub sends of a state; a poll follows if it has to."""
        if self._read(sent, is_push=True):
            self.poll(state)

    def _read(self, entries: Sequence[Entry], is_push: bool) -> bool:
        self.now += 60_000_000
        items = parse_feed(body(entries), url=FEED.url, seen_at=self.now).items
        if is_push:
            found, needs_poll = pushed_items(FEED, items, self.seen, self.now)
        else:
            found, needs_poll = new_items(FEED, items, self.seen, self.now), False
        self.seen |= found.items
        self.spooled += [(one.id, one.xml.partition(b"<title>")[2][:20]) for one in found.documents]
        return needs_poll


@st.composite
def histories(draw: st.DrawFn) -> list[list[Entry]]:
    """States of a feed: entries come on top, change, and leave at the end."""
    state: list[Entry] = []
    states: list[list[Entry]] = []
    for number in range(draw(st.integers(1, 8))):
        for each in range(draw(st.integers(0, 2))):
            form = draw(st.sampled_from(["<guid>g{}</guid>", "<link>http://l.example/{}</link>"]))
            state = [(form.format(f"{number}-{each}"), 0), *state]
        edited = draw(st.sets(st.integers(0, 9), max_size=2))
        state = [(name, v + (at in edited)) for at, (name, v) in enumerate(state)]
        states.append(state[: draw(st.integers(1, 12))])
        state = states[-1]
    return states


@settings(max_examples=25)
@given(histories(), st.data())
def test_pushes_and_polls_in_any_order_give_the_items_of_polls(
    states: list[list[Entry]], data: st.DataObject
) -> None:
    polled, both = Reader(), Reader()
    before: list[Entry] = []
    for number, state in enumerate(states):
        polled.poll(state)
        part = [entry for entry in state if entry not in before]
        ways = st.lists(st.sampled_from(["poll", "whole", "part"]), min_size=1, max_size=4)
        for way in data.draw(ways):
            if way == "poll":
                both.poll(state)
            else:
                both.push(state, state if way == "whole" else part)
        for late in data.draw(st.lists(st.sampled_from(states[: number + 1]), max_size=2)):
            both.push(state, late)
        before = state
    assert sorted(both.spooled) == sorted(polled.spooled)
    assert both.seen.keys() == polled.seen.keys()
    for name, row in polled.seen.items():
        assert replace(both.seen[name], missing_since=row.missing_since) == row


def test_a_push_that_is_older_than_the_last_poll_changes_nothing_by_itself() -> None:
    reader = Reader()
    new: list[Entry] = [("<guid>a</guid>", 1)]
    reader.poll(new)
    reader.push(new, [("<guid>a</guid>", 0)])
    assert len(reader.spooled) == 1


def test_entries_that_share_a_guid_are_left_to_a_poll() -> None:
    one, other = ("<guid>g</guid>", 0), ("<guid>g</guid>", 1)
    items = parse_feed(body([one, other]), url=FEED.url, seen_at=SEEN).items
    found, needs_poll = pushed_items(FEED, items, {}, SEEN)
    assert (found.documents, found.items, needs_poll) == ((), (), True)
    known = dict(new_items(FEED, items[:1], {}, SEEN).items)
    assert pushed_items(FEED, items[1:], known, SEEN)[1]


def test_items_that_a_push_does_not_have_are_not_missing() -> None:
    reader = Reader()
    reader.poll([("<guid>a</guid>", 0)])
    reader.push([], [("<guid>b</guid>", 0)])
    assert {row.missing_since for row in reader.seen.values()} == {None}
