"""Matches, newest first; live updates; a guide for an empty installation."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse

from xscl.delivery.cards import MatchView, shown
from xscl.service.accounts import Account
from xscl.service.installation import Installation
from xscl.service.names import own_condition
from xscl.service.problems import not_found
from xscl.service.routes.subscriptions import existing
from xscl.subscriptions.match import Match
from xscl.subscriptions.match_pages import Page, Place
from xscl.web.gallery import cases
from xscl.web.page_request import Asked, PageRequest
from xscl.web.problems import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)

LIMIT = 20
LAST = 1 << 31
"""An upper bound of subscription numbers."""

Written = Annotated[str, Query(pattern=r"^\d{1,18}\.\d{1,10}$")]
Name = Annotated[str, Query(max_length=500)]


@router.get("/")
def matches(asked: Asked, before: Written | None = None, subscription: Name = "") -> HTMLResponse:
    """Show the matches, or a guide if there are no subscriptions."""
    if before is None and not subscription and not _has_any(asked):
        return _guide(asked)
    end = _end(asked.here)  # read first: later matches arrive as updates
    found = _page(asked, subscription, before=None if before is None else _place(before))
    listed = cards(asked.who, found.matches)
    older = None
    if found.more:
        last = listed[-1].place if len(listed) == LIMIT else (found.end, 0)
        query = {"before": _written(last), "subscription": subscription}
        older = "/?" + urlencode({name: value for name, value in query.items() if value})
    return asked.page(
        "matches.html",
        matches=listed,
        subscription=subscription,
        first=before is None,
        newest=_written(listed[0].place if listed else end),
        older=older,
    )


@router.get("/matches/news")
def news(asked: Asked, after: Written, subscription: Name = "") -> HTMLResponse:
    """Return the matches after a cursor, newest first, and the next cursor in headers."""
    found = _page(asked, subscription, after=_place(after))
    listed = cards(asked.who, found.matches)
    reached = listed[-1].place if len(listed) == LIMIT else (found.end, LAST)
    headers = {"X-After": _written(reached), "X-More": "yes" if found.more else "no"}
    return asked.page("news.html", headers=headers, matches=listed[::-1])


@router.get("/matches/{id}")
def match(asked: Asked, id: Annotated[str, Path(max_length=100)], at: Written) -> HTMLResponse:
    """Show one match, as the permanent link of a feed's entry asks for it; 404 if it is gone."""
    position, number = _place(at)
    found = _page(asked, "", before=(position, number + 1), limit=1).matches
    if not found or found[0].id != id:
        raise not_found("match", id)
    return asked.page("match.html", match=cards(asked.who, found)[0])


def cards(who: Account, found: tuple[Match, ...]) -> list[MatchView]:
    """Return the view models of matches with the user's names."""
    return [
        shown(
            match,
            who.named(match.subscription),
            lambda document: who.named(document),
        )
        for match in found
    ]


def _page(
    asked: PageRequest,
    subscription: str,
    *,
    before: Place | None = None,
    after: Place | None = None,
    limit: int = LIMIT,
) -> Page:
    """Return a page of matches of a user or a subscription: after a cursor, or the newest."""
    newest = after is None
    here, who = asked.here, asked.who
    if subscription:
        found = existing(here, who, subscription)
        return here.engine.matches_of(
            found.name,
            after=0 if after is None else after[0],
            before=None if before is None else before[0],
            limit=limit,
            newest_first=newest,
        )
    return here.engine.host.log.pages().of_all(
        lambda one: who.own(one.name) is not None,
        after=after or (0, 0),
        before=before,
        limit=limit,
        newest_first=newest,
    )


def _place(written: str) -> Place:
    position, _, number = written.partition(".")
    return int(position), int(number)


def _written(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


def _end(here: Installation) -> Place:
    """Return the cursor after all matches."""
    with here.reading() as store:
        return store.progress("position"), LAST


def _has_any(asked: PageRequest) -> bool:
    """Return True if the reader has a subscription."""
    own = own_condition("name", asked.who.number)
    with asked.here.reading() as store:
        return bool(store.fetch(f"SELECT 1 FROM state.subscription WHERE {own} LIMIT 1"))


def _guide(asked: PageRequest) -> HTMLResponse:
    here, who = asked.here, asked.who
    with here.reading() as store:
        documents = store.progress("next_doc") - 1 if who.is_operator else 0
    with here.feeds_lock:
        feeds = len(here.feeds.owned(who.qualify(""), "", 1_000))
    return asked.page("guide.html", documents=documents, feeds=feeds, cases=cases())
