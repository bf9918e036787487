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
    without_user,
)
from xscl.polling.feed_admission import FeedRequest
from xscl.polling.feed_repository import FeedRepository

ImportOutcome: TypeAlias = Literal["added", "tagged", "followed already", "twice", "refused"]
"""`tagged` is a feed that was followed and got tags, `twice` one that stands in the list again."""


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

    `owner` is the prefix of their user (`Feed.owner`), who has written the tags.
    """
    known: dict[str, Feed] = {}
    for feed in feeds.owned(owner):
        known |= {feed.url: feed, feed.key: feed}
    wanted: dict[str, FeedRequest] = {}
    lines: list[ImportLine | str] = []  # the key of a feed to add, where its line will be
    changed: dict[str, Feed] = {}
    for outline in outlines:
        names = _tags(outline, tags)
        line = (
            _refused(outline)
            or _again(outline, names, wanted)
            or _known(outline, names, known, owner)
        )
        if line is None:
            key = feed_key(outline.url)
            wanted[key] = FeedRequest(
                outline.url,
                outline.stream or None,
                names,
                max(outline.every, LEAST_EVERY) if outline.every else every,
                title=outline.title,
                site_url=outline.site_url,
                owner=owner,
            )
            lines.append(key)
            continue
        if isinstance(line, Feed):
            tagged = line.tags != known[line.key].tags
            if tagged:
                known |= {line.url: line, line.key: line}
                changed[line.key] = line
            line = _line("tagged" if tagged else "followed already", outline, line)
        lines.append(line)
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


def _refused(outline: FeedOutline) -> ImportLine | None:
    if not outline.url:
        return ImportLine("refused", "", outline.title, reason="it has no address of a feed")
    try:
        check_url(outline.url)
    except FeedsError as error:
        return ImportLine("refused", outline.url[:200], outline.title, reason=error.message)
    return None


def _again(
    outline: FeedOutline, tags: tuple[str, ...], wanted: dict[str, FeedRequest]
) -> ImportLine | None:
    """The line of a feed that the list has named before; its tags there are added."""
    key = feed_key(outline.url)
    before = wanted.get(key)
    if before is None:
        return None
    wanted[key] = replace(before, tags=tuple(dict.fromkeys((*before.tags, *tags))))
    return ImportLine("twice", shown(outline.url), outline.title, tags=tags)


def _known(
    outline: FeedOutline, tags: tuple[str, ...], known: dict[str, Feed], owner: str
) -> Feed | None:
    """The feed that is followed already, with the tags that it lacked."""
    address, user = split_user(outline.url)
    found = known.get(owner + feed_key(outline.url)) or (None if user else known.get(address))
    if found is None:
        return None
    named = (owner + tag for tag in tags)
    return replace(found, tags=tuple(dict.fromkeys((*found.tags, *named))))


def _line(outcome: ImportOutcome, outline: FeedOutline, feed: Feed) -> ImportLine:
    return ImportLine(
        outcome, shown(without_user(outline.url)), outline.title, feed.stream, feed.tags
    )


def _added(made: Feed | FeedsError, wanted: FeedRequest) -> ImportLine:
    """The line of a feed that was to be added."""
    match made:
        case Feed():
            return ImportLine("added", made.shown_url, wanted.title, made.stream, made.tags)
        case FeedsError():
            return ImportLine("refused", shown(wanted.url), wanted.title, reason=made.message)
