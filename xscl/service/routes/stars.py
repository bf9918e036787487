"""Starred matches: `/v1/stars` and `/v1/stars/{match}`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from xscl.service.bodies import JsonBody, RequestBody
from xscl.service.dependencies import TheAccount, TheApp
from xscl.service.match_views import match_view
from xscl.service.paging import Limit, Page
from xscl.service.problems import not_found
from xscl.service.stars import add_star, delete_star, mark_of, star_row, stars

router = APIRouter(tags=["matches"])

MatchId = Annotated[str, Path(min_length=1, max_length=100, description="The id of the match.")]


class StarPlace(RequestBody):
    """The place of a match that is starred."""

    position: int = Field(ge=0, lt=1 << 62, examples=[17])
    """The `position` of the match."""


class StarredDocument(JsonBody):
    """A document of a starred match, as it was."""

    document: str = Field(examples=["orders/17"])
    """Its name."""
    stream: str = Field(examples=["orders"])
    """The stream that it was sent to."""
    id: str = Field(examples=["17"])
    """The id that it was sent with."""
    version: int = Field(examples=[1])
    """Its version: 1 for the first document with its id on its stream."""
    root: str = Field(examples=["order"])
    """The name of its root element."""
    title: str = Field(examples=["Ferry stops"])
    """Its title, or the value that stands for it."""
    url: str | None = Field(examples=["https://example.org/ferry"])
    """Its web address."""
    timestamp: str = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""
    values: dict[str, list[str]] = Field(examples=[{"category": ["sea"]}])
    """Its values that the match shows, by name."""


class StarShown(JsonBody):
    """A starred match, as it was when it was starred."""

    match: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """The id of the match."""
    subscription: str = Field(examples=["echo"])
    """The current name of its subscription."""
    starred: str = Field(examples=["2026-03-02T12:00:00Z"])
    """Time at which it was starred."""
    timestamp: str = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match was complete."""
    position: int = Field(examples=[17])
    """Position in the order of all results."""
    documents: list[StarredDocument]
    """Its documents; none of a row of events."""
    values: dict[str, str] = Field(examples=[{"price": "12"}])
    """The values of a row of events."""
    xml: str = Field(examples=["<result>...</result>"])
    """The output document that its query constructs, shortened, or nothing."""


@router.get("/stars", summary="List starred matches")
def list_(
    app: TheApp,
    account: TheAccount,
    limit: Limit = 100,
    after: Annotated[
        str | None,
        Query(pattern=r"^\d{1,18}\.\w{1,100}$", description="The `next` of the page before."),
    ] = None,
) -> Page[StarShown]:
    """Lists your starred matches as they were, the last starred first."""
    with app.reading() as store:
        found = stars(store, account, limit + 1, None if after is None else mark_of(after))
    more = found[limit - 1].cursor if len(found) > limit else None
    return Page(items=[StarShown(**star_row(one)) for one in found[:limit]], next=more)


@router.put("/stars/{match}", summary="Star a match", status_code=HTTPStatus.NO_CONTENT)
def put(match: MatchId, place: StarPlace, app: TheApp, account: TheAccount) -> None:
    """Keeps what a match shows, beyond the time for which matches are kept."""
    view = match_view(app, account, match, place.position)
    if view.gone:
        raise not_found("match", match)
    with app.reading() as store:
        add_star(store, account, account.qualify(view.subscription), view)


@router.delete("/stars/{match}", summary="Remove a star", status_code=HTTPStatus.NO_CONTENT)
def delete(match: MatchId, app: TheApp, account: TheAccount) -> None:
    """Removes the star of a match, if it has one."""
    with app.reading() as store, store.transaction():
        delete_star(store, account, match)
