"""Feeds: status, adding and removing, import and export of lists."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from feeds.errors import FeedError
from xscl.errors import XsclError
from xscl.service.dependencies import Here, Who
from xscl.service.problems import Problem
from xscl.service.routes import feeds
from xscl.web.page_request import Asked, PageRequest
from xscl.web.problems import PageRoute, problem_text

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LIMIT = 100
LARGEST = 5_000_000
"""Maximum size in bytes of a list of feeds."""

Key = Annotated[str, Form(max_length=500)]


@router.get("/feeds")
def listed(asked: Asked, after: Annotated[str, Query(max_length=500)] = "") -> HTMLResponse:
    """Show the feeds."""
    return _page(asked, after=after)


@router.post("/feeds/add")
def add(
    asked: Asked,
    url: Annotated[str, Form(max_length=2_000)],
    stream: Annotated[str, Form(max_length=200)] = "",
    tags: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Follow a feed and return to the list."""
    named = [tag for tag in re.split(r"[,\s]+", tags) if tag]
    try:
        new = feeds.New(url=url.strip(), stream=stream or None, tags=named, every=None)
        feeds.add(new, asked.here, asked.who)
    except (XsclError, FeedError, Problem) as error:
        return _page(asked, error=problem_text(error, asked.who), url=url)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/poll")
def poll(here: Here, who: Who, feed: Key) -> RedirectResponse:
    """Schedule a poll of a feed."""
    feeds.poll(feed, here, who)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/remove")
def remove(here: Here, who: Who, feed: Key) -> RedirectResponse:
    """Stop following a feed."""
    feeds.remove(feed, here, who)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/import")
def take(asked: Asked, file: Annotated[bytes, File(max_length=LARGEST)]) -> HTMLResponse:
    """Import a list of feeds and show the outcome of each."""
    try:
        report = feeds.take_in(asked.here, asked.who, file, [])
    except (XsclError, FeedError, Problem) as error:
        return _page(asked, error=problem_text(error, asked.who))
    return _page(asked, report=report)


@router.get("/feeds/export.opml")
def export(here: Here, who: Who) -> Response:
    """Export the list of feeds without those with secret URLs."""
    answer = feeds.export(here, who)
    answer.headers["Content-Disposition"] = 'attachment; filename="feeds.opml"'
    return answer


def _page(asked: PageRequest, after: str = "", **more: Any) -> HTMLResponse:
    found = feeds.list_(asked.here, asked.who, LIMIT, after or None)
    shown = {"error": None, "report": (), "url": ""} | more
    return asked.page(
        "feeds.html",
        status=HTTPStatus.UNPROCESSABLE_ENTITY if shown["error"] else HTTPStatus.OK,
        feeds=found.items,
        next=found.next,
        failing=sum(1 for feed in found.items if feed.error is not None),
        **shown,
    )
