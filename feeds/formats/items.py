"""From an entry to an item: identity, version, time, canonical document.

**Identity**: one of the names of the entry (`feeds.formats.identity`), chosen by the answer alone.
A poller that remembers earlier answers may replace it by another one (`FeedItem.known_as`).

**Version**: a hash over everything the publisher wrote but the dates, as some
write the time of the request into every entry.

**Time**: `min(published or updated or seen_at, seen_at)`; `clipped` tells that
the publisher's time lay ahead, `time_from` which of the three it is.

**Canonical document**: the same for all formats; see `canonical`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from feeds.formats.entries import BLANKS, Enclosure, FeedChannel, FeedEntry, Frame, plain
from feeds.formats.identity import CandidateNames, IdentityRule, identify, names_of
from feeds.formats.markup import plain_title
from feeds.formats.mend import WINDOWS_1252, allowed
from feeds.formats.times import parse_time, rfc3339

TimeFrom: TypeAlias = Literal["published", "updated", "seen_at"]

LEAVES = (
    *("id", "feed", "item_url", "feed_url", "channel_url", "feed_title", "title", "raw_title"),
    *("description", "content", "author", "category", "published", "updated", "seen_at"),
    *("comments", "source", "rights", "image", "duration"),
)
"""The leaves of an item that have a text, in the order in which they stand."""

LONGEST_TIME = 100
"""Characters of a time as the publisher wrote it that are kept to be shown."""

LONGEST_TITLE = 200
"""Characters of the title of a feed, which each of its items has."""


@dataclass(frozen=True, slots=True)
class FeedItem:
    """One entry of a feed, as the reader of feeds returns it; times in microseconds UTC."""

    identity: str
    names: CandidateNames
    published_raw: str | None
    updated_raw: str | None
    timestamp: int
    time_from: TimeFrom
    clipped: bool
    canonical: bytes
    _native: bytes = field(repr=False)
    _frame: Frame = field(repr=False)

    @property
    def rule(self) -> IdentityRule:
        """The rule that gives its identity."""
        return self.names.rule_of(self.identity)

    @property
    def written(self) -> str | None:
        """The time as published, if it was clipped or could not be parsed; otherwise None."""
        if self.clipped:
            raw = self.published_raw if self.time_from == "published" else self.updated_raw
        else:
            raw = (self.published_raw or self.updated_raw) if self.time_from == "seen_at" else None
        return allowed(raw)[:LONGEST_TIME] if raw else None

    def known_as(self, identity: str) -> FeedItem:
        """Return the item with `identity`, another of its names, also in the canonical document."""
        if identity == self.identity:
            return self
        rest = self.canonical.removeprefix(_head(self.identity))
        return replace(self, identity=identity, canonical=_head(identity) + rest)

    def in_feed(self, feed: str) -> bytes:
        """Return the canonical document with a leaf `feed`, the key of its feed."""
        head = _head(self.identity)
        return head + _leaf("feed", allowed(feed)).encode() + self.canonical[len(head) :]

    @property
    def native(self) -> bytes:
        """The item in its publisher's format in its channel; without it, the canonical document."""
        return self._frame[0] + self._native + self._frame[1] if self._native else self.canonical


def make_items(channel: FeedChannel, channel_url: str, seen_at: int) -> tuple[FeedItem, ...]:
    """Return the items of a feed in its order, with the identities of items never seen before."""
    names = [names_of(entry) for entry in channel.entries]
    title = plain(channel.title[: 2 * LONGEST_TITLE])[:LONGEST_TITLE]
    return tuple(
        _item(entry, identity, named, channel, channel_url, title, seen_at)
        for entry, named, identity in zip(
            channel.entries, names, identify(names, {}, lambda _, __: False), strict=True
        )
    )


def _item(
    entry: FeedEntry,
    identity: str,
    names: CandidateNames,
    channel: FeedChannel,
    channel_url: str,
    feed_title: str,
    seen_at: int,
) -> FeedItem:
    published, updated = parse_time(entry.published), parse_time(entry.updated)
    time, time_from = _time(published, updated, seen_at)
    return FeedItem(
        identity=identity,
        names=names,
        published_raw=entry.published,
        updated_raw=entry.updated,
        timestamp=min(time, seen_at),
        time_from=time_from,
        clipped=time > seen_at,
        canonical=canonical(entry, identity, channel_url, feed_title, published, updated, seen_at),
        _native=entry.native,
        _frame=channel.frame,
    )


def _time(published: int | None, updated: int | None, seen_at: int) -> tuple[int, TimeFrom]:
    if published is not None:
        return published, "published"
    if updated is not None:
        return updated, "updated"
    return seen_at, "seen_at"


# --- the canonical document ---


def canonical(
    entry: FeedEntry,
    identity: str,
    channel_url: str,
    feed_title: str,
    published: int | None,
    updated: int | None,
    seen_at: int,
) -> bytes:
    """The item as `<item>` with its leaves in this order, UTF-8 without a declaration.

    `id feed item_url feed_url channel_url feed_title title raw_title description content author*
    category* published updated seen_at comments source rights image duration enclosure*`, each once
    unless marked; `LEAVES` names all with a text, and `FeedItem.in_feed` adds `feed`.  A leaf for
    which the feed has nothing is left out, or two items without a title would have equal ones.
    Times are RFC 3339 in UTC.  `item_url` is the article: `feed_url` is the link if that is a
    redirector.  `title` is plain text: `raw_title` is what the publisher wrote if that is HTML.
    All other texts are the XPath string values of what the publisher wrote, markup is HTML, and C1
    control characters are those of Windows-1252, which their publishers meant.  Texts of one line
    have single blanks, and description and content none at their ends.  Description and content
    with `type="text"` only look like HTML.
    """
    texts = entry.texts
    raw_title = _line(entry.title)
    title = raw_title if "title" in texts or not raw_title else plain_title(raw_title)
    link = entry.article or entry.link
    bodies = [("description", _ends(entry.description)), ("content", _ends(entry.content))]
    leaves = [
        _leaf("item_url", link),
        "" if entry.link == link else _leaf("feed_url", entry.link),
        _leaf("channel_url", channel_url),
        _leaf("feed_title", feed_title),
        _leaf("title", title),
        "" if raw_title == title else _leaf("raw_title", raw_title),
        *[
            _leaf(name, text, type="text" if name in texts and _LIKE_HTML.search(text) else "")
            for name, text in bodies
        ],
        *[_leaf("author", _line(name)) for name in entry.authors],
        *[
            _leaf("category", term, domain=_line(each.domain), label=_line(each.label))
            for each in entry.categories
            if (term := _line(each.term))
        ],
        "" if published is None else f"<published>{rfc3339(published)}</published>",
        "" if updated is None else f"<updated>{rfc3339(updated)}</updated>",
        f"<seen_at>{rfc3339(seen_at)}</seen_at>",
        _leaf("comments", entry.comments),
        _leaf("source", _line(entry.source), url=entry.source_url),
        _leaf("rights", _line(entry.rights)),
        _leaf("image", entry.image),
        "" if entry.duration is None else f"<duration>{entry.duration}</duration>",
        *[_enclosure(enclosure) for enclosure in entry.enclosures],
    ]
    return _head(identity) + _repaired("".join(leaves)) + b"</item>"


def _line(text: str | None) -> str | None:
    return text and plain(text)


def _ends(text: str | None) -> str:
    return text.strip(BLANKS) if text else ""


_C0 = bytes(code for code in range(0x20) if code not in b"\t\n\r")
_C1 = re.compile(rb"\xc2([\x80-\x9f])")
_NO_CHARACTER = re.compile(rb"\xef\xbf[\xbe\xbf]")


def _repaired(text: str) -> bytes:
    """The text in UTF-8 with the characters of Windows-1252 in place of C1 control characters.

    Characters that XML forbids are dropped here, for all leaves at once: one search for each kind
    is much faster than a regular expression for each leaf.
    """
    written = text.encode(errors="ignore").translate(None, _C0)  # surrogates are ignored
    if b"\xef" in written:
        written = _NO_CHARACTER.sub(b"", written)
    if b"\xc2" in written:
        written = _C1.sub(lambda found: WINDOWS_1252[found[1][0]].encode(), written)
    return written


def _head(identity: str) -> bytes:
    return f"<item>{_leaf('id', allowed(identity))}".encode()


def _leaf(name: str, value: str | None, **attributes: str | None) -> str:
    """Return an element with the attributes that have a value; "" without value and attributes."""
    named = _attributes(**attributes) if attributes else ""
    return f"<{name}{named}>{_escape(value or '')}</{name}>" if value or named else ""


_LIKE_HTML = re.compile(r"<[a-zA-Z/!?]|&[#\w]")
"""Matches text with HTML markup, although its type is plain text."""


def _enclosure(enclosure: Enclosure) -> str:
    named = _attributes(type=enclosure.type, length=enclosure.length)
    return f'<enclosure url="{_escape_attribute(enclosure.url)}"{named}/>'


def _attributes(**values: str | None) -> str:
    """The attributes that have a value."""
    return "".join(
        f' {name}="{escaped}"'
        for name, value in values.items()
        if value and (escaped := _escape_attribute(value))
    )


def _escape(text: str) -> str:
    """The text as XML; `str.translate` takes ten times as long for a long text."""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return text.replace(">", "&gt;").replace("\r", "&#13;")


def _escape_attribute(text: str) -> str:
    text = _escape(allowed(text)).replace('"', "&quot;")
    return text.replace("\n", "&#10;").replace("\t", "&#9;")
