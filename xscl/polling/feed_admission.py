"""Admission of feeds to follow: checks and stream names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xscl.language.names import EVERYTHING, owner_prefix
from xscl.polling.feed import (
    EVERY,
    Feed,
    FeedsError,
    Headers,
    check_name,
    feed_key,
    free_name,
    shown,
    site_of,
    split_user,
    stream_name,
    title_of,
)

MOST_TAGS = 50
"""Tags of a feed."""


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """A feed that somebody wants to follow; `url` as it was given, secrets included.

    `owner` comes before the names of the user whose feed it is to be, see `Feed.owner`.
    """

    url: str
    stream: str | None = None
    tags: Sequence[str] = ()
    every: int = EVERY
    headers: Headers = ()
    title: str = ""
    site_url: str = ""
    owner: str = ""


class FeedAdmission:
    """The obstacles to following a feed: followed feeds, and published streams.

    Keys and addresses are there with their feeds' streams, published streams with a subscription.
    """

    def __init__(self, feeds: Iterable[Feed], published: Mapping[str, str]) -> None:
        self.keys: dict[str, str] = {}
        self.urls: dict[tuple[str, str], str] = {}
        self.published = published
        self.streams = {EVERYTHING, *published}
        for feed in feeds:
            self.register(feed)

    def register(self, feed: Feed) -> None:
        self.keys[feed.key] = self.urls[feed.owner, feed.url] = feed.stream
        self.streams.add(feed.stream)


def admit(wanted: FeedRequest, known: FeedAdmission, now: int) -> Feed:
    """Return a new feed; raise if it is followed already or a name is invalid."""
    owner = wanted.owner
    key = owner + feed_key(wanted.url)
    url, user = split_user(wanted.url)
    headers = (*wanted.headers, *user)
    if owner_prefix(key) != owner or any(map(owner_prefix, (wanted.stream or "", *wanted.tags))):
        raise FeedsError(
            f"{shown(url)} cannot be followed under names that begin as those of users do"
        )
    there = known.keys.get(key) or (None if headers else known.urls.get((owner, url)))
    if there is not None:
        raise FeedsError(
            f"{shown(url)} is followed already, on the stream {there!r}",
            hint=f"'xscl feeds show {there}' shows it, 'xscl feeds edit' changes it",
        )
    if len(wanted.tags) > MOST_TAGS:
        raise FeedsError(f"{shown(url)} has over {MOST_TAGS} tags", hint="give it fewer")
    for name in (*((wanted.stream,) if wanted.stream else ()), *wanted.tags):
        check_name(name)
    stream = owner + wanted.stream if wanted.stream else _free(owner, url, known)
    tags = tuple(dict.fromkeys(owner + tag for tag in wanted.tags))
    refuse_published((stream, *tags), known.published)
    return Feed(
        key,
        url,
        stream,
        tags,
        wanted.every,
        now,
        headers,
        url if headers else "",
        title=title_of(wanted.title),
        site_url=site_of(wanted.site_url),
        next_poll=now,
    )


def _free(owner: str, url: str, known: FeedAdmission) -> str:
    """Return a name for the stream of a feed that no other stream has."""
    return free_name(owner + stream_name(url), known.streams)


def refuse_published(streams: Iterable[str], published: Mapping[str, str]) -> None:
    """Raise if a subscription publishes one of a feed's streams."""
    for name in streams:
        if name in published:
            raise FeedsError(
                f"the subscription {published[name]!r} publishes the stream {name!r}",
                hint="give the feed another name of a stream",
            )
