"""Feeds: how each is doing, adding and removing, lists in and out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from feeds.errors import FeedError
from feeds.opml import read_list, write_opml
from xscl.errors import XsclError
from xscl.feed import Feed, check_name, check_url
from xscl.feedlist import Taken, outlines_of, take_list
from xscl.followed import Count
from xscl.following import allow_late, follow
from xscl.page.problems import PageRoute, told
from xscl.page.rendering import page
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, TheOperator
from xscl.service.installation import Installation

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Row:
    """A feed in the list, without what is secret of it."""

    key: str
    title: str
    url: str
    stream: str
    tags: tuple[str, ...]
    state: str
    items: int
    polled: int | None
    next_poll: int | None
    error: str | None


@router.get("/feeds")
def listed(request: Request, here: Here, who: TheOperator) -> HTMLResponse:
    """Return the page of feeds."""
    return _page(request, here, who)


@router.post("/feeds/add")
def add(
    request: Request,
    here: Here,
    who: TheOperator,
    url: Annotated[str, Form(max_length=2_000)],
    stream: Annotated[str, Form(max_length=200)] = "",
    tags: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Follow a feed, and go back to the list."""
    named = [tag for tag in re.split(r"[,\s]+", tags) if tag]
    try:
        check_url(url.strip())
        for name in (*((stream,) if stream else ()), *named):
            check_name(name)
        with here.feeds_lock:
            follow(here.engine, here.feeds, url.strip(), stream=stream or None, tags=named)
    except (XsclError, FeedError) as error:
        return _page(request, here, who, error=told(error, who), url=url)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/remove")
def remove(
    here: Here, who: TheOperator, feed: Annotated[str, Form(max_length=2_000)]
) -> RedirectResponse:
    """Stop following a feed."""
    with here.feeds_lock:
        here.feeds.remove(here.feeds[feed])
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/import")
def take(
    request: Request, here: Here, who: TheOperator, file: Annotated[bytes, File()]
) -> HTMLResponse:
    """Take a list of feeds in, and say what became of each."""
    try:
        outlines = read_list(file)
        with here.feeds_lock:
            taken: Taken = take_list(here.feeds, outlines)
            allow_late(here.engine, taken.feeds)
    except (XsclError, FeedError) as error:
        return _page(request, here, who, error=told(error, who))
    return _page(request, here, who, report=taken.lines)


@router.get("/feeds/export.opml")
def export(here: Here, who: TheOperator) -> Response:
    """Return the list of feeds, those with secret addresses left out."""
    with here.feeds_lock:
        outlines, _ = outlines_of(here.feeds)
    return Response(
        write_opml(outlines, "xscl"),
        media_type="text/x-opml",
        headers={"Content-Disposition": 'attachment; filename="feeds.opml"'},
    )


def _page(request: Request, here: Installation, who: Account, **more: Any) -> HTMLResponse:
    with here.feeds_lock:
        known, counts = list(here.feeds), here.feeds.counts()
    rows = [_row(feed, counts.get(feed.key, Count()).items) for feed in known]
    error = more.get("error")
    shown = {"error": None, "report": (), "url": ""} | more
    return page(
        request,
        "feeds.html",
        who,
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        feeds=rows,
        failing=sum(1 for row in rows if row.error is not None),
        **shown,
    )


def _row(feed: Feed, items: int) -> Row:
    return Row(
        feed.key,
        feed.title or feed.shown_url,
        feed.shown_url,
        feed.stream,
        feed.tags,
        feed.state,
        items,
        feed.polled,
        None if feed.gone else feed.next_poll,
        feed.error or feed.note,
    )
