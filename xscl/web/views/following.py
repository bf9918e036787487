"""Feeds: status, adding and removing, import and export of lists."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from feeds.errors import FeedError
from xscl.errors import XsclError
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, Who
from xscl.service.installation import Installation
from xscl.service.problems import Problem
from xscl.service.routes import feeds
from xscl.web.problems import PageRoute, problem_text
from xscl.web.rendering import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LIMIT = 100
LARGEST = 5_000_000
"""Maximum size in bytes of a list of feeds."""


@router.get("/feeds")
def listed(
    request: Request, here: Here, who: Who, after: Annotated[str, Query(max_length=500)] = ""
) -> HTMLResponse:
    """Show the feeds."""
    return _page(request, here, who, after=after)


@router.post("/feeds/add")
def add(
    request: Request,
    here: Here,
    who: Who,
    url: Annotated[str, Form(max_length=2_000)],
    stream: Annotated[str, Form(max_length=200)] = "",
    tags: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Follow a feed and return to the list."""
    named = [tag for tag in re.split(r"[,\s]+", tags) if tag]
    try:
        new = feeds.New(url=url.strip(), stream=stream or None, tags=named, every=None)
        feeds.add(new, here, who)
    except (XsclError, FeedError, Problem) as error:
        return _page(request, here, who, error=problem_text(error, who), url=url)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/poll")
def poll(here: Here, who: Who, feed: Annotated[str, Form(max_length=500)]) -> RedirectResponse:
    """Schedule a poll of a feed."""
    feeds.poll(feed, here, who)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/remove")
def remove(here: Here, who: Who, feed: Annotated[str, Form(max_length=500)]) -> RedirectResponse:
    """Stop following a feed."""
    feeds.remove(feed, here, who)
    return RedirectResponse("/feeds", HTTPStatus.SEE_OTHER)


@router.post("/feeds/import")
def take(
    request: Request,
    here: Here,
    who: Who,
    file: Annotated[bytes, File(max_length=LARGEST)],
) -> HTMLResponse:
    """Import a list of feeds and show the outcome of each."""
    try:
        report = feeds.take_in(here, who, file, [])
    except (XsclError, FeedError, Problem) as error:
        return _page(request, here, who, error=problem_text(error, who))
    return _page(request, here, who, report=report)


@router.get("/feeds/export.opml")
def export(here: Here, who: Who) -> Response:
    """Export the list of feeds without those with secret URLs."""
    answer = feeds.export(here, who)
    answer.headers["Content-Disposition"] = 'attachment; filename="feeds.opml"'
    return answer


def _page(
    request: Request, here: Installation, who: Account, after: str = "", **more: Any
) -> HTMLResponse:
    found = feeds.list_(here, who, LIMIT, after or None)
    shown = {"error": None, "report": (), "url": ""} | more
    wrong = shown["error"] is not None
    return page(
        request,
        "feeds.html",
        who,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
        feeds=found.items,
        next=found.next,
        failing=sum(1 for feed in found.items if feed.error is not None),
        **shown,
    )
