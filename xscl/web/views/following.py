"""Feeds: status, adding and removing, import and export of lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import File, Form, Path, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from feeds.errors import FeedError
from xscl.client import Poll
from xscl.drawing.bars import BarOutcome, TimelineEvent, draw_timeline
from xscl.drawing.svg import Picture
from xscl.errors import XsclError
from xscl.inspection.vocabulary import vocabulary
from xscl.plurals import counted
from xscl.service.dependencies import TheAccount, TheApp
from xscl.service.problems import Problem
from xscl.service.routes import feeds
from xscl.store.queries.browsing import documents_by_day
from xscl.time_format import SECOND, duration
from xscl.web.days import DAYS, spark
from xscl.web.page_request import Asked, PageRequest, router
from xscl.web.problems import PageProblem, problem_text
from xscl.web.rendering import when
from xscl.web.views.items import newest_items

LIMIT = 100
LARGEST = 5_000_000
"""Maximum size in bytes of a list of feeds."""

_ITEM_LEVELS = 2  # of a field of an item: item/title

Key = Annotated[str, Form(max_length=500)]


@router.get("/feeds")
def listed(asked: Asked, after: Annotated[str, Query(max_length=500)] = "") -> HTMLResponse:
    """Show the feeds."""
    return _page(asked, after=after)


@router.post("/feeds/add")
async def add(
    asked: Asked,
    url: Annotated[str, Form(max_length=2_000)],
    stream: Annotated[str, Form(max_length=200)] = "",
    tags: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Follow a feed and return to the list."""
    try:
        new = feeds.New(url=url.strip(), stream=stream or None, tags=_tags(tags), every=None)
        await feeds.add(new, asked.app, asked.account)
    except (XsclError, FeedError, Problem) as error:
        words = problem_text(error, asked.account)
        return await run_in_threadpool(lambda: _page(asked, error=words, url=url))
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/poll")
def poll(app: TheApp, account: TheAccount, feed: Key) -> RedirectResponse:
    """Schedule a poll of a feed."""
    feeds.poll(feed, app, account)
    return RedirectResponse(f"/feeds/{quote(feed)}?asked=1", HTTPStatus.SEE_OTHER)


@router.post("/feeds/edit")
def edit(
    asked: Asked,
    feed: Key,
    tags: Annotated[str, Form(max_length=500)] = "",
    every: Annotated[str, Form(max_length=50)] = "",
    revive: Annotated[bool, Form()] = False,
) -> Response:
    """Change the tags and the interval of a feed, or resume one that is gone."""
    changed = {"tags": _tags(tags), "every": every.strip() or None, "revive": revive}
    try:
        feeds.change(feed, feeds.Change.model_validate(changed), asked.app, asked.account)
    except (XsclError, FeedError, Problem) as error:
        given = {"tags": tags, "every": every}
        return _one(asked, feed, error=problem_text(error, asked.account), given=given)
    return RedirectResponse(f"/feeds/{quote(feed)}", HTTPStatus.SEE_OTHER)


@router.post("/feeds/remove")
def remove(app: TheApp, account: TheAccount, feed: Key) -> RedirectResponse:
    """Stop following a feed."""
    feeds.remove(feed, app, account)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/import")
def take(asked: Asked, file: Annotated[bytes, File(max_length=LARGEST)]) -> HTMLResponse:
    """Import a list of feeds and show the outcome of each."""
    try:
        report = feeds.take_in(asked.app, asked.account, file, [])
    except (XsclError, FeedError, Problem) as error:
        return _page(asked, error=problem_text(error, asked.account))
    return _page(asked, report=report)


@router.get("/feeds/export.opml")
def export(app: TheApp, account: TheAccount) -> Response:
    """Export the list of feeds without those with secret URLs."""
    answer = feeds.export(app, account)
    answer.headers["Content-Disposition"] = 'attachment; filename="feeds.opml"'
    return answer


@router.get("/feeds/{key}")
def one(
    asked: Asked,
    key: Annotated[str, Path(max_length=500)],
    asked_now: Annotated[bool, Query(alias="asked")] = False,
) -> HTMLResponse:
    """Show a feed: how it is doing, its items, and a form to change it."""
    return _one(asked, key, is_asked=asked_now)


def _one(
    asked: PageRequest,
    key: str,
    *,
    error: PageProblem | None = None,
    given: Mapping[str, str] | None = None,
    is_asked: bool = False,
) -> HTMLResponse:
    feed = feeds.get(key, asked.app, asked.account)
    interval = duration(feed.every * SECOND)
    polls = feeds.polls(key, asked.app, asked.account)
    return asked.page(
        "feed.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if error else HTTPStatus.OK,
        feed=feed,
        rows=newest_items(asked, feed.stream),
        spark=_sparks(asked, [feed.stream]).get(feed.stream),
        polls=polls,
        timeline=_timeline(polls),
        fields=_fields(asked, feed.stream),
        every=interval,
        given=given or {"tags": ", ".join(feed.tags), "every": interval},
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
    words = [when(poll.polled), poll.outcome, f"{poll.seconds:.1f} s"]
    words += [counted(poll.items, "item")] if poll.items else []
    words += [poll.note] if poll.note else []
    outcome: BarOutcome = "bad" if poll.failed else "bar" if poll.items else "none"
    return TimelineEvent(poll.seconds, outcome, ", ".join(words))


def _fields(asked: PageRequest, stream: str) -> dict[str, Any]:
    """Return the number of `newest` items of a stream, and the `counts` of those with a field."""
    known = asked.app.resolver.stream(asked.account, stream)
    if known is None:
        return {"newest": 0, "counts": {}}
    with asked.app.store() as store:
        found = vocabulary(store, known)
    counts = {one.path[-1]: one.documents for one in found.paths if len(one.path) == _ITEM_LEVELS}
    return {"newest": found.documents, "counts": counts}


def _sparks(asked: PageRequest, streams: Sequence[str]) -> dict[str, Picture | None]:
    """Return the sparklines of the documents of some streams, by the reader's names."""
    now, account = asked.app.clock.now(), asked.account
    known = {account.qualify(stream): stream for stream in streams}
    with asked.app.store() as store:
        found = documents_by_day(store, list(known), now=now, days=DAYS)
    return {known[name]: spark(days, "item") for name, days in found.items()}


def _tags(text: str) -> list[str]:
    return [tag for tag in re.split(r"[,\s]+", text) if tag]


def _page(asked: PageRequest, after: str = "", **more: Any) -> HTMLResponse:
    found = feeds.list_(asked.app, asked.account, LIMIT, after or None)
    shown = {"error": None, "report": (), "url": ""} | more
    return asked.page(
        "feeds.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if shown["error"] else HTTPStatus.OK,
        feeds=found.items,
        sparks=_sparks(asked, [feed.stream for feed in found.items]),
        next=found.next,
        failing=sum(1 for feed in found.items if feed.error is not None),
        **shown,
    )
