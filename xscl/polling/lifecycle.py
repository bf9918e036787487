"""The life cycle of feeds: how answers change, move, fail and end them.

    answered    the feed is well: errors are forgotten, validators and wishes kept
    failed      back-off: the interval doubles with each failure, up to a day
    refused     xscl does not request it: its address is private, or its port unusual; no back-off
    gone        410: it is not polled again, unless revived
    put_off     a server to which it is redirected is blocked now: no back-off

A permanent redirect (301, 308) becomes the feed's address after `MOVES` good answers at the same
target in a row: one mistake of a server must not move a feed for ever.  A 404 may pass, so it is a
failure like others; after a week of nothing but failures the feed counts as lost.  A single
address that is added is refused if its first answer is no feed; feeds of a list are kept.  If a web
page is in the place of a feed without a good answer so far, it is searched for the feed that it
announces, which is requested next.  For a feed that worked before (a login page, say) it is a
failure.

All functions are pure; the next poll is computed here too (`feeds.http.schedule`).
"""

from __future__ import annotations

from dataclasses import replace

from feeds.formats.entries import without_user
from feeds.formats.parse import ParsedFeed
from feeds.http.fetch import Failed, Fetched, NotModified
from feeds.http.schedule import NO_WISHES, PollHints, PollPolicy, next_poll
from xscl.polling.feed import (
    HIDDEN,
    REFUSALS,
    SECOND,
    Feed,
    FeedsError,
    is_url,
    shown,
    site_of,
    title_of,
)

LONGEST_HUB = 2_000
"""Most characters of the address of a hub or topic; a feed with a longer one is polled only."""

MOVES = 3
"""Good answers in a row from its target after which a permanent redirect moves a feed."""

SEARCHES = 3
"""Most feeds that are tried of those that a page announces."""

SECRET_LOST = Failed(
    "feed_secret",
    "the secret part of its address is not known any more (backups have no secrets): "
    "remove the feed and add it again",
)

_VALIDATORS = ("etag", "last_modified", "validated_by", "unchanged")
"""The fields of a feed that a good answer's `FeedState` sets."""

_HEADER = ("title", "site_url", "format", "quality", "ttl")
"""The fields of a feed that are those of its `ParsedFeed`."""

_TOO_MANY = 429
_PAUSE = 300  # seconds, for a server that says "too many requests" but not how long


def answered(
    feed: Feed, outcome: Fetched | NotModified, parsed: ParsedFeed | None, now: int
) -> Feed:
    """Return a feed after a good answer; `parsed` is None if nothing has changed."""
    well = replace(
        feed,
        **{name: getattr(outcome.state, name) for name in _VALIDATORS},
        polled=now,
        polls=feed.polls + 1,
        failures=0,
        failing_since=None,
        code=None,
        error=None,
        gone=False,
    )
    if parsed is not None:
        well = _described(well, parsed)
        if isinstance(outcome, Fetched):
            well = _at_hub(well, outcome, parsed)
        if not parsed.items:  # with the whole feed's validators, a 304 would hide its items
            well = replace(well, etag=None, last_modified=None)
    return _scheduled(_moved(well, outcome.moved_to), now, outcome.cache)


def failed(feed: Feed, failure: Failed, now: int) -> Feed:
    """Return a feed after an answer that is an error, or of which nothing can be read."""
    found = next((each for each in failure.discovered if each != feed.url), None)
    hint = f"; the page names {shown(found)}" if found else ""
    ill = replace(
        _ill(feed, failure.code, f"{failure.message}{hint}", now), moved_to=None, moved_polls=0
    )
    return _scheduled(ill, now, PollHints(retry_after=failure.retry_after))


def _ill(feed: Feed, code: str, error: str, now: int) -> Feed:
    return replace(
        feed,
        polled=now,
        failures=feed.failures + 1,
        failing_since=now if feed.failing_since is None else feed.failing_since,
        code=code,
        error=error,
    )


def refuse_failed(feed: Feed) -> None:
    """Raise FeedsError if the first poll of a feed has failed, unless xscl itself is at fault."""
    if feed.error is None or feed.polls or feed.code in _OURS:
        return
    raise FeedsError(
        f"{feed.shown_url} is not followed: {feed.error}",
        hint="give the address of a feed, or of a page that announces one; 'xscl feeds add --keep'"
        ' ("keep": true) follows it all the same',
    )


_OURS = REFUSALS | {SECRET_LOST.code, "feed_internal"}
"""Codes of errors of which the feed is not the cause."""


def secret_lost(feed: Feed) -> Failed | None:
    """Return the failure of a feed whose secrets (address, headers) are lost; None if none is.

    The store keeps the names of secrets, `secrets.json` their values, which no backup has.
    """
    if f"={HIDDEN}" in feed.url:
        return SECRET_LOST
    if feed.header_names and not feed.headers:
        told = " and ".join(feed.header_names)
        return Failed(
            SECRET_LOST.code,
            f"what it sends as {told} is not known any more (backups have no secrets): "
            f"xscl feeds edit {feed.source} --header '{feed.header_names[0]}: ...'",
        )
    return None


def with_secret_lost(feed: Feed) -> Feed:
    """Return a feed, as failing if a secret of it is lost (`secret_lost`), without a poll."""
    lost = secret_lost(feed)
    if lost is None or feed.code == lost.code or feed.gone:
        return feed
    return replace(feed, code=lost.code, error=lost.message, failures=feed.failures + 1)


def is_ours(feed: Feed, failure: Failed) -> bool:
    """Return True if xscl refuses the feed's own address, not only a redirect to it."""
    return failure.code in REFUSALS and feed.place in failure.message


def refused(feed: Feed, refusal: Failed, now: int) -> Feed:
    """Return a feed that was not requested, because its address is not allowed."""
    error = f"{refusal.message}; --allow-address {feed.place} allows it"
    known = replace(feed, polled=now, failures=0, failing_since=None, code=refusal.code)
    return _scheduled(replace(known, error=error), now)


def gone(feed: Feed, now: int) -> Feed:
    """Return a feed whose server answers that it is gone for good."""
    message = "the server says that the feed is gone (410)"
    return replace(_ill(feed, "fetch_gone", message, now), gone=True)


def put_off(feed: Feed, seconds: int, now: int) -> Feed:
    """Return a feed whose next poll is put off for some seconds.

    It is redirected to a domain that asked for a pause, and is blocked until then.
    """
    policy = PollPolicy(base=_PAUSE, floor=_PAUSE)
    later = next_poll(feed.key, now, PollHints(retry_after=seconds), policy)
    return replace(feed, next_poll=later)


# -- Moving --------------------------------------------------------------------------------


def _moved(feed: Feed, moved_to: str | None) -> Feed:
    """Return the feed with the count of its permanent redirects."""
    target = None if moved_to is None else without_user(moved_to)
    if target is None or target == feed.url:
        return replace(feed, moved_to=None, moved_polls=0)
    polls = feed.moved_polls + 1 if target == feed.moved_to else 1
    return replace(feed, moved_to=target, moved_polls=polls)


def settled(feed: Feed) -> Feed:
    """Return the feed, at its new address if `MOVES` polls in a row were redirected there."""
    if feed.moved_to is None or feed.moved_polls < MOVES:
        return feed
    return replace(feed, url=feed.moved_to, moved_to=None, moved_polls=0)


def announced(feed: Feed, failure: Failed) -> tuple[Feed, ...]:
    """Return copies of the feed at the addresses that a web page in its place announces.

    Empty if the feed was read before: then the page is a mistake, such as a login page.
    """
    if feed.polls:
        return ()
    urls = dict.fromkeys(without_user(url) for url in failure.discovered)
    return tuple(replace(feed, url=url) for url in urls if url != feed.url)[:SEARCHES]


# -- What an answer says -------------------------------------------------------------------


def _described(feed: Feed, parsed: ParsedFeed) -> Feed:
    """Return the feed with what an answer says of it: title, site, format, hours to skip."""
    left_out = f"the last {parsed.omitted:,} items were left out" if parsed.omitted else None
    return replace(
        feed,
        **{name: getattr(parsed, name) for name in _HEADER}
        | {"title": title_of(parsed.title), "site_url": site_of(parsed.site_url)},
        note=left_out,
        skip_hours=" ".join(map(str, sorted(parsed.skip_hours))),
        skip_days=" ".join(sorted(parsed.skip_days)),
    )


def _at_hub(feed: Feed, fetched: Fetched, parsed: ParsedFeed) -> Feed:
    """Return the feed with its WebSub hub and topic, if both may be disclosed.

    A feed with headers, or with a secret in its address, is kept from hubs, which would fetch it
    for everybody.
    """
    hub = fetched.links.get("hub") or parsed.hub
    topic = fetched.links.get("self") or parsed.self_url or fetched.url
    secret = feed.headers or any(shown(url) != url for url in (feed.url, fetched.url, hub, topic))
    usable = all(is_url(url) and len(url) <= LONGEST_HUB for url in (hub, topic))
    return (
        replace(feed, hub=None, topic=None)
        if secret or not usable
        else replace(feed, hub=hub, topic=topic)
    )


# -- When to ask again ---------------------------------------------------------------------


def held_until(failure: Failed, now: int) -> int | None:
    """Return the time until which the whole domain is blocked, in ticks; None if it is not."""
    pause = _PAUSE if failure.status == _TOO_MANY else 0
    seconds = min(failure.retry_after or pause, PollPolicy().cap)
    return now + seconds * SECOND if seconds > 0 else None


def _scheduled(feed: Feed, now: int, wishes: PollHints = NO_WISHES) -> Feed:
    """Return a feed with the time of its next poll; `wishes` are what its server asks for."""
    wishes = replace(
        wishes,
        ttl=feed.ttl,
        errors=feed.failures,
        skip_hours=frozenset(map(int, feed.skip_hours.split())),
        skip_days=frozenset(feed.skip_days.split()),
    )
    policy = PollPolicy(base=feed.every, floor=min(feed.every, PollPolicy().floor))
    return replace(feed, next_poll=next_poll(feed.key, now, wishes, policy))
