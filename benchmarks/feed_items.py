"""A stream of feed items with five leaves from 418 channels, and subscriptions to it.

The paper's feeds (June to October 2006) are not public.  These items repeat
each other as feed items do.  An *edited* item keeps its address and mostly its
title.  A *cross-post* appears in another channel with the same title and often
the same text.  Short items repeat the title, and some items share a minute.
Every value but the channel's has a bounded number of partners, so that the
matches of an item do not grow with the join state.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product

from benchmarks.mmqjp import JoinQuery, zipf_weights
from feeds.documents import Document

LEAVES = ("item_url", "channel_url", "title", "timestamp", "description")
CHANNEL, DESCRIPTION = LEAVES.index("channel_url"), LEAVES.index("description")
CHANNELS = 418
SECOND = 1_000_000  # in ticks
DAY = 86_400 * SECOND
BETWEEN = 153 * 86_400 / 225_000  # seconds between items: June to October, 225,000 items
START = 1_149_120_000  # 1 June 2006
EDITED, CROSS_POSTED, SHORT = 0.12, 0.08, 0.1  # shares of all items
COPIES = 3  # of any one item
ZIPF = 0.8

SYLLABLES = ("ba", "de", "fi", "ko", "lu", "ma", "ne", "po", "ri", "su", "ta", "ve")
WORDS = tuple(map("".join, product(SYLLABLES, repeat=3)))
CHANNEL_ODDS = tuple(accumulate(zipf_weights(CHANNELS, 1.0)))
WORD_ODDS = tuple(accumulate(zipf_weights(len(WORDS), 1.0)))


# -- Items ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """A feed item: its number, its time in ticks, and its leaves in the order of `LEAVES`."""

    number: int
    ts: int
    values: tuple[str, ...]

    def document(self) -> Document:
        """Return the item as a document of the stream `feed`."""
        leaves = "".join(f"<{n}>{v}</{n}>" for n, v in zip(LEAVES, self.values, strict=True))
        return Document("feed", f"i{self.number}", self.ts, f"<item>{leaves}</item>".encode())


def items(count: int, seed: int) -> list[Item]:
    """Return a stream of items in the order of time."""
    return list(_Stream(random.Random(seed)).take(count))


class _Stream:
    """Generates items, some of them from recent ones."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._seconds = float(START)
        self._recent: deque[tuple[Item, list[int]]] = deque(maxlen=600)  # with copies made so far

    def take(self, count: int) -> Iterator[Item]:
        for number in range(count):
            self._seconds += self._source.expovariate(1 / BETWEEN)
            chance = self._source.random()
            fresh = self._fresh(number)
            if chance < EDITED:
                yield self._edited(fresh)
            elif chance < EDITED + CROSS_POSTED:
                yield self._cross_posted(fresh)
            else:
                self._recent.append((fresh, [0]))
                yield fresh

    def _fresh(self, number: int) -> Item:
        channel = self._source.choices(range(CHANNELS), cum_weights=CHANNEL_ODDS)[0]
        home = channel_url(channel)
        title = self._text(6)
        text = title if self._source.random() < SHORT else self._text(30)
        minute = f"minute {int(self._seconds // 60)}"
        values = (f"{home}{number}", home, title, minute, text)
        return Item(number, int(self._seconds * SECOND), values)

    def _text(self, words: int) -> str:
        return " ".join(self._source.choices(WORDS, cum_weights=WORD_ODDS, k=words))

    def _edited(self, fresh: Item) -> Item:
        """Return a fresh item turned into a new edition of a recent one."""
        origin = self._origin()
        if origin is None:
            return fresh
        url, home, title, *_ = origin.values
        if self._source.random() < 0.2:
            title = fresh.values[2]
        return replace(fresh, values=(url, home, title, *fresh.values[3:]))

    def _cross_posted(self, fresh: Item) -> Item:
        """Return a fresh item with the content of a recent one."""
        origin = self._origin()
        if origin is None:
            return fresh
        text = origin.values[4] if self._source.random() < 0.5 else fresh.values[4]
        return replace(fresh, values=(*fresh.values[:2], origin.values[2], fresh.values[3], text))

    def _origin(self) -> Item | None:
        """Return a recent item of which there are few copies so far."""
        if not self._recent:
            return None
        item, copies = self._source.choice(self._recent)
        copies[0] += 1
        return item if copies[0] <= COPIES else None


def channel_url(number: int) -> str:
    """Return the address of a channel."""
    return f"http://channel{number}.example/"


# -- Subscriptions -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wish:
    """A subscription: its joins, and the channel and keyword that the earlier item must have."""

    joins: JoinQuery
    channel: str | None = None
    keyword: str | None = None

    def query(self, window: str) -> str:
        """Return the subscription in XSCL."""
        constants = ""
        if self.channel is not None:
            constants = (
                f'[./channel_url="{self.channel}"][contains(./description, "{self.keyword}")]'
            )
        left = "".join(f"[./{LEAVES[n]}->v{i}]" for i, n in enumerate(self.joins.left, 1))
        right = "".join(f"[./{LEAVES[n]}->w{i}]" for i, n in enumerate(self.joins.right, 1))
        equal = " AND ".join(f"v{i}=w{i}" for i, _ in enumerate(self.joins.left, 1))
        earlier, later = f"feed//item->v0{constants}{left}", f"feed//item->w0{right}"
        return f"{earlier} FOLLOWED BY{{{equal}, {window}}} {later}"

    def watches(self, item: Item) -> bool:
        """Return True if an item matches the block of the earlier item."""
        return self.channel is None or (
            item.values[CHANNEL] == self.channel
            and self.keyword in item.values[DESCRIPTION].split()
        )

    def joined(self, earlier: Item, later: Item) -> bool:
        """Return True if the joined leaves of two items are equal."""
        places = zip(self.joins.left, self.joins.right, strict=True)
        return all(earlier.values[a] == later.values[b] for a, b in places)


def wishes(variant: str, count: int, seed: int) -> list[Wish]:
    """Return the subscriptions of variant `a` or `b`."""
    source = random.Random(seed)
    return _as_in_the_paper(source, count) if variant == "a" else _all_distinct(source, count)


def _as_in_the_paper(source: random.Random, count: int) -> list[Wish]:
    found: list[Wish] = []
    while len(found) < count:
        k = source.choices(range(1, 6), zipf_weights(5, ZIPF))[0]
        left, right = (tuple(source.sample(range(5), k)) for _ in range(2))
        if not left == right == (CHANNEL,):
            found.append(Wish(JoinQuery(left, right)))
    return found


def _all_distinct(source: random.Random, count: int) -> list[Wish]:
    found: dict[Wish, None] = {}
    while len(found) < count:
        k = source.choices(range(1, 6), zipf_weights(5, ZIPF))[0]
        leaves = tuple(sorted(source.sample(range(5), k)))
        channel = channel_url(source.choices(range(CHANNELS), cum_weights=CHANNEL_ODDS)[0])
        keyword = source.choices(WORDS, cum_weights=WORD_ODDS)[0]
        if leaves != (CHANNEL,):
            found.setdefault(Wish(JoinQuery(leaves, leaves), channel, keyword))
    return list(found)


def expected(
    stream: Sequence[Item], subscriptions: Sequence[Wish], window: int | None
) -> list[tuple[str, tuple[str, ...]]]:
    """Return all matches by looking at every pair: (subscription, documents)."""
    return [
        (f"s{number}", (f"i{earlier.number}", f"i{later.number}"))
        for number, wish in enumerate(subscriptions)
        for earlier in stream
        if wish.watches(earlier)
        for later in stream
        if earlier.ts < later.ts
        and (window is None or later.ts - earlier.ts <= window)
        and wish.joined(earlier, later)
    ]
