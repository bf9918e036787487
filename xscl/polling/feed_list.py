"""Import of feed lists: each outline has an outcome, and the import is idempotent.

Folders and categories become tags, that is, streams; so their names lose characters
that no query can write (`Tech & Science` is the stream `Tech-Science`).
Streams and intervals that the list states are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from feeds.formats.opml import FeedOutline
from xscl.errors import XsclError
from xscl.polling.feed import (
    EVERY,
    LEAST_EVERY,
    Feed,
    FeedsError,
    check_url,
    feed_key,
    shown,
    split_user,
    tag_name,
)
from xscl.polling.feed_repository import FeedRepository, FeedRequest

ImportOutcome: TypeAlias = Literal["added", "tagged", "followed already", "twice", "refused"]
"""`tagged`: a feed that was followed already got tags.  `twice`: the list repeats a feed."""


@dataclass(frozen=True, slots=True)
class ImportLine:
    """The outcome of one outline; `url` has its secrets masked."""

    outcome: ImportOutcome
    url: str
    title: str
    stream: str = ""
    tags: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The report, a line for each outline in their order, and the feeds that are new or changed."""

    lines: tuple[ImportLine, ...]
    feeds: tuple[Feed, ...]


def import_outlines(
    feeds: FeedRepository,
    outlines: Sequence[FeedOutline],
    tags: Sequence[str] = (),
    every: int = EVERY,
    owner: str = "",
) -> ImportReport:
    """Follow the feeds of a list; a feed that is followed already gets its missing tags.

    `tags` are given to all of them.  `owner` is the prefix of their user's names (`Feed.owner`).
    """
    known = {name: feed for feed in feeds.owned(owner) for name in (feed.url, feed.key)}
    wanted: dict[str, FeedRequest] = {}
    changed: dict[str, Feed] = {}
    lines: list[ImportLine | str] = []  # the key of a feed to add, where its line will be
    for outline in outlines:
        url, title, names = outline.url, outline.title, _tags(outline, tags)
        if reason := _fault(url):
            lines.append(ImportLine("refused", url[:200], title, reason=reason))
            continue
        key, (address, user) = feed_key(url), split_user(url)
        feed = known.get(owner + key) or (None if user else known.get(address))
        if key in wanted:
            both = dict.fromkeys((*wanted[key].tags, *names))
            wanted[key] = replace(wanted[key], tags=tuple(both))
            lines.append(ImportLine("twice", shown(url), title, tags=names))
        elif feed is not None:
            all_tags = tuple(dict.fromkeys((*feed.tags, *(owner + tag for tag in names))))
            is_tagged = all_tags != feed.tags
            if is_tagged:
                feed = replace(feed, tags=all_tags)
                known |= {feed.url: feed, feed.key: feed}
                changed[feed.key] = feed
            outcome: ImportOutcome = "tagged" if is_tagged else "followed already"
            lines.append(ImportLine(outcome, shown(address), title, feed.stream, all_tags))
        else:
            wanted[key] = FeedRequest(
                url,
                outline.stream or None,
                names,
                max(outline.every, LEAST_EVERY) if outline.every else every,
                title=title,
                site_url=outline.site_url,
                owner=owner,
            )
            lines.append(key)
    for feed in changed.values():
        feeds.edit(feed)
    made = dict(zip(wanted, feeds.add_all(list(wanted.values())), strict=True))
    report = [_added(made[line], wanted[line]) if isinstance(line, str) else line for line in lines]
    new = [feed for feed in made.values() if isinstance(feed, Feed)]
    return ImportReport(tuple(report), (*new, *changed.values()))


def outlines_of(
    feeds: Iterable[Feed], *, secrets: bool = False
) -> tuple[list[FeedOutline], list[Feed]]:
    """Return the feeds as outlines, and those omitted because their addresses are secret."""
    kept, left_out = [], []
    for feed in feeds:
        if shown(feed.url) != feed.url and not secrets:
            left_out.append(feed)
        else:
            names = feed.shown_title, feed.site_url, feed.tags
            kept.append(FeedOutline(feed.url, *names, feed.stream, feed.every))
    return kept, left_out


def _tags(outline: FeedOutline, given: Sequence[str]) -> tuple[str, ...]:
    names = (tag_name(tag) for tag in outline.tags)
    return tuple(dict.fromkeys((*given, *(name for name in names if name))))


def _fault(url: str) -> str:
    """Return why an address is none of a feed, empty if it is one."""
    if not url:
        return "it has no address of a feed"
    try:
        check_url(url)
    except FeedsError as error:
        return error.message
    return ""


def _added(made: Feed | XsclError, wanted: FeedRequest) -> ImportLine:
    """Return the line of a feed that was to be added: `made` is the feed, or the error."""
    match made:
        case Feed():
            return ImportLine("added", made.shown_url, wanted.title, made.stream, made.tags)
        case XsclError():
            return ImportLine("refused", shown(wanted.url), wanted.title, reason=made.message)
