"""A subscription's matches as a feed: what Atom and JSON Feed have in common.

A feed is paged by position (RFC 5005): a page is what comes before some position, so it is the same
page whatever has come since.  An entry's id is made of its message's and its time is the match's;
neither ever changes.  A feed's own time is the engine's clock, which never goes back.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

from xscl.delivery.message import Message
from xscl.delivery.reading import Latest

PAGE = 50
"""Entries on a page."""
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Feed:
    """A page of a feed: of which subscription, where it is, where the first and older one are."""

    name: str
    id: str
    url: str
    first: str
    older: str | None
    updated: int
    entries: tuple[Message, ...]


def feed_of(
    known: str, shown: str, latest: Latest, before: int | None, page: Callable[[int | None], str]
) -> Feed:
    """Return a page of the feed of a subscription, by the engine's name for it and its owner's.

    `page` gives the address of the page before a position.
    """
    entries = latest.messages
    older = page(entries[-1].position) if latest.more and entries else None
    return Feed(
        shown, _urn(f"feed {known}"), page(before), page(None), older, latest.clock, entries
    )


def entry_id(message: Message) -> str:
    """Return the id of an entry, for ever."""
    return _in_groups(message.id)


def etag(feed: Feed) -> str:
    """Return what changes when the page does: its entries and the way on."""
    ids = [entry.id for entry in feed.entries]
    told = " ".join([feed.id, feed.url, feed.older or "", *ids])
    return '"' + hashlib.blake2b(told.encode(), digest_size=12).hexdigest() + '"'


class Changes:
    """When pages of feeds have changed, in seconds: as far as this process has seen them.

    Nothing says when a match was found.  So a page has changed when it is seen with another ETag;
    after a restart, when it is first seen, which costs a reader one more answer.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._seen: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def since(self, url: str, tag: str, now: int) -> int:
        """Return since when a page is as it is; no later change has the same second."""
        with self._mutex:
            before = self._seen.pop(url, None)
            if before is None or before[0] != tag:
                before = tag, now if before is None else max(now, before[1] + 1)
            self._seen[url] = before
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return before[1]


def http_date(seconds: int) -> str:
    """Return a time as HTTP writes it."""
    return formatdate(seconds, usegmt=True)


def is_unchanged(
    tag: str, changed: int, if_none_match: str | None, if_modified_since: str | None
) -> bool:
    """Whether who asks has the page already (RFC 9110, section 13.2.2)."""
    if if_none_match is not None:
        known = (one.strip().removeprefix("W/") for one in if_none_match.split(","))
        return if_none_match.strip() == "*" or tag in known
    if if_modified_since is None:
        return False
    try:
        return changed <= parsedate_to_datetime(if_modified_since).timestamp()
    except (ValueError, OverflowError):
        return False


def _urn(text: str) -> str:
    return _in_groups(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def _in_groups(digits: str) -> str:
    groups = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]
    return "urn:uuid:" + "-".join(groups)
