"""Feeds: `/v1/feeds`, the feeds that a user follows; the streams of the operator's are public."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from http import HTTPStatus
from typing import Annotated, Literal, NamedTuple, TypeAlias

from fastapi import Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from feeds.formats.opml import read_list, write_opml
from feeds.http.addresses import RefusedAddress, expect_fetchable
from feeds.xml.encoding import as_utf8, charset_of
from xscl.client import service_answers as answers
from xscl.language.names import EVERYTHING
from xscl.language.parser import parse_window
from xscl.polling.feed import (
    EVERY,
    LEAST_EVERY,
    SECOND,
    Feed,
    FeedsError,
    check_url,
    read_header,
)
from xscl.polling.feed_commands import allow_late, edit, follow, late_items
from xscl.polling.feed_list import ImportLine, import_outlines, outlines_of
from xscl.polling.feed_repository import FeedRepository, FeedRequest, ItemCounts, feed_row
from xscl.polling.lifecycle import refuse_failed
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import FROM_NEXT, After, Limit, ListPage, RequestBody, raw_request
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.problems import Problem, empty_list, not_found, refused_address
from xscl.store.queries.documents import documents_by_stream
from xscl.store.queries.feeds import FeedPlace, has_feeds_on, place_of

router = api_router(tag="feeds")

FeedOrder: TypeAlias = Literal["key", "name", "state", "item"]
Key = Annotated[str, Path(min_length=1, max_length=500, description="The key of the feed.")]
Stream = Annotated[str, Field(min_length=1, max_length=200)]


class NewFeed(RequestBody):
    """A feed to follow."""

    url: str = Field(max_length=4_000, examples=["https://example.org/news.atom"])
    """The address of the feed, or of a web page that announces it."""
    stream: Stream | None = Field(None, examples=["news"])
    """The stream of its items; default: the name of its host."""
    tags: list[Stream] = Field(default=[], max_length=50)
    """Further streams of its items, which other feeds may share."""
    every: str | None = Field(None, max_length=50, examples=["30 min"])
    """Time between two polls; default: an hour."""
    headers: list[str] = Field(default=[], max_length=20)
    """Request headers, `Name: value`; no answer shows them."""
    keep: bool = False
    """Follow it even if its first poll fails."""


class FeedChange(RequestBody):
    """Changes to a feed; omitted fields stay unchanged."""

    title: str | None = Field(None, max_length=200, examples=["My news"])
    """Your title of the feed; an empty text restores the feed's own title."""
    tags: list[Stream] | None = Field(None, max_length=50, examples=[["news"]])
    """Further streams of its items; replaces the whole list."""
    every: str | None = Field(None, max_length=50, examples=["30 min"])
    """Time between two polls."""
    headers: list[str] | None = Field(None, max_length=20, examples=[["X-Key: abc"]])
    """Request headers, `Name: value`; replaces the whole list."""
    revive: bool = False
    """Resume a feed in the state `gone`, and poll it at once."""


@router.get("/feeds", summary="List feeds")
def list_(
    app: TheApp,
    account: TheAccount,
    limit: Limit = 100,
    after: After = None,
    sort: Annotated[
        FeedOrder,
        Query(description="By key, by name, what is wrong first, or the newest item first."),
    ] = "key",
    text: Annotated[
        str, Query(max_length=200, description="Only those with it in name, address or stream.")
    ] = "",
    tag: Annotated[str, Query(max_length=200, description="Only those with this tag.")] = "",
) -> ListPage[answers.Feed]:
    """Lists your feeds in the order of their keys, or in another one."""
    owner = account.qualify("")
    with app.feeds() as feeds:
        found = feeds.owned(
            owner,
            _place_read(owner, after, sort) if after else None,
            limit + 1,
            order=sort,
            text=text,
            tag=owner + tag if tag else "",
        )
        items = _shown(feeds, account, found[:limit])
        # The last feed may just have been removed.
        places = (place_of(feeds.store, feed.key, sort) for feed in reversed(found[:limit]))
        last = next(filter(None, places), None) if len(found) > limit else None
    return ListPage(items=items, next=None if last is None else _place_written(account, last))


def _place_written(account: Account, place: FeedPlace) -> str:
    """Return a place in a list as the text of `next`: the user's key, a space, the sort value."""
    key = account.named(place.key)
    return key if place.value == "" else f"{key} {place.value}"


def _place_read(owner: str, text: str, order: FeedOrder) -> FeedPlace:
    """Return the place in a text of `_place_written`; raises Problem.

    `owner` is the prefix of the user's keys.
    """
    key, has_value, value = text.partition(" ")
    if order == "key":
        return FeedPlace("", owner + key)
    is_number = order != "name"
    if not has_value or (is_number and not re.fullmatch(r"-?\d{1,18}", value)):
        raise Problem("invalid_request", f"after: {text!r} is no place in it", hint=FROM_NEXT)
    return FeedPlace(int(value) if is_number else value, owner + key)


@router.post("/feeds", summary="Follow a feed", status_code=HTTPStatus.CREATED)
async def add(new: NewFeed, app: TheApp, account: TheAccount) -> answers.Feed:
    """Follows a feed (RSS, Atom, JSON Feed), or that of a web page, and polls it at once.

    Its items are on its stream, on its tags and on the stream `feeds`.  If its first poll fails
    within some seconds it is not followed, unless `keep` is set.
    """
    followed = await run_in_threadpool(_follow, new, app, account)
    until = time.monotonic() + FIRST_ANSWER
    while True:
        found = await run_in_threadpool(_first, app, account, followed, keep=new.keep)
        if found.polled is not None or time.monotonic() > until:
            return found
        await asyncio.sleep(LOOK)


FIRST_ANSWER = 5.0
"""Maximum time in seconds for which the answer waits for the first poll."""

LOOK = 0.1
"""Seconds between two checks whether the first poll is complete."""


class _Followed(NamedTuple):
    """A feed just followed, and the engine's names of two sets of its streams.

    The lateness of `fixed` could not be raised; `made` did not exist before.  `claimed` are the
    user's names of the streams that became his.
    """

    feed: Feed
    fixed: list[str]
    made: set[str]
    claimed: list[str]


def _first(app: App, account: Account, new: _Followed, *, keep: bool) -> answers.Feed:
    """Return a feed just followed in its current state.

    If its first poll has failed and not `keep`, removes the feed and raises FeedsError.
    """
    with app.feeds() as feeds:
        now = next(iter(feeds.among([new.feed.key])), new.feed)
        try:
            if not keep:
                refuse_failed(now)
        except FeedsError:
            feeds.remove(now)
            app.accounts.usage.subtract(account.number, "feeds")
            documents = documents_by_stream(feeds.store)
            empty = [
                stream
                for stream in new.made
                if not (has_feeds_on(feeds.store, stream) or documents.get(stream))
            ]
            forgotten = app.engine.catalog.forget_streams(empty)
            for stream in new.claimed:
                if account.qualify(stream) in forgotten:
                    app.accounts.users.release(account, stream)
            raise
        return _as_it_is(feeds, account, now, new.fixed)


def _follow(new: NewFeed, app: App, account: Account) -> _Followed:
    check_url(new.url)
    refuse_address(app, account, new.url)
    headers = tuple(map(read_header, new.headers))
    owner = account.qualify("")
    with app.accounts.usage.adding(account, "feeds"), app.feeds() as feeds:
        every = EVERY if new.every is None else _seconds(new.every)
        wanted = FeedRequest(new.url, new.stream, new.tags, every, headers, owner=owner)
        known = app.engine.state.streams.known()
        feed, fixed = follow(app.engine, feeds, wanted)
        made = set(feed.streams) - known
        return _Followed(feed, fixed, made, _claim(app, account, feed))


@router.post(
    "/feeds:import",
    summary="Follow the feeds of a list",
    openapi_extra=raw_request(
        {
            "text/plain": "https://example.org/news.atom",
            "text/x-opml": '<opml version="2.0"><body>'
            '<outline type="rss" xmlUrl="https://example.org/news.atom"/></body></opml>',
        }
    ),
)
async def import_(
    request: Request,
    app: TheApp,
    account: TheAccount,
    tag: Annotated[
        list[str] | None, Query(max_length=50, description="Tags for all of them.")
    ] = None,
) -> list[answers.FeedOutcome]:
    """Follows the feeds of OPML, or of a text with one address a line; folders become tags.

    The answer has an outcome for each address.  A repeated import changes nothing.
    """
    charset = charset_of(request.headers.get("content-type"))
    body = await run_in_threadpool(as_utf8, await request.body(), charset)
    return await run_in_threadpool(take_in, app, account, body, tag or [])


def take_in(app: App, account: Account, body: bytes, tags: list[str]) -> list[answers.FeedOutcome]:
    """Follow the feeds of a list; return the outcome of each."""
    outlines = read_list(body) if body.strip() else []
    if not outlines:
        raise empty_list("send OPML, or one address a line")
    owner = account.qualify("")
    with app.accounts.usage.adding(account, "feeds", len(outlines)), app.feeds() as feeds:
        taken = import_outlines(feeds, outlines, tags, EVERY, owner)
        fixed = allow_late(app.engine, taken.feeds)
        for feed in taken.feeds:
            _claim(app, account, feed)
    added = sum(line.outcome == "added" for line in taken.lines)
    app.accounts.usage.subtract(account.number, "feeds", len(outlines) - added)
    return [_outcome(account, line, fixed) for line in taken.lines]


@router.get(
    "/feeds:export",
    summary="Export the feeds as OPML",
    response_class=Response,
    responses={200: {"content": {"text/x-opml": {"schema": {"type": "string"}}}}},
)
def export(app: TheApp, account: TheAccount) -> Response:
    """Writes OPML 2.0; feeds whose addresses look secret are left out, and counted in a header."""
    with app.feeds() as feeds:
        found = feeds.owned(account.qualify(""))
    found.sort(key=lambda feed: (feed.added, feed.key))
    named = [
        replace(feed, stream=account.named(feed.stream), tags=tuple(map(account.named, feed.tags)))
        for feed in found
    ]
    outlines, left_out = outlines_of(named)
    return Response(
        write_opml(outlines, "Feeds followed by xscl"),
        media_type="text/x-opml",
        headers={"X-Left-Out": str(len(left_out))},
    )


@router.post("/feeds:poll", summary="Poll all feeds now", status_code=HTTPStatus.ACCEPTED)
def poll_all(app: TheApp, account: TheAccount) -> answers.FeedsPolled:
    """Requests a poll of each of your feeds, as `POST /v1/feeds/{key}:poll` does of one."""
    with app.feeds() as feeds:
        return answers.FeedsPolled(feeds=feeds.request_polls(account.qualify(""), app.clock.now()))


@router.get("/feeds/{key}", summary="Show a feed")
def get(key: Key, app: TheApp, account: TheAccount) -> answers.Feed:
    """Shows a feed with its state, its last poll and its number of items."""
    with app.feeds() as feeds:
        feed = existing(feeds, account, key)
        return _as_it_is(feeds, account, feed)


@router.get("/feeds/{key}/polls", summary="List the last polls of a feed")
def polls(key: Key, app: TheApp, account: TheAccount) -> list[answers.Poll]:
    """Lists the last 100 polls, the newest first; empty before the first one."""
    with app.feeds() as feeds:
        found = feeds.polls(existing(feeds, account, key))
    return [
        answers.Poll(
            **asdict(one) | {"note": None if one.note is None else account.shown(one.note)},
            failed=one.is_failed,
        )
        for one in found
    ]


@router.patch("/feeds/{key}", summary="Change a feed")
def change(key: Key, change: FeedChange, app: TheApp, account: TheAccount) -> answers.Feed:
    """Changes name, tags, the time between polls, headers; items stay as they are."""
    for tag in change.tags or ():
        account.qualify(tag)
    every = None if change.every is None else _seconds(change.every)
    headers = None if change.headers is None else tuple(map(read_header, change.headers))
    with app.feeds() as feeds:
        feed = existing(feeds, account, key)
        changed, fixed = edit(
            app.engine,
            feeds,
            feed,
            app.clock.now(),
            title=change.title,
            tags=change.tags,
            every=every,
            headers=headers,
            revive=change.revive,
        )
        _claim(app, account, changed)
        return _as_it_is(feeds, account, changed, fixed)


@router.delete("/feeds/{key}", summary="Stop following a feed", status_code=HTTPStatus.NO_CONTENT)
def remove(key: Key, app: TheApp, account: TheAccount) -> None:
    """Stops following a feed; its documents and their matches stay."""
    with app.feeds() as feeds:
        feeds.remove(existing(feeds, account, key))
    app.accounts.usage.subtract(account.number, "feeds")


@router.post("/feeds/{key}:poll", summary="Poll a feed now", status_code=HTTPStatus.ACCEPTED)
def poll(key: Key, app: TheApp, account: TheAccount) -> answers.Feed:
    """Requests a poll, done as soon as a slot is free, unless one was within the last minute.

    A poll in progress is followed by another one, since its answer may be older than the request.
    """
    with app.feeds() as feeds:
        feed = existing(feeds, account, key)
        feed = feeds.request_poll(feed, app.clock.now(), at_once=account.is_operator)
        return _as_it_is(feeds, account, feed)


def existing(feeds: FeedRepository, account: Account, key: str) -> Feed:
    """Return a user's feed by its key; raises Problem 404."""
    known = account.qualify(key)
    found = feeds.among([known])
    if not found:
        raise not_found("feed", key, "'GET /v1/feeds' lists keys")
    return found[0]


def refuse_address(app: App, account: Account, url: str) -> None:
    """Raise Problem for a URL that may not be fetched."""
    try:
        expect_fetchable(url, app.feeds.fetching.allow_addresses)
    except RefusedAddress as refused:
        raise refused_address(account, refused) from None


def _claim(app: App, account: Account, feed: Feed) -> list[str]:
    """Make a user the owner of a feed's streams; return his names of those that he gained."""
    if account.is_operator:
        return []
    named = map(account.named, feed.streams)
    return [stream for stream in named if app.accounts.users.claim(account, stream)]


def _seconds(text: str) -> int:
    found = parse_window(text) // SECOND
    if text.strip().isdecimal() or not LEAST_EVERY <= found <= 366 * 86_400:
        raise Problem(
            "every",
            f"feeds are not polled every {text!r}",
            hint=f"a duration of {LEAST_EVERY} s at least, such as 30 min",
        )
    return found


def _as_it_is(
    feeds: FeedRepository, account: Account, feed: Feed, fixed: Iterable[str] = ()
) -> answers.Feed:
    """Return a feed as an answer, with a warning for each stream in `fixed` (see `_Followed`)."""
    (shown,) = _shown(feeds, account, [feed], fixed)
    return shown


def _shown(
    feeds: FeedRepository, account: Account, found: Sequence[Feed], fixed: Iterable[str] = ()
) -> list[answers.Feed]:
    """Return feeds as answers, with their items and leases, and warnings as in `_as_it_is`."""
    keys, warnings = [feed.key for feed in found], _warnings(account, fixed)
    counts, leases = feeds.counts(keys), feeds.leases(keys)
    shown = []
    for feed in found:
        row = feed_row(feed, counts.get(feed.key, ItemCounts()), leases.get(feed.key))
        own = {
            "key": account.named(feed.key),
            "stream": account.named(feed.stream),
            "tags": [account.named(tag) for tag in feed.tags],
            "error": None if feed.error is None else account.shown(feed.error),
            "note": None if feed.note is None else account.shown(feed.note),
        }
        shown.append(answers.Feed(**row | own, warnings=warnings))
    return shown


def _warnings(account: Account, fixed: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each stream whose lateness could not be raised."""
    seen = (name for name in fixed if name != EVERYTHING or account.is_operator)
    return tuple(late_items(account.named(name)) for name in seen)


def _outcome(account: Account, line: ImportLine, fixed: Sequence[str]) -> answers.FeedOutcome:
    is_changed = line.outcome in ("added", "tagged")
    its = {line.stream, *line.tags, EVERYTHING} if is_changed else set()
    own = {
        "warnings": _warnings(account, [name for name in fixed if name in its]),
        "stream": account.named(line.stream),
        "tags": [account.named(tag) for tag in line.tags],
        "reason": account.shown(line.reason),
    }
    return answers.FeedOutcome(**asdict(line) | own)
