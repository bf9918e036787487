"""Starred matches: the list, and the form that stars a match or removes its star."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse

from xscl.service.routes.stars import StarPlace, delete, put
from xscl.service.stars import mark_of, stars
from xscl.web.links import on_site
from xscl.web.page_request import Asked, PageRequest, router
from xscl.web.views.matches import LIMIT, MatchId, Written


@router.get("/starred")
def starred(
    asked: Asked, before: Annotated[str, Query(pattern=r"^(\d{1,18}\.\w{1,100})?$")] = ""
) -> HTMLResponse:
    """Show the starred matches, the last starred first, as they were."""
    with asked.app.store() as store:
        found = stars(store, asked.account, LIMIT + 1, mark_of(before) if before else None)
    names = {one.view.subscription for one in found}
    older = None
    if len(found) > LIMIT:
        older = f"/starred?before={found[LIMIT - 1].cursor}"
    return asked.page(
        "starred.html",
        stars=found[:LIMIT],
        there={name for name in names if _is_there(asked, name)},
        older=older,
    )


@router.post("/matches/star")
def star(
    asked: Asked,
    match: Annotated[MatchId, Form()],
    at: Annotated[Written, Form()],
    back: Annotated[str, Form(max_length=4_000)] = "/starred",
    remove: Annotated[bool, Form()] = False,
) -> RedirectResponse:
    """Star a match, or remove its star, and return to the page."""
    if remove:
        delete(match, asked.app, asked.account)
    else:
        put(match, StarPlace(position=int(at.partition(".")[0])), asked.app, asked.account)
    return RedirectResponse(on_site(back), HTTPStatus.SEE_OTHER)


def _is_there(asked: PageRequest, name: str) -> bool:
    """Return True if the reader has a subscription of a name."""
    return asked.app.engine.subscription(asked.account.qualify(name)) is not None
