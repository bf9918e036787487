"""New items in the answers of feeds: documents for the spool, rows to remember.

The hash of each item's latest content is remembered, so that an answer yields only new and changed
items.  An item that changes more often than `VERSIONS` times is not passed on any more,
but its changes are counted.

The rows of items are bounded: a row may be dropped when its item has left the feed's answer, and
`KEPT` others have left it later.  Items that the feed still shows are never dropped, so they never
return as new.

A hash does not depend on layout: white space at the ends of texts and beside tags, or more of it.

The items of several feeds go to the spool by time.  The clock is common to all feeds, so one feed's
items of today would make another's of last month late.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from feeds.documents import Document
from feeds.formats.identity import KnownItem, identify
from feeds.formats.items import FeedItem
from xscl.polling.feed import Feed

VERSIONS = 20
"""Most versions of an item that are passed on to the spool."""

KEPT = 5_000
"""Most items of a feed that are remembered after they have left its answers."""

PART_DOCUMENTS = 10_000
PART_BYTES = 16_000_000
"""Maximum number and bytes of documents that are appended at once; one alone may be larger."""

_UNTIMED = re.compile(rb"<(published|updated|seen_at|channel_url|feed|feed_title)>[^<]*</\1>")


@dataclass(frozen=True, slots=True)
class ItemVersion(KnownItem):
    """The memory of an item: the hash of its latest content, and the number of its changes.

    The fields are the columns of `state.feed_item` after its key.  `skipped` counts the changes
    that were not passed on.  `time_from` is the source of its latest time.  `clipped` is True if
    that time lay ahead of the poll and was reduced.  `written` is the publisher's text of the time,
    if it could not be taken as it is.
    """

    hash: bytes = b""
    versions: int = 0
    skipped: int = 0
    time_from: str | None = None
    clipped: bool = False
    written: str | None = None


@dataclass(frozen=True, slots=True)
class NewItems:
    """The changes in a feed: `documents` for the spool, `items` to remember, by identity.

    `forgotten` has the identities of the items that are to be dropped.
    """

    feed: str
    documents: tuple[Document, ...] = ()
    items: tuple[tuple[str, ItemVersion], ...] = ()
    forgotten: tuple[str, ...] = ()


def new_items(
    feed: Feed, items: Sequence[FeedItem], seen: Mapping[str, ItemVersion], now: int
) -> NewItems:
    """Return the new and changed items of a feed, the oldest first.

    Where a feed has several versions of an item, the last one counts as the latest.
    """
    known = dict(seen)
    documents: list[Document] = []
    hash_of = functools.cache(item_hash)  # most items are hashed twice
    items = _identified(items, seen, hash_of)
    oldest_first = list(reversed(items))  # where times are equal: feeds begin with the newest
    oldest_first.sort(key=lambda item: item.timestamp)
    for item in oldest_first:
        digest = hash_of(item.canonical)
        before = known.get(item.identity, ItemVersion())
        if digest == before.hash:
            known[item.identity] = _named(before, item)
            continue
        passed = before.versions < VERSIONS
        known[item.identity] = replace(
            _named(before, item),
            hash=digest,
            versions=before.versions + passed,
            skipped=before.skipped + (not passed),
            time_from=item.time_from,
            clipped=item.clipped,
            written=item.written,
        )
        if passed:
            documents.append(_document(feed, item))
    _mark(known, {item.identity for item in items}, now)
    forgotten = _forgotten(known)
    changed = tuple(
        (name, row)
        for name, row in known.items()
        if seen.get(name) != row and name not in forgotten
    )
    return NewItems(feed.key, tuple(documents), changed, tuple(forgotten))


def _identified(
    items: Sequence[FeedItem], seen: Mapping[str, ItemVersion], hash_of: Callable[[bytes], bytes]
) -> list[FeedItem]:
    """Return the items under the names by which they are known."""

    def same(at: int, name: str) -> bool:
        return hash_of(items[at].known_as(name).canonical) == seen[name].hash

    identities = identify([item.names for item in items], seen, same)
    return [item.known_as(name) for item, name in zip(items, identities, strict=True)]


def _named(row: ItemVersion, item: FeedItem) -> ItemVersion:
    """Return the memory of an item with the names of its latest entry."""
    names = item.names
    return replace(
        row,
        rule=row.rule or item.rule,
        first_name=names.first_name,
        all_names=names.all_names,
        alike=names.alike,
    )


def _mark(known: dict[str, ItemVersion], shown: set[str], now: int) -> None:
    """Set `missing_since` of items that have left the answer; clear it of those that returned."""
    for name, row in known.items():
        if (row.missing_since is None) != (name in shown):
            known[name] = replace(row, missing_since=None if name in shown else now)


def _forgotten(known: Mapping[str, ItemVersion]) -> dict[str, None]:
    """Return the identities of items to drop: all that left before the last `KEPT`.

    None are dropped until their number exceeds `KEPT` by a tenth.
    """
    gone = [
        (row.missing_since, name) for name, row in known.items() if row.missing_since is not None
    ]
    if len(gone) <= KEPT + KEPT // 10:
        return {}
    gone.sort(reverse=True)
    return dict.fromkeys(name for _, name in gone[KEPT:])


def _document(feed: Feed, item: FeedItem) -> Document:
    return Document(
        stream=feed.streams,
        id=f"{feed.key}#{item.identity}",
        timestamp=item.timestamp,
        xml=item.in_feed(feed.source),
        history=not feed.polls,
        origin=feed.key,
    )


def item_hash(document: bytes) -> bytes:
    """Return the hash of an item's content: a canonical document without times and channel."""
    content = b" ".join(document.replace(b"&#13;", b" ").split())
    for tag in (b"<", b"&lt;"):
        content = content.replace(b" " + tag, tag)
    for tag in (b">", b"&gt;"):
        content = content.replace(tag + b" ", tag)
    return hashlib.blake2b(_UNTIMED.sub(b"", content), digest_size=16).digest()


def by_time(found: Iterable[NewItems]) -> list[Document]:
    """Return the documents of several feeds by time; where times are equal, by feed."""
    documents = [each for one in sorted(found, key=lambda one: one.feed) for each in one.documents]
    documents.sort(key=lambda document: document.timestamp)
    return documents


def parts(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """Yield documents in their order, in parts of bounded size."""
    start = size = 0
    for at, document in enumerate(documents):
        if at > start and (at - start >= PART_DOCUMENTS or size + len(document.xml) > PART_BYTES):
            yield documents[start:at]
            start, size = at, 0
        size += len(document.xml)
    if start < len(documents):
        yield documents[start:]
