"""Reading feeds by xscl and by what a user would pick instead: the work `feeds` of `peers`.

Ours has every field of an item, its identity, its hash and its canonical document; feedparser makes
HTML safe and resolves links in it, feedparser unsanitised does not.  Titles and links must be equal
before a time is reported.  The readers take turns; times are processor time.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import feedparser
from lxml import etree

from benchmarks.feed_bodies import bodies
from benchmarks.harness import Row, Value, interleaved, require_equal
from feeds.formats.parse import parse_feed

SEED = 29
ENTRIES = (10, 100)
FEEDS, QUICK_FEEDS = 20, 5
FAST = "fastfeedparser"
OURS = "xscl"
NOW = 1_700_000_000_000_000

Side: TypeAlias = Callable[[bytes], Sequence[Any]]


def compared(name: str, feeds: int, entries: int) -> Iterator[Row]:
    """Yield the rates of all readers on the same bodies, as rows of a benchmark."""
    written = bodies(feeds, entries, SEED)
    sides = readers()
    found = {
        side: [pair for body in written for pair in map(_pair, read(body))]
        for side, read in sides.items()
    }
    for side, pairs in found.items():
        require_equal(pairs, found[OURS], side)

    def seconds(read: Side) -> float:
        began = time.process_time()
        for body in written:
            read(body)
        return time.process_time() - began

    spent = interleaved({side: partial(seconds, read) for side, read in sides.items()})
    for side, duration in spent.items():
        figures: dict[str, Value] = {
            "feeds_per_s": feeds / duration,
            "items_per_s": feeds * entries / duration,
            "ratio": duration / spent[OURS],
        }
        yield Row(name, _parameters(side, entries), figures)
    if FAST not in sides:
        yield Row(name, _parameters(FAST, entries), {"failure": f"{FAST} is not installed"})


def _parameters(side: str, entries: int) -> dict[str, Value]:
    return {"work": "feeds", "variant": side, "entries": entries, "input": "bytes"}


def readers() -> Mapping[str, Side]:
    """The installed readers by name: from the body of a feed to its entries."""
    sides: dict[str, Side] = {
        OURS: lambda body: parse_feed(body, url="https://example.org/feed", seen_at=NOW).items,
        "feedparser": lambda body: feedparser.parse(io.BytesIO(body)).entries,
        "feedparser unsanitised": lambda body: (
            feedparser.parse(
                io.BytesIO(body), sanitize_html=False, resolve_relative_uris=False
            ).entries
        ),
    }
    if find_spec(FAST):
        fast = import_module(FAST)
        sides[FAST] = lambda body: fast.parse(body).entries
    return sides


def _pair(entry: Any) -> tuple[str | None, str | None]:
    """The title and the address of an entry of any reader."""
    if not hasattr(entry, "canonical"):
        return entry["title"], entry["link"]
    item = etree.fromstring(entry.canonical)
    return item.findtext("title"), item.findtext("item_url")
