"""Messages read from pages of matches: those after a position, and the latest ones.

A page never ends inside a group of matches on the same documents.  Every reader therefore sees the
same messages, wherever it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from xscl.delivery.message import (
    Message,
    in_messages,
    messages_of,
    whole_groups,
)
from xscl.engine.match_log import MatchLog, Page
from xscl.engine.story_log import StoryLog
from xscl.subscriptions.match import Match

PAGE = 200
"""Number of matches that one query reads, unless a caller gives another."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order of position; the page is complete up to position `end`."""

    messages: tuple[Message, ...]
    end: int


@dataclass(frozen=True, slots=True)
class LatestMatches:
    """The matches of each message, newest first.

    `older` is the position before which others follow, None if none do.  `clock` is the engine's
    event-time clock at the moment of reading.
    """

    groups: tuple[Sequence[Match], ...]
    older: int | None
    clock: int


class NewestFirst(Protocol):
    """A read of the newest matches before a position; a page may be empty though others follow."""

    def __call__(self, before: int | None, limit: int) -> Page: ...


def following(
    pages: MatchLog,
    subscription: str,
    after: int,
    *,
    grouped: bool = True,
    limit: int = PAGE,
    html: bool = False,
) -> MessagePage:
    """Return the messages of a subscription after a position, with `html` if wanted."""
    while True:
        page = pages.page(subscription, after=after, limit=limit)
        whole = whole_groups(page.matches) if grouped and page.more else page.matches
        if whole or not page.matches:
            break
        limit *= 4
    end = whole[-1].position if whole and page.more else page.end
    return MessagePage(tuple(messages_of(whole, grouped=grouped, html=html)), end)


def latest(read: NewestFirst, count: int, *, before: int | None = None) -> LatestMatches:
    """Return the matches of the latest messages, at least `count` messages if there are as many.

    A page ends between two sets of documents, since part of one would make other messages.
    """
    limit = count * 2
    while True:
        page = read(before=before, limit=limit)
        if page.more and not page.matches:
            before = page.end
            continue
        matches = page.matches[::-1]
        if page.more:
            oldest = result_of(matches[0])
            cut = (at for at, match in enumerate(matches) if result_of(match) != oldest)
            matches = matches[next(cut, len(matches)) :]
        if matches or not page.more:
            break
        limit *= 4
    groups: list[Sequence[Match]] = []
    runs = [list(run) for _, run in groupby(matches, key=result_of)]
    while runs and len(groups) < count:
        groups += list(_in_messages(runs.pop()))[::-1]
    older = groups[-1][0].position if groups and (page.more or runs) else None
    return LatestMatches(tuple(groups), older, page.clock)


def with_stories(pages: MatchLog, found: LatestMatches) -> LatestMatches:
    """Return matches with each story in place of its newest match, the only one of it among them.

    A story that has grown since, or of which no document is kept, is left out.
    """
    groups: list[Sequence[Match]] = []
    for group in found.groups:
        shown = story_or_match(pages, group)
        groups += [] if shown is None else [shown]
    return replace(found, groups=tuple(groups))


def story_or_match(pages: MatchLog, group: Sequence[Match]) -> Sequence[Match] | None:
    """Return `group`, or the story whose newest match is its first; None if it has grown since."""
    if not group[0].found_by.stories:
        return group
    story = StoryLog(pages).ending_with(group[0])
    return story if story is not None and len(story) else None


def _in_messages(run: Sequence[Match]) -> Iterator[Sequence[Match]]:
    """Yield the messages of matches with the same `result_of`, subscription by subscription."""
    by_subscription: dict[int, list[Match]] = {}
    for match in run:
        by_subscription.setdefault(match.number, []).append(match)
    for matches in by_subscription.values():
        yield from in_messages(matches)


def result_of(match: Match) -> tuple[str, ...]:
    """Return the time and the names of a match's documents, or its position if there are none.

    It is the same for all subscriptions that share a result, whatever their versions.  Matches with
    the same value follow one another, and a page never ends between them.
    """
    return (str(match.t1), *match.names) if match.names else (str(match.position),)
