"""Messages read from pages of matches: those after a position, and the latest ones.

A page never ends inside a group of matches on the same documents.  Every reader therefore sees the
same messages, wherever it starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from xscl.delivery.message import Message, documents_of, messages_of, whole_groups
from xscl.subscriptions.match_pages import MatchPages

PAGE = 200
"""Matches read in one query."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order of position; the page is complete up to position `end`."""

    messages: tuple[Message, ...]
    end: int


@dataclass(frozen=True, slots=True)
class LatestMessages:
    """Messages, newest first; `more`: there are older ones.

    `clock` is the engine's event-time clock at the moment of reading.
    """

    messages: tuple[Message, ...]
    more: bool
    clock: int


def following(
    pages: MatchPages, subscription: str, after: int, *, grouped: bool = True, limit: int = PAGE
) -> MessagePage:
    """Return the messages of a subscription after a position."""
    while True:
        page = pages.of(subscription, after=after, limit=limit)
        whole = whole_groups(page.matches) if grouped and page.more else page.matches
        if whole or not page.matches:
            break
        limit *= 4
    end = whole[-1].position if whole and page.more else page.end
    return MessagePage(tuple(messages_of(whole, grouped=grouped)), end)


def latest(
    pages: MatchPages, subscription: str, count: int, *, before: int | None = None
) -> LatestMessages:
    """Return the latest messages of a subscription, optionally before a position."""
    limit = count * 2
    while True:
        page = pages.of(subscription, before=before, limit=limit, newest_first=True)
        matches = page.matches[::-1]
        if page.more:
            oldest = documents_of(matches[0])
            cut = (at for at, match in enumerate(matches) if documents_of(match) != oldest)
            matches = matches[next(cut, len(matches)) :]
        if matches or not page.matches:
            break
        limit *= 4
    made = list(messages_of(matches, grouped=True))[::-1]
    return LatestMessages(tuple(made[:count]), page.more or len(made) > count, page.clock)
