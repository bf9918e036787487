"""Changes that users make to followed feeds, and the streams of their items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from feeds.formats.items import LEAVES
from xscl.engine.facade import Engine
from xscl.language.names import EVERYTHING
from xscl.polling import lifecycle
from xscl.polling.feed import EVERY, Feed, Headers, lateness_of, title_of
from xscl.polling.feed_repository import FeedRepository, FeedRequest

_ATTRIBUTES = dict.fromkeys(LEAVES, str)  # leaves of items, as attributes of events


def follow(engine: Engine, feeds: FeedRepository, wanted: FeedRequest) -> tuple[Feed, list[str]]:
    """Follow a feed; return it, and its streams whose lateness could not be raised.

    The lateness of items is the time of two polls, at least one hour.  It must be set
    before a subscription reads the stream; `prepare` repairs a kill between the two
    steps.  Raises FeedsError if the feed is followed already or a name is invalid.
    """
    feed = feeds.add(wanted)
    return feed, allow_late(engine, [feed])


def edit(
    engine: Engine,
    feeds: FeedRepository,
    feed: Feed,
    now: int,
    *,
    title: str | None,
    tags: Sequence[str] | None,
    every: int | None,
    headers: Headers | None,
    revive: bool,
) -> tuple[Feed, list[str]]:
    """Change a feed; return it, and streams as `follow` does.

    None leaves a field; tags and headers are replaced as a whole.  `title` is the user's name for
    it; empty, the feed has its own title again.  `revive` resumes the polls of a feed that is gone.
    """
    changed = replace(
        feed,
        given_title=feed.given_title if title is None else title_of(title),
        tags=feed.tags if tags is None else tuple(dict.fromkeys(feed.owner + t for t in tags)),
        every=feed.every if every is None else every,
        headers=feed.headers if headers is None else headers,
        header_names=feed.header_names if headers is None else tuple(name for name, _ in headers),
        given_for=feed.given_for if headers is None else feed.url if headers else "",
        gone=feed.gone and not revive,
        next_poll=now if revive or lifecycle.secret_lost(feed) else feed.next_poll,
    )
    feeds.edit(changed)
    return changed, allow_late(engine, [changed])


def prepare(engine: Engine) -> None:
    """Set the lateness and attributes of item streams before a subscription reads them.

    The stream of all items gets them before the first feed; the others have them since their feeds
    were followed, unless the process was killed at that moment.
    """
    with FeedRepository(engine) as feeds:
        needed = _needed(feeds)
    engine.catalog.raise_lateness(
        {**needed, EVERYTHING: max(lateness_of(EVERY), needed.get(EVERYTHING, 0))}, _ATTRIBUTES
    )


def allow_late(engine: Engine, feeds: Iterable[Feed]) -> list[str]:
    """Raise the lateness of streams to that of their feeds; return those that cannot be raised.

    A stream's lateness is fixed as soon as a subscription reads it.
    """
    return engine.catalog.raise_lateness(_needed(feeds), _ATTRIBUTES)


def late_items(stream: str) -> str:
    """Return the warning about a stream whose lateness could not be raised."""
    return (
        f"subscriptions to {stream!r} may miss older items of this feed: their allowance for late"
        " items was fixed when they were made; follow feeds before you subscribe to their streams"
    )


def _needed(feeds: Iterable[Feed]) -> dict[str, int]:
    """Return the lateness that each stream needs, in ticks: the largest of its feeds."""
    needed: dict[str, int] = {}
    for feed in feeds:
        for name in feed.streams:
            needed[name] = max(feed.lateness, needed.get(name, 0))
    return needed
