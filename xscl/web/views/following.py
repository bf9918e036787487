"""Feeds: the list, a page for each, adding and removing, import and export."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import File, Form, Path, Query, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from feeds.errors import FeedError
from xscl.client import Poll
from xscl.client.bodies import ticks_of
from xscl.drawing.charts import BarOutcome, TimelineEvent, draw_timeline
from xscl.drawing.svg import Picture
from xscl.errors import XsclError
from xscl.inspection.vocabulary import vocabulary
from xscl.plurals import counted
from xscl.service.problems import Problem
from xscl.service.routes import feeds
from xscl.service.tags import split_tags
from xscl.store.queries.browsing import documents_by_day
from xscl.store.queries.feeds import polled_since, tags_of_feeds
from xscl.time_format import LATEST, SECOND, duration
from xscl.web.pages import Asked, ListQuery, PageProblem, PageRequest, router
from xscl.web.rendering import DAYS, spark, when
from xscl.web.views.items import newest_items

LIMIT = 100
LARGEST = 5_000_000
"""Maximum size in bytes of a list of feeds."""

_ITEM_LEVELS = 2  # length of the path of an item's field: item/title

Key = Annotated[str, Form(max_length=500)]

ORDERS = {"name": "Name", "state": "Errors", "item": "Newest"}
"""The words on the page for the orders: by name, errors first, the newest item first."""


class FeedList(ListQuery):
    """The filter and the order of the list of feeds.

    `added` is the key of a feed that was just followed.  `polled` is the number of feeds of which
    polls were requested at the time `since` in ticks.
    """

    after: str = Field(default="", max_length=1_000)
    sort: Literal["name", "state", "item"] = "name"
    text: str = Field(default="", max_length=200)
    tag: str = Field(default="", max_length=200)
    added: str = Field(default="", max_length=500)
    polled: int = Field(default=0, ge=0)
    since: int = Field(default=0, ge=0, le=LATEST)


@router.get("/feeds")
def listed(asked: Asked, wanted: Annotated[FeedList, Query()]) -> Response:
    """Show the feeds, and the result of a form (see `FeedList`)."""
    return _page(asked, wanted)


class FeedForm(BaseModel):
    """The input of the form for a new feed, which is shown again with its error."""

    url: str = Field(default="", max_length=2_000)
    stream: str = Field(default="", max_length=200)
    tags: str = Field(default="", max_length=500)
    keep: bool = False


@router.post("/feeds/add")
async def add(asked: Asked, given: Annotated[FeedForm, Form()]) -> Response:
    """Follow a feed and return to the list, which shows the result of the first poll."""
    try:
        stream, tags = given.stream or None, split_tags(given.tags)
        new = feeds.NewFeed(
            url=given.url.strip(), stream=stream, tags=tags, every=None, keep=given.keep
        )
        added = await feeds.add(new, asked.app, asked.account)
    except (XsclError, FeedError, Problem) as error:
        words = asked.problem(error)
        return await run_in_threadpool(lambda: _page(asked, FeedList(), error=words, given=given))
    return asked.redirect("/feeds", added=added.key)


@router.post("/feeds/poll")
def poll(asked: Asked, feed: Key) -> Response:
    """Schedule a poll of a feed."""
    feeds.poll(feed, asked.app, asked.account)
    return asked.redirect(f"/feeds/{quote(feed)}", asked=1)


@router.post("/feeds/poll-all")
async def poll_all(asked: Asked) -> Response:
    """Poll all feeds; when all are polled, or after `FIRST_ANSWER`, return to the list."""
    since, until = asked.app.clock.now(), time.monotonic() + feeds.FIRST_ANSWER
    wanted = (await run_in_threadpool(feeds.poll_all, asked.app, asked.account)).feeds
    while (await run_in_threadpool(_refreshed, asked, since))["due"]:
        if time.monotonic() > until:
            break
        await asyncio.sleep(feeds.LOOK)
    return asked.redirect("/feeds", polled=wanted, since=since)


def _refreshed(asked: PageRequest, since: int) -> dict[str, int]:
    """Return figures of the polls of the reader's feeds since a time in ticks (`polled_since`)."""
    until = since + int(feeds.FIRST_ANSWER * SECOND)
    return asked.with_store(polled_since, asked.account.qualify(""), since, until)


@router.post("/feeds/edit")
def edit(
    asked: Asked,
    feed: Key,
    title: Annotated[str, Form(max_length=200)] = "",
    tags: Annotated[str, Form(max_length=500)] = "",
    every: Annotated[str, Form(max_length=50)] = "",
    revive: Annotated[bool, Form()] = False,
) -> Response:
    """Change title, tags and interval of a feed; with `revive` resume one in the state `gone`."""
    changed = {"title": title, "tags": split_tags(tags), "revive": revive}
    changed["every"] = every.strip() or None
    try:
        feeds.change(feed, feeds.FeedChange.model_validate(changed), asked.app, asked.account)
    except (XsclError, FeedError, Problem) as error:
        given = {"title": title, "tags": tags, "every": every}
        return _one(asked, feed, error=asked.problem(error), given=given)
    return asked.redirect(f"/feeds/{quote(feed)}")


@router.post("/feeds/remove")
def remove(asked: Asked, feed: Key) -> Response:
    """Stop following a feed."""
    feeds.remove(feed, asked.app, asked.account)
    return asked.redirect("/feeds")


@router.post("/feeds/import")
def take(asked: Asked, file: Annotated[bytes, File(max_length=LARGEST)]) -> Response:
    """Import a list of feeds and show the outcome of each."""
    try:
        report = feeds.take_in(asked.app, asked.account, file, [])
    except (XsclError, FeedError, Problem) as error:
        return _page(asked, FeedList(), error=asked.problem(error))
    return _page(asked, FeedList(), report=report)


@router.get("/feeds/export.opml")
def export(asked: Asked) -> Response:
    """Export the list of feeds as OPML, without those with secret URLs."""
    answer = feeds.export(asked.app, asked.account)
    answer.headers["Content-Disposition"] = 'attachment; filename="feeds.opml"'
    return answer


@router.get("/feeds/{key}")
def one(
    asked: Asked,
    key: Annotated[str, Path(max_length=500)],
    asked_now: Annotated[bool, Query(alias="asked")] = False,
) -> Response:
    """Show a feed: its state and polls, its newest items, and a form to change it."""
    return _one(asked, key, is_asked=asked_now)


def _one(
    asked: PageRequest,
    key: str,
    *,
    error: PageProblem | None = None,
    given: Mapping[str, str] | None = None,
    is_asked: bool = False,
) -> Response:
    feed = feeds.get(key, asked.app, asked.account)
    interval = duration(feed.every * SECOND)
    title = "" if feed.title == feed.published_title else feed.title  # the reader's own
    polls = feeds.polls(key, asked.app, asked.account)
    return asked.page(
        "feed.html",
        feed=feed,
        rows=newest_items(asked, feed.stream),
        spark=_sparks(asked, [feed.stream]).get(feed.stream),
        polls=polls,
        timeline=_timeline(polls),
        fields=_fields(asked, feed.stream),
        every=interval,
        given=given or {"title": title, "tags": ", ".join(feed.tags), "every": interval},
        error=error,
        is_asked=is_asked,
    )


def _timeline(polls: Sequence[Poll]) -> Picture | None:
    """Return the picture of the last polls, given newest first; None without any."""
    if not polls:
        return None
    failed = sum(poll.failed for poll in polls)
    words = f"{counted(len(polls), 'poll')}, {failed:,} failed, the last one on the right"
    return draw_timeline([_event(poll) for poll in reversed(polls)], words)


def _event(poll: Poll) -> TimelineEvent:
    words = [when(ticks_of(poll.polled)), poll.outcome, f"{poll.seconds:.1f} s"]
    words += [counted(poll.items, "item")] if poll.items else []
    words += [poll.note] if poll.note else []
    outcome: BarOutcome = "bad" if poll.failed else "bar" if poll.items else "none"
    return TimelineEvent(poll.seconds, outcome, ", ".join(words), poll.polled.isoformat())


def _fields(asked: PageRequest, stream: str) -> dict[str, Any]:
    """Return the number of items examined, `newest`, and `counts` of those with each field."""
    known = asked.app.accounts.resolver.stream(asked.account, stream)
    if known is None:
        return {"newest": 0, "counts": {}}
    found = asked.with_store(vocabulary, known)
    counts = {
        path.path[-1]: path.documents for path in found.paths if len(path.path) == _ITEM_LEVELS
    }
    return {"newest": found.documents, "counts": counts}


def _sparks(asked: PageRequest, streams: Sequence[str]) -> dict[str, Picture | None]:
    """Return the sparklines of the documents of some streams, by the reader's names."""
    now, account = asked.app.clock.now(), asked.account
    known = {account.qualify(stream): stream for stream in streams}
    found = asked.with_store(documents_by_day, list(known), now=now, days=DAYS)
    return {known[name]: spark(days, "item") for name, days in found.items()}


def _page(asked: PageRequest, wanted: FeedList, **more: Any) -> Response:
    app, account = asked.app, asked.account
    found = feeds.list_(app, account, LIMIT, wanted.after or None, **wanted.parameters)
    tags = asked.with_store(tags_of_feeds, account.qualify(""))
    shown = {"error": None, "report": (), "given": FeedForm()} | more
    return asked.page(
        "feeds.html",
        feeds=found.items,
        sparks=_sparks(asked, [feed.stream for feed in found.items]),
        tags=list(map(account.named, tags)),
        wanted=wanted,
        new=feeds.get(wanted.added, app, account) if wanted.added else None,
        refreshed=_refreshed(asked, wanted.since) if wanted.polled else None,
        orders=ORDERS,
        next=wanted.address("/feeds", after=found.next) if found.next else None,
        failing=sum(1 for feed in found.items if feed.error is not None),
        **shown,
    )
