"""Matches, the last one found first; live updates; a guide for an empty installation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

from fastapi import Form, Path, Query, Response
from pydantic import Field, StringConstraints

from xscl.delivery.cards import MatchView
from xscl.documents.results import XSCL, Subscription
from xscl.engine.match_log import MatchPlace, Page
from xscl.service.marks import mark_of, read_among, starred_among, stars
from xscl.service.match_views import LAST, match_view, match_views
from xscl.service.routes.stars import StarPlace, delete, put
from xscl.service.routes.subscriptions import tags_
from xscl.service.subscribing import versions
from xscl.service.tags import LONGEST
from xscl.store.queries.subscriptions import names_of, streams_read
from xscl.time_format import moment
from xscl.web.gallery import cases
from xscl.web.pages import Asked, Back, ListQuery, PageRequest, router

LIMIT = 20
PAGES = 50
"""Maximum number of pages of matches that are read to fill one page of filtered matches."""

Written: TypeAlias = Annotated[str, StringConstraints(pattern=r"^\d{1,18}\.\d{1,10}$")]
MatchId: TypeAlias = Annotated[str, StringConstraints(max_length=100)]
Name = Annotated[str, Query(max_length=500)]


class MatchFilter(ListQuery):
    """The filter of the list.

    `subscription`, `tag` and `stream` select subscriptions; `text` and `day` select matches.  A day
    is one of the time zone `zone`.
    """

    before: Written | None = None
    subscription: str = Field(default="", max_length=500)
    tag: str = Field(default="", max_length=LONGEST)
    stream: str = Field(default="", max_length=200)
    text: Annotated[str, StringConstraints(max_length=200, strip_whitespace=True)] = ""
    day: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$")
    zone: str = Field(default="", max_length=100)

    @property
    def is_live(self) -> bool:
        """Return True if the page can add new matches as they come: only `subscription` filters."""
        return not (self.tag or self.stream or self.text or self.day)

    def accepts(self, one: MatchView) -> bool:
        """Return True for a match that contains the text and is dated, or arrived, on the day."""
        times = [at for at in (one.t1, one.arrived) if at is not None]
        if self.day and all(_day(at, self.zone) != self.day for at in times):
            return False
        return not self.text or self.text.lower() in _text_of(one).lower()


def _day(at: int, zone: str) -> str:
    """Return the date of a time in ticks; in UTC if the zone or the year is not supported."""
    try:
        return f"{datetime.fromtimestamp(at / 1e6, ZoneInfo(zone)):%Y-%m-%d}"
    except (KeyError, ValueError, OverflowError, OSError):
        return moment(at)[:10]


@router.get("/")
def matches(asked: Asked, wanted: Annotated[MatchFilter, Query()]) -> Response:
    """Show the matches, or a guide if there are no subscriptions."""
    before, number = wanted.before, asked.account.number
    if before is None and not wanted.parameters and not asked.with_store(names_of, number, limit=1):
        return _guide(asked)
    with asked.app.store() as store:  # read first: later matches arrive as updates
        end = store.progress("position"), LAST
        streams = sorted(map(asked.account.named, streams_read(store, number)))
    listed, last = _filtered(asked, wanted, None if before is None else _place(before))
    return asked.page(
        "matches.html",
        matches=listed,
        stars=starred_of(asked, listed),
        read=read_of(asked, [one.id for one in listed]),
        wanted=wanted,
        subscriptions=names_of_subscriptions(asked),
        streams=streams,
        tags=[one.tag for one in tags_(asked.app, asked.account)],
        first=before is None,
        newest=_written(listed[0].cursor if listed else end),
        older=None if last is None else wanted.address("/", before=_written(last)),
    )


def _filtered(
    asked: PageRequest, wanted: MatchFilter, before: MatchPlace | None
) -> tuple[list[MatchView], MatchPlace | None]:
    """Return the filtered matches of a page, and the place before which the next page begins.

    The place is None after the last page.
    """
    listed: list[MatchView] = []
    for _ in range(PAGES):
        found = _page(asked, wanted, before=before)
        page = match_views(asked.app, asked.account, found.matches)
        for one in page:
            if wanted.accepts(one):
                listed.append(one)
                before = one.cursor
                if len(listed) == LIMIT:
                    return listed, before if found.more or one is not page[-1] else None
        before = found.place
        if not found.more:
            return listed, None
    return listed, before


def _text_of(one: MatchView) -> str:
    """Return all text that the view of a match shows, for the filter."""
    values = list(one.values)
    for card in one.cards:
        several = (*card.categories, *card.values)
        single = (card.title, card.origin, card.text)
        values += [*several, *(value for value in single if value is not None)]
    return " ".join([one.subscription, one.output, *(value.text for value in values)])


@router.get("/matches/news")
def news(asked: Asked, after: Written, subscription: Name = "") -> Response:
    """Return the matches after a cursor as a part of the page, newest first.

    The headers X-After and X-More have the next cursor, and if more matches follow.
    """
    found = _page(asked, MatchFilter(subscription=subscription), after=_place(after))
    listed = match_views(asked.app, asked.account, found.matches)
    headers = {"X-After": _written(found.place), "X-More": "yes" if found.more else "no"}
    stars = starred_of(asked, listed)
    read = read_of(asked, [one.id for one in listed])
    return asked.page("news.html", headers=headers, matches=listed[::-1], stars=stars, read=read)


@router.get("/matches/{id}")
def match(asked: Asked, id: Annotated[MatchId, Path()], at: Written) -> Response:
    """Show a match, or its story: the permanent link in feeds of matches; raises Problem 404."""
    found = match_view(asked.app, asked.account, id, *_place(at), stories=True)
    return asked.page("match.html", match=found, stars=starred_of(asked, [found]))


def starred_of(asked: PageRequest, listed: Sequence[MatchView]) -> set[str]:
    """Return the ids of those of `listed` that the reader has starred."""
    return asked.with_store(starred_among, asked.account, [one.id for one in listed])


def read_of(asked: PageRequest, items: Sequence[str]) -> set[str]:
    """Return those of `items` (names of documents, ids of matches) that the reader has read."""
    return asked.with_store(read_among, asked.account, items)


def names_of_subscriptions(asked: PageRequest) -> list[str]:
    """Return the reader's names of his subscriptions in XSCL, at most a thousand."""
    names = asked.with_store(names_of, asked.account.number, language=XSCL, limit=1_000)
    return list(map(asked.account.named, names))


def _page(
    asked: PageRequest,
    wanted: MatchFilter,
    *,
    before: MatchPlace | None = None,
    after: MatchPlace | None = None,
) -> Page:
    """Return matches of the selected subscriptions: those after `after` the oldest first.

    Without `after` they are the newest first, all before `before` if that is given.
    """
    app, account, log = asked.app, asked.account, asked.app.engine.log
    how: dict[str, Any] = {"limit": LIMIT, "newest_first": after is None, "heads": True}
    after = after or (0, 0)
    if wanted.subscription:
        name = versions(app, account, wanted.subscription)[-1].name
        return log.page(name, after=after[0], before=before and before[0], **how)
    stream, tag = wanted.stream, wanted.tag
    read = {stream, account.qualify(stream)} if stream else set[str]()
    tagged = set(asked.with_store(names_of, account.number, tag=tag)) if tag else None

    def is_wanted(one: Subscription) -> bool:
        if tagged is not None and one.name not in tagged:
            return False
        return account.owns(one.name) and (not read or not read.isdisjoint(one.reads))

    return log.page_of_all(is_wanted, after=after, before=before, **how)


def _place(written: str) -> MatchPlace:
    position, _, number = written.partition(".")
    return int(position), int(number)


def _written(place: MatchPlace) -> str:
    return f"{place[0]}.{min(place[1], LAST)}"


def _guide(asked: PageRequest) -> Response:
    app, account = asked.app, asked.account
    with app.store() as store:
        documents = store.progress("next_doc") - 1 if account.is_operator else 0
    with app.feeds() as followed:
        feeds = len(followed.owned(account.qualify(""), limit=1_000))
    return asked.page("guide.html", documents=documents, feeds=feeds, cases=cases())


@router.get("/starred")
def starred(
    asked: Asked, before: Annotated[str, Query(pattern=r"^(\d{1,18}\.\w{1,100})?$")] = ""
) -> Response:
    """Show the matches as they were when the reader starred them, the last starred first."""
    found = asked.with_store(stars, asked.account, LIMIT + 1, mark_of(before) if before else None)
    names = {one.view.subscription for one in found}
    known = {name for name in names if asked.app.engine.subscription(asked.account.qualify(name))}
    return asked.page(
        "starred.html",
        stars=found[:LIMIT],
        there=known,
        older=f"/starred?before={found[LIMIT - 1].cursor}" if len(found) > LIMIT else None,
    )


@router.post("/matches/star")
def star(
    asked: Asked,
    match: Annotated[MatchId, Form()],
    at: Annotated[Written, Form()],
    back: Back = "/starred",
    remove: Annotated[bool, Form()] = False,
) -> Response:
    """Star a match, or remove its star, and return to the page."""
    if remove:
        delete(match, asked.app, asked.account)
    else:
        put(match, StarPlace(position=int(at.partition(".")[0])), asked.app, asked.account)
    return asked.back(back)
