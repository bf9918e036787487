"""From the bytes of a feed to its items.

    bytes ─ mend ─▶ tree ─ a format that is XML ─▶ entries ─ items ─▶ items
          └ a format of its own | loose (feedparser) ─▶ ┘

The formats are declared in `registry`.

`quality` says how much help the feed needed: that of `mend`, or `feedparser`.  An item's
`channel_url` is the feed's own address as the feed states it, else the address of its site, else
`url`.  So an item shows a secret address that the service polls only if the publisher writes it
there or the caller passes it as `url`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace

from lxml import etree

from feeds.errors import MalformedDocument, NotAFeed
from feeds.formats import loose, trees
from feeds.formats.entries import FeedChannel, FeedHeader, split, without_user
from feeds.formats.identity import content_id
from feeds.formats.items import FeedItem, make_items
from feeds.formats.mend import ParsedTree, allowed, tree_of
from feeds.formats.registry import claiming
from feeds.xml.encoding import charset_of

MAX_ITEMS = 10_000
"""Of a longer feed the first items are taken; feeds begin with the newest."""

_LONGEST_URL = 2_000
_BEGINS_ENTRY = re.compile(rb"<(?:[\w.-]+:)?(?:item|entry)", re.IGNORECASE)
_LOOKS_LIKE_A_FEED = re.compile(rb"<(rss|feed|rdf:RDF|channel)[\s>]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedFeed(FeedHeader):
    """A feed: its header, how it was read, and its items in their order.

    `name` tells feeds apart: the address that the feed gives for itself, else its
    atom:id, else the address of its site with its title, else `url`.  `omitted` counts the items
    beyond `MAX_ITEMS`.
    """

    quality: str = ""
    items: tuple[FeedItem, ...] = ()
    name: str = ""
    omitted: int = 0


def parse_feed(
    body: bytes,
    *,
    url: str = "",
    content_type: str | None = None,
    seen_at: int,
    native: bool = False,
) -> ParsedFeed:
    """The feed in the bytes; raises `MalformedDocument` or `NotAFeed` and nothing else.

    `url` is the feed's address, for relative links; `content_type` the HTTP
    header, of which the charset counts; `seen_at` the time of the poll.  With `native` each item
    keeps its publisher's XML (`FeedItem.native`), which takes a tenth of the time.
    """
    try:
        url = without_user(url)
    except ValueError:
        url = ""
    channel, quality = _read(body, url, charset_of(content_type), native)
    omitted = max(0, len(channel.entries) - MAX_ITEMS)
    channel = replace(channel, entries=channel.entries[:MAX_ITEMS])
    named = (channel.self_url, channel.site_url, url)
    channel_url = next((each for each in named if each and len(each) <= _LONGEST_URL), "")
    return ParsedFeed(
        **{each.name: getattr(channel, each.name) for each in fields(FeedHeader)},
        quality=quality,
        items=make_items(channel, channel_url, seen_at),
        name=_name(channel, url),
        omitted=omitted,
    )


def _read(body: bytes, url: str, charset: str | None, native: bool) -> tuple[FeedChannel, str]:
    """Return the channel, and the quality of its reading (see the module)."""
    if (text := claiming(body)) is not None:
        return _known(text.read(body, url)), "strict"
    parsed = tree_of(body, charset)
    channel = _of_tree(parsed.root, url, native)
    if channel is not None and not _has_more(parsed, channel):
        return _known(channel), parsed.quality
    if channel is not None or parsed.quality == "recovered" or _LOOKS_LIKE_A_FEED.search(body):
        found = loose.read(parsed.body, url, charset if parsed.quality == "strict" else "utf-8")
        least = -1 if parsed.failure is None else 0
        if found is not None and _count(found) > max(_count(channel), least):
            return _known(found), "feedparser"
    if parsed.failure is not None:
        raise parsed.failure
    if channel is None:
        name = str(parsed.root.tag)[:100]
        raise NotAFeed(f"the root element is {name}, which is no RSS and no Atom feed")
    return _known(channel), parsed.quality


def _of_tree(root: etree._Element, url: str, native: bool) -> FeedChannel | None:
    """Return the channel of a tree; None for no feed, or capital tags, which feedparser reads."""
    if any(split(str(child.tag))[1] in ("CHANNEL", "ITEM", "ENTRY") for child in root):
        return None
    return trees.read(root, url, native)


def _known(channel: FeedChannel) -> FeedChannel:
    """Return the channel without its empty entries."""
    entries = tuple(each for each in channel.entries if not each.is_empty)
    return channel if len(entries) == len(channel.entries) else replace(channel, entries=entries)


def _has_more(parsed: ParsedTree, channel: FeedChannel) -> bool:
    """Return True if a feed has more entries than `channel`; one inside another does not count.

    In a recovered tree the tags of entries may be damaged: all that begins like one is counted.
    """
    if parsed.quality == "recovered":
        return len(_BEGINS_ENTRY.findall(parsed.body)) > _count(channel)
    root, found = parsed.root, len(channel.entries)
    if found and sum(1 for _ in root.iter("{*}item", "{*}entry")) <= found:
        return False
    written = [each for each in root.iter(etree.Element) if _is_entry(each)]
    return found < sum(not any(map(_is_entry, each.iterancestors())) for each in written)


def _is_entry(element: etree._Element) -> bool:
    return split(str(element.tag))[1].lower() in ("item", "entry")


def _count(channel: FeedChannel | None) -> int:
    """Return the number of entries that are not empty; -1 without a feed."""
    return -1 if channel is None else len(_known(channel).entries)


def _name(channel: FeedChannel, url: str) -> str:
    """Return the identity of the feed; a site alone is ambiguous, as it may have many feeds."""
    site = f"{channel.site_url} {' '.join(channel.title.split())}".strip()
    name = channel.self_url or channel.id or (site if channel.site_url else "") or url
    name = allowed(name)
    return name if len(name) <= _LONGEST_URL else content_id(name)


__all__ = ["MAX_ITEMS", "MalformedDocument", "NotAFeed", "ParsedFeed", "parse_feed"]
