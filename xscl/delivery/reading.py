"""Messages out of pages of matches: what comes after a position, and the latest ones.

A group of matches on the same documents is never cut by the end of a page, so whoever reads, and
from wherever, finds the same messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from xscl.delivery.message import Message, documents_of, messages_of, whole_groups
from xscl.pages import Pages

PAGE = 200
"""Matches that are read at once."""


@dataclass(frozen=True, slots=True)
class Read:
    """Messages in the order of positions; up to `end` there are no others."""

    messages: tuple[Message, ...]
    end: int


@dataclass(frozen=True, slots=True)
class Latest:
    """Messages, the newest first; `more` says that there are older ones.

    `clock` is the engine's as of then: the latest time that had come.
    """

    messages: tuple[Message, ...]
    more: bool
    clock: int


def following(
    pages: Pages, subscription: str, after: int, *, grouped: bool = True, limit: int = PAGE
) -> Read:
    """Return what a subscription has after a position."""
    while True:
        page = pages.of(subscription, after=after, limit=limit)
        whole = whole_groups(page.matches) if grouped and page.more else page.matches
        if whole or not page.matches:
            break
        limit *= 4
    end = whole[-1].position if whole and page.more else page.end
    return Read(tuple(messages_of(whole, grouped=grouped)), end)


def latest(pages: Pages, subscription: str, count: int, *, before: int | None = None) -> Latest:
    """Return the latest messages of a subscription, those before a position."""
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
    return Latest(tuple(made[:count]), page.more or len(made) > count, page.clock)
