"""The common model of Atom and JSON Feed: matches of one or all subscriptions as a paged feed.

Pages are addressed by position (RFC 5005): a page contains the entries before a position, so newer
matches do not change it.  An entry's id derives from its message's id and its time is the match's;
neither changes.  A feed's own time is the engine's clock, which is monotonic.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from email.utils import formatdate, parsedate_to_datetime
from html import escape

from xscl.delivery.entry_html import entry_html
from xscl.delivery.message import Message, message_of, message_of_story
from xscl.delivery.message_reader import LatestMatches, result_of
from xscl.engine.story_log import Growth, Story
from xscl.subscriptions.match import Match

PAGE = 50
"""Maximum number of entries of a page."""
LARGEST = 4_000_000
"""Number of characters of entries after which a page ends."""
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class MatchEntry:
    """A message with its content as HTML, the address of its page here, and that of a document.

    It was `published` at a time in ticks; a story that has grown since keeps it, and its id.
    """

    message: Message
    html: str
    page: str
    url: str
    published: int

    @property
    def id(self) -> str:
        """The permanent id of the entry."""
        return _in_groups(self.message.id)


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A page of a feed with its own address and those of the first and the next older page.

    `home` is the address of the web page with the same matches, `updated` a time in ticks.
    """

    name: str
    id: str
    home: str
    url: str
    first: str
    older: str | None
    updated: int
    entries: tuple[MatchEntry, ...]


@dataclass(frozen=True, slots=True)
class FeedAddresses:
    """The addresses of a feed: its pages before a position, its web page, the page of a match."""

    page: Callable[[int | None], str]
    home: str
    match: Callable[[Match], str]


def feed_of(
    known: str, shown: str, latest: LatestMatches, before: int | None, at: FeedAddresses
) -> FeedPage:
    """Return a page of a feed; `known` is its engine name, `shown` its title.

    `before` is the position before which the page begins, None for the first page.
    """
    entries, size, ends = list[MatchEntry](), 0, latest.older
    for before_it, group in zip((None, *latest.groups), latest.groups, strict=False):
        is_next = before_it is not None and result_of(before_it[0]) != result_of(group[0])
        if size > LARGEST and is_next:  # the rest of one set of documents would not come again
            ends = entries[-1].message.position
            break
        entries.append(_entry(group, at))
        size += len(entries[-1].html) + sum(map(len, entries[-1].message.text))
    return FeedPage(
        name=shown,
        id=_urn(f"feed {known}"),
        home=at.home,
        url=at.page(before),
        first=at.page(None),
        older=None if ends is None else at.page(ends),
        updated=latest.clock,
        entries=tuple(entries),
    )


def _entry(group: Sequence[Match], at: FeedAddresses) -> MatchEntry:
    """Return the entry of a message; it leads to the later document, or to the page of the match.

    Of documents of the same time the last one in the query counts as the later.
    """
    message, page = _message(group), at.match(group[0])
    later = max(reversed(message.sources), key=lambda one: one.ts, default=None)
    url = None if later is None else later.url
    html = f'{entry_html(group)}<p><a href="{escape(page)}">This match in xscl</a></p>'
    return MatchEntry(message, html, page, url or page, group[0].t1)


def _message(group: Sequence[Match]) -> Message:
    if isinstance(group, Story):
        return replace(message_of_story(group, Growth(group.last, ())), id=group.id)
    return message_of(group)


def etag(feed: FeedPage) -> str:
    """Return a hash of the page's entries and links."""
    ids = [f"{entry.id} {entry.message.last}" for entry in feed.entries]
    told = " ".join([feed.id, feed.url, feed.older or "", *ids])
    return '"' + hashlib.blake2b(told.encode(), digest_size=12).hexdigest() + '"'


class ModificationTimes:
    """Last-Modified times in seconds of the feed pages that this process has served.

    The time at which a match was found is not stored.  A page therefore counts as modified when it
    is first served with a new ETag.  After a restart a reader may fetch it once more.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._seen: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def since(self, url: str, tag: str, now: int) -> int:
        """Return the Last-Modified time of a page; later changes get a later second."""
        with self._mutex:
            before = self._seen.pop(url, None)
            if before is None or before[0] != tag:
                before = tag, now if before is None else max(now, before[1] + 1)
            self._seen[url] = before
            while len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            return before[1]


def http_date(seconds: int) -> str:
    """Format a time as an HTTP date."""
    return formatdate(seconds, usegmt=True)


def is_unchanged(
    tag: str, changed: int, if_none_match: str | None, if_modified_since: str | None
) -> bool:
    """Evaluate conditional headers: return whether to answer 304 (RFC 9110, section 13.2.2)."""
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
