"""Starred matches: `/v1/stars` and `/v1/stars/{match}`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from xscl.client import answers
from xscl.service.bodies import Limit, ListPage, RequestBody
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.marks import add_star, delete_star, mark_of, star_row, stars
from xscl.service.match_views import match_view
from xscl.service.problems import not_found

router = api_router(tag="matches")

MatchId = Annotated[str, Path(min_length=1, max_length=100, description="The id of the match.")]


class StarPlace(RequestBody):
    """The place of a match that is starred."""

    position: int = Field(ge=0, lt=1 << 62, examples=[17])
    """The `position` of the match."""


@router.get("/stars", summary="List starred matches")
def list_(
    app: TheApp,
    account: TheAccount,
    limit: Limit = 100,
    after: Annotated[
        str | None,
        Query(pattern=r"^\d{1,18}\.\w{1,100}$", description="The `next` of the page before."),
    ] = None,
) -> ListPage[answers.Star]:
    """Lists your matches as they were when you starred them, the last starred first."""
    with app.store() as store:
        found = stars(store, account, limit + 1, None if after is None else mark_of(after))
    more = found[limit - 1].cursor if len(found) > limit else None
    return ListPage(items=[answers.Star(**star_row(one)) for one in found[:limit]], next=more)


@router.put("/stars/{match}", summary="Star a match", status_code=HTTPStatus.NO_CONTENT)
def put(match: MatchId, place: StarPlace, app: TheApp, account: TheAccount) -> None:
    """Keeps a copy of a match with its values, also when the match itself is evicted."""
    view = match_view(app, account, match, place.position)
    if view.gone:
        raise not_found("match", match)
    with app.store() as store:
        add_star(store, account, account.qualify(view.subscription), view)


@router.delete("/stars/{match}", summary="Remove a star", status_code=HTTPStatus.NO_CONTENT)
def delete(match: MatchId, app: TheApp, account: TheAccount) -> None:
    """Removes the star of a match, if it has one."""
    with app.store() as store, store.transaction():
        delete_star(store, account, match)
