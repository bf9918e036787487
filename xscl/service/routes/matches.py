"""Matches of a subscription, page by page: `GET /v1/subscriptions/{name}/matches`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from xscl.client import answers
from xscl.delivery.message import row_of_story
from xscl.engine.match_log import MatchPlace, Page
from xscl.service.accounts import Account
from xscl.service.bodies import Limit, ListPage, Number
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.match_views import shown_within
from xscl.service.routes.subscriptions import Name
from xscl.service.subscribing import versions

router = api_router(tag="matches")

POSITION = (1 << 63) - 2
After = Annotated[
    int | None,
    Query(ge=0, le=POSITION, description="Only what comes after this position, oldest first."),
]
Before = Annotated[
    int | None,
    Query(ge=0, le=POSITION, description="Only what comes before this position, newest first."),
]


@router.get("/subscriptions/{name}/matches", summary="List the matches of a subscription")
def of_one(
    name: Name,
    app: TheApp,
    account: TheAccount,
    after: After = None,
    before: Before = None,
    limit: Limit = 100,
    version: Annotated[
        int | None, Query(ge=1, le=1 << 31, description="Only those of a version of the query.")
    ] = None,
) -> answers.MatchPage:
    """Lists the matches newest first; with `after`, the later ones oldest first.

    The list includes matches of earlier versions; it remains after a removal without `purge`.
    """
    newest_first = after is None
    page = app.engine.log.page(
        versions(app, account, name)[-1].name,
        after=after or 0,
        before=before,
        limit=limit,
        newest_first=newest_first,
        version=version,
    )
    way = "before" if newest_first else "after"
    only = "" if version is None else f"&version={version}"
    shown, end = _shown(account, page)
    following = None if end is None else f"{way}={end[0]}&limit={limit}{only}"
    return answers.MatchPage(matches=shown, next=following)


@router.get("/subscriptions/{name}/stories", summary="List the stories of a subscription")
def stories(
    name: Name,
    app: TheApp,
    account: TheAccount,
    after: Number = None,
    limit: Limit = 100,
    merged: Annotated[bool, Query(description="Those that other stories took over, too.")] = False,
) -> ListPage[answers.ListedStory]:
    """Lists the stories, the one that grew last first; none of a subscription without stories.

    A story is a set of matches that share documents. A later match may unite several stories: the
    one that began first keeps its id, and the others become a part of it.
    """
    found = app.engine.stories(
        versions(app, account, name)[-1].name,
        before=after,
        limit=limit,
        merged=merged,
    )
    items = [answers.ListedStory.model_validate(row_of_story(one, account.named)) for one in found]
    following = found[-1].last if len(found) == limit else None
    return ListPage(items=items, next=following)


@router.get("/matches", summary="List your matches")
def of_all(
    app: TheApp,
    account: TheAccount,
    before: Annotated[
        str | None, Query(pattern=r"^\d{1,18}(-\d{1,9})?$", description="As `next` of a page says.")
    ] = None,
    limit: Limit = 100,
) -> answers.MatchPage:
    """Lists the matches of all your subscriptions, the newest first."""

    position, _, number = (before or "").partition("-")
    place = (int(position), int(number or 0)) if before else None
    page = app.engine.log.page_of_all(
        account.has, before=place, limit=limit, newest_first=True, prefix=account.qualify("")
    )
    shown, end = _shown(account, page)
    following = None if end is None else f"before={end[0]}-{end[1]}&limit={limit}"
    return answers.MatchPage(matches=shown, next=following)


def _shown(account: Account, page: Page) -> tuple[tuple[answers.Match, ...], MatchPlace | None]:
    """Return the first matches of a page as answers, and the place of the last; None at the end.

    There are as many as fit (`shown_within`); the next page begins at the place.
    """
    shown = tuple(shown_within(account, page.matches))
    if len(shown) < len(page.matches):
        last = page.matches[len(shown) - 1]
        return shown, (last.position, last.number)
    return shown, page.place if page.more else None
