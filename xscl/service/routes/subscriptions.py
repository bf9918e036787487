"""Subscriptions: `/v1/subscriptions` and `/v1/subscriptions/{name}`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from xscl.documents.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody, RequestBody, raw_request
from xscl.service.dependencies import Here, Who
from xscl.service.installation import Installation
from xscl.service.names import own_condition
from xscl.service.paging import After, Limit, Page
from xscl.service.problems import Problem, empty_list, not_found
from xscl.service.subscribing import (
    SubscriptionRequest,
    registered,
    subscribe_all,
    unsubscribe,
)
from xscl.subscriptions.import_rows import read_import_rows

router = APIRouter(tags=["subscriptions"])

LONGEST_NAME = 500
MOST = 200_000
"""Maximum number of rows of a list."""
Name = Annotated[
    str, Path(min_length=1, max_length=LONGEST_NAME, description="The name of the subscription.")
]
QUERY = "feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]"


class New(RequestBody):
    """A subscription to register."""

    query: str = Field(max_length=1_000_000, examples=[QUERY])
    """The query."""
    updates: bool = False
    """Also match new versions of documents."""
    language: Literal["xscl", "cel", "sase", "eql"] = "xscl"
    """The language of the query; others than xscl are for the operator."""
    since: str | None = Field(None, max_length=100, examples=["7 d"])
    """Duration of kept history to match, counted back from the latest document; default: none."""


class StoppedAt(JsonBody):
    """Documents with more results of one join of the subscription than the bound of results."""

    documents: int = Field(examples=[1])
    """Number of such documents."""
    results: int = Field(examples=[10_000])
    """Number of results kept of each: those with the newest partners."""
    incomplete: bool = Field(examples=[False])
    """True if a temporal operator lacks the rows of these documents."""


class Shown(JsonBody):
    """A subscription, in its owner's notation."""

    name: str = Field(examples=["echo"])
    """Its name."""
    query: str = Field(examples=[QUERY])
    """The query."""
    language: str = Field(examples=["xscl"])
    """The language of the query."""
    reads: list[str] = Field(examples=[["feeds"]])
    """The streams that it reads."""
    own: list[str] = Field(examples=[["orders"]])
    """Names in `reads` that refer to your own streams, not to public ones."""
    publishes: str | None = Field(examples=["hits"])
    """Stream that it publishes its matches to."""
    template: int | None = Field(examples=[1])
    """The template of its joins, for the operator."""
    updates: bool = Field(examples=[False])
    """True if new versions of documents are matched, too."""
    stopped: StoppedAt | None = None
    """Truncation by the bound of results; null if there was none."""


class Removed(JsonBody):
    """The removed subscriptions."""

    removed: list[str] = Field(examples=[["echo"]])
    """Names of subscriptions."""


class Imported(JsonBody):
    """The result of an import."""

    new: int = Field(examples=[2])
    """Number of new subscriptions."""
    unchanged: int = Field(examples=[1])
    """Number of subscriptions that existed unchanged."""


@router.get("/subscriptions", summary="List subscriptions")
def list_(
    here: Here,
    who: Who,
    limit: Limit = 100,
    after: After = None,
    prefix: Annotated[
        str | None, Query(max_length=500, description="Only names that begin so.")
    ] = None,
) -> Page[Shown]:
    """Lists your subscriptions in the order of their names."""
    beyond = "" if after is None else who.qualify(after)
    with here.reading() as store:
        rows = store.fetch(
            f"SELECT name FROM state.subscription WHERE {own_condition('name', who.number)}"
            f" AND name > ? AND starts_with(name, ?) ORDER BY name LIMIT {limit + 1}",
            [beyond, who.qualify(prefix or "")],
        )
    found = [here.engine.subscription(name) for (name,) in rows[:limit]]
    items = [shown(here, who, one) for one in found if one is not None]
    more = who.own(rows[limit - 1][0]) if len(rows) > limit else None
    return Page(items=items, next=more)


@router.post(
    "/subscriptions:import",
    summary="Subscribe to many queries, all or none",
    openapi_extra=raw_request(
        {
            "application/x-ndjson": json.dumps({"name": "echo", "query": QUERY}),
            "text/csv": f'name,query\necho,"{QUERY}"\n',
        }
    ),
)
async def import_(request: Request, here: Here, who: Who) -> Imported:
    """Takes CSV with a heading (`name,query`) or JSON lines (`{"name": ..., "query": ...}`).

    A row that is wrong is named with its number, and nothing is registered.  Rows that are there
    already, with the same query, change nothing.
    """
    with here.imports.hold(who.number):
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return await run_in_threadpool(_import, here, who, await request.body(), kind)


def _import(here: Installation, who: Account, body: bytes, kind: str) -> Imported:
    rows = list(read_rows(body, kind))
    if not rows:
        raise empty_list(
            'a row is {"name": "...", "query": "..."}; curl sends a file with --data-binary @FILE'
        )
    new, unchanged = subscribe_all(here, who, rows)
    return Imported(new=new, unchanged=unchanged)


def read_rows(body: bytes, kind: str) -> Iterator[SubscriptionRequest]:
    """Yield the rows of a list of a media type; raises Problem, RowError."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Problem(
            "encoding", f"the list is not UTF-8 text: byte {error.start + 1} is wrong"
        ) from None
    for number, row in enumerate(read_import_rows(text, is_csv=kind == "text/csv"), 1):
        if number > MOST:
            raise Problem(
                "too_many_rows", f"the list has more than {MOST:,} rows", hint="send it in parts"
            )
        yield SubscriptionRequest(*row)


@router.put(
    "/subscriptions/{name}",
    summary="Subscribe to a query",
    status_code=HTTPStatus.CREATED,
    responses={200: {"model": Shown, "description": "It was there already."}},
)
async def put(name: Name, new: New, here: Here, who: Who, response: Response) -> Shown:
    """Registers a query under a name; the same query again changes nothing.

    It sees the documents that arrive from now on, or from `since` on.
    """
    wanted = SubscriptionRequest(name, new.query, new.updates, new.language, new.since)
    quick = new.language == XSCL and here.resolver.is_quick(who, new.query)
    found, is_new = await registered(here, who, wanted, quick=quick)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return shown(here, who, found)


@router.get("/subscriptions/{name}", summary="Show a subscription")
async def get(name: Name, here: Here, who: Who) -> Shown:
    """Shows the query as it was written, what it reads and what it publishes."""
    return shown(here, who, existing(here, who, name))


@router.delete(
    "/subscriptions/{name}",
    summary="Remove a subscription",
    status_code=HTTPStatus.NO_CONTENT,
    response_model=None,  # 204 has none
    responses={200: {"model": Removed, "description": "With `cascade`: what was removed."}},
)
def delete(
    name: Name,
    here: Here,
    who: Who,
    cascade: Annotated[
        bool, Query(description="Those that read what only it publishes, too.")
    ] = False,
) -> Response:
    """Removes a subscription with its matches and deliveries."""
    removed = unsubscribe(here, who, name, cascade=cascade)
    if not cascade:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return JSONResponse({"removed": [who.named(one) for one in removed]})


def existing(here: Installation, who: Account, name: str) -> Subscription:
    """Return a user's subscription; raises Problem 404 if he has none of that name."""
    found = here.engine.subscription(who.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def written(here: Installation, who: Account, found: Subscription) -> str:
    """Return the query of a subscription as its owner wrote it."""
    xscl = found.language == XSCL
    return here.resolver.written(who, found.query) if xscl else found.query


def shown(here: Installation, who: Account, found: Subscription) -> Shown:
    """Return a subscription as its owner sees it."""
    stopped = here.engine.stopped(found.name)
    own = [] if who.is_operator else [s for s in found.reads if who.own(s) is not None]
    return Shown(
        name=who.named(found.name),
        query=written(here, who, found),
        language=found.language,
        reads=[who.visible(stream) or stream for stream in found.reads],
        own=[who.named(stream) for stream in own],
        publishes=None if found.publish is None else who.own(found.publish),
        template=found.template if who.is_operator else None,
        updates=found.updates,
        stopped=None if stopped is None else StoppedAt.model_validate(stopped),
    )
