"""From an entry to an item: identity, version, time, canonical document.

**Identity**, within one feed, is the first of these that the entry has:

    guid           its guid or atom:id, if no other entry of the feed has the same
    guid+link      both, if others have the same guid
    link           its link, if no other entry has the same
    enclosure      the address of its first enclosure, likewise
    hash           the hash of its content

The rule that fired is kept beside it.  Entries with equal identity are one
item, of which the feed has several versions.

**Version**: a hash over everything the publisher wrote but the dates, as some
write the time of the request into every entry.

**Time**: `min(published or updated or seen_at, seen_at)`; `clipped` tells that
the publisher's time lay ahead, `time_from` which of the three it is.

**Canonical document**: the same for all formats; see `canonical`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from feeds.entries import Channel, Enclosure, Entry, Frame
from feeds.ladder import FORBIDDEN
from feeds.times import parse_time, rfc3339

Rule: TypeAlias = Literal["guid", "guid+link", "link", "enclosure", "hash"]
TimeFrom: TypeAlias = Literal["published", "updated", "seen_at"]

LONGEST_IDENTITY = 1_000
"""A longer identity is replaced by its hash."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a feed as everything after the reader sees it; times in microseconds UTC."""

    identity: str
    rule: Rule
    content_hash: str
    published_raw: str | None
    updated_raw: str | None
    published: int | None
    updated: int | None
    seen_at: int
    timestamp: int
    time_from: TimeFrom
    clipped: bool
    canonical: bytes
    _native: bytes = field(repr=False)
    _frame: Frame = field(repr=False)

    @property
    def native(self) -> bytes:
        """The item in its publisher's format inside its channel; else the canonical document."""
        return self._frame[0] + self._native + self._frame[1] if self._native else self.canonical


def make_items(channel: Channel, channel_url: str, seen_at: int) -> tuple[Item, ...]:
    """The items of a feed, in the feed's order."""
    identities = _identities(channel.entries)
    return tuple(
        _item(entry, identity, rule, channel, channel_url, seen_at)
        for entry, (identity, rule) in zip(channel.entries, identities, strict=True)
    )


def _item(
    entry: Entry, identity: str, rule: Rule, channel: Channel, channel_url: str, seen_at: int
) -> Item:
    published, updated = parse_time(entry.published), parse_time(entry.updated)
    time, time_from = _time(published, updated, seen_at)
    return Item(
        identity=identity,
        rule=rule,
        content_hash=content_hash(entry),
        published_raw=entry.published,
        updated_raw=entry.updated,
        published=published,
        updated=updated,
        seen_at=seen_at,
        timestamp=min(time, seen_at),
        time_from=time_from,
        clipped=time > seen_at,
        canonical=canonical(entry, identity, channel_url, published, updated, seen_at),
        _native=entry.native,
        _frame=channel.frame,
    )


def _time(published: int | None, updated: int | None, seen_at: int) -> tuple[int, TimeFrom]:
    if published is not None:
        return published, "published"
    if updated is not None:
        return updated, "updated"
    return seen_at, "seen_at"


# --- identity ---


def _identities(entries: Iterable[Entry]) -> Iterator[tuple[str, Rule]]:
    """Identity and rule of each entry."""
    entries = list(entries)
    guids = Counter(_clean(entry.guid) for entry in entries)
    links = Counter(entry.link for entry in entries if not _clean(entry.guid))
    files = Counter(_file(entry) for entry in entries)
    for entry in entries:
        guid, file = _clean(entry.guid), _file(entry)
        if guid and guids[guid] == 1:
            yield _short(guid), "guid"
        elif guid and entry.link:
            yield _short(f"{guid} {_clean(entry.link)}"), "guid+link"
        elif entry.link and links[entry.link] == 1:
            yield _short(_clean(entry.link)), "link"
        elif file and files[file] == 1:
            yield _short(file), "enclosure"
        else:
            yield f"sha256:{content_hash(entry)}", "hash"


def _file(entry: Entry) -> str:
    return _clean(entry.enclosures[0].url) if entry.enclosures else ""


def _clean(text: str | None) -> str:
    return FORBIDDEN.sub("", text or "").strip()


def _short(identity: str) -> str:
    return identity if len(identity) <= LONGEST_IDENTITY else content_id(identity)


def content_id(text: str) -> str:
    """A name of fixed length for a text that is too long to be one."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def content_hash(entry: Entry) -> str:
    """The hexadecimal SHA-256 over what the publisher wrote, without dates."""
    digest = hashlib.sha256()
    for name, value in _texts(entry):
        digest.update(f"{name}\0{len(value)}\0{value}".encode("utf-8", "surrogatepass"))
    for enclosure in entry.enclosures:
        written = f"enclosure\0{enclosure.url}\0{enclosure.type}\0"
        digest.update(written.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _texts(entry: Entry) -> Iterator[tuple[str, str]]:
    single = (
        ("guid", entry.guid),
        ("item_url", entry.link),
        ("title", entry.title),
        ("description", entry.description),
        ("content", entry.content),
    )
    yield from ((name, value) for name, value in single if value)
    yield from (("author", name) for name in entry.authors)
    yield from (("category", name) for name in entry.categories)


# --- the canonical document ---


def canonical(
    entry: Entry,
    identity: str,
    channel_url: str,
    published: int | None,
    updated: int | None,
    seen_at: int,
) -> bytes:
    """The item as `<item>` with its leaves in this order, UTF-8 without a declaration.

    `id item_url channel_url title description content author* category*
    published updated seen_at enclosure*`, each once unless marked.  A leaf for
    which the feed has nothing is left out, or two items without a title would
    have equal ones.  Times are RFC 3339 in UTC; all other texts are the XPath
    string values of what the publisher wrote.
    """
    leaves = [
        _leaf("id", identity),
        _leaf("item_url", entry.link),
        _leaf("channel_url", channel_url),
        _leaf("title", entry.title),
        _leaf("description", entry.description),
        _leaf("content", entry.content),
        *(_leaf("author", name) for name in entry.authors),
        *(_leaf("category", name) for name in entry.categories),
        _leaf("published", None if published is None else rfc3339(published)),
        _leaf("updated", None if updated is None else rfc3339(updated)),
        _leaf("seen_at", rfc3339(seen_at)),
        *(_enclosure(enclosure) for enclosure in entry.enclosures),
    ]
    return f"<item>{''.join(leaves)}</item>".encode()


def _leaf(name: str, value: str | None) -> str:
    return f"<{name}>{_escape(value)}</{name}>" if value else ""


def _enclosure(enclosure: Enclosure) -> str:
    url, media = _escape_attribute(enclosure.url), _escape_attribute(enclosure.type)
    return f'<enclosure url="{url}" type="{media}"/>' if media else f'<enclosure url="{url}"/>'


def _escape(text: str) -> str:
    """The text as XML; `str.translate` takes ten times as long for a long text."""
    text = FORBIDDEN.sub("", text).replace("&", "&amp;").replace("<", "&lt;")
    return text.replace(">", "&gt;").replace("\r", "&#13;")


def _escape_attribute(text: str) -> str:
    text = _escape(text).replace('"', "&quot;")
    return text.replace("\n", "&#10;").replace("\t", "&#9;")
