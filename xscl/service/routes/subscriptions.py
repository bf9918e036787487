"""Subscriptions: `/v1/subscriptions` and `/v1/subscriptions/{name}`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from feeds.xml.encoding import as_utf8, charset_of
from xscl.client import answers
from xscl.client.answers import QUERY
from xscl.client.bodies import JsonBody
from xscl.documents.results import XSCL, Subscription
from xscl.language.names import LONGEST_NAME
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import After, Limit, ListPage, raw_request
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.problems import Problem, empty_list, refuse_long_list
from xscl.service.subscribing import (
    NewSubscription,
    SubscriptionEdit,
    SubscriptionRequest,
    change,
    existing,
    history_of,
    subscribe,
    subscribe_all,
    unsubscribe,
    versions,
    written,
)
from xscl.service.tags import LONGEST
from xscl.store.queries.subscriptions import names_of, tag_counts, tags_of
from xscl.subscriptions.import_rows import read_import_rows

router = api_router(tag="subscriptions")

MOST = 200_000
"""Maximum number of rows of a list."""
Name = Annotated[
    str, Path(min_length=1, max_length=LONGEST_NAME, description="The name of the subscription.")
]


class Removed(JsonBody):
    """The removed subscriptions."""

    removed: list[str] = Field(examples=[["echo"]])
    """Names of subscriptions."""


class Imported(JsonBody):
    """The result of an import."""

    new: int = Field(examples=[2])
    """Number of new subscriptions."""
    unchanged: int = Field(examples=[1])
    """Number of subscriptions that existed already with the same query."""


@router.get("/subscriptions", summary="List subscriptions")
def list_(
    app: TheApp,
    account: TheAccount,
    limit: Limit = 100,
    after: After = None,
    prefix: Annotated[
        str | None, Query(max_length=500, description="Only names that begin so.")
    ] = None,
    tag: Annotated[
        str | None, Query(max_length=LONGEST, description="Only those of a tag.")
    ] = None,
) -> ListPage[answers.Subscription]:
    """Lists your subscriptions in the order of their names."""
    beyond = "" if after is None else account.qualify(after)
    with app.store() as store:
        begun = account.qualify(prefix or "")
        names = names_of(
            store, account.number, after=beyond, prefix=begun, tag=tag or "", limit=limit + 1
        )
        more = account.own(names[limit - 1]) if len(names) > limit else None
        names = names[:limit]
        tags = tags_of(store, names)
    found = map(app.engine.subscription, names)
    shares = cost_shares(app, account, names)
    items = [shown(app, account, one, tags[one.name], shares) for one in found if one is not None]
    return ListPage(items=items, next=more)


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
async def import_(
    request: Request,
    app: TheApp,
    account: TheAccount,
    history: Annotated[bool, Query(description="Begin with what is kept.")] = False,
) -> Imported:
    """Registers rows of CSV with a header (`name,query`) or JSON (`{"name": ..., "query": ...}`).

    If a row is wrong, the problem has its number, and nothing is registered.  Rows that are
    registered already, with the same query, change nothing.
    """
    with app.accounts.limits.imports.hold(account.number):
        written = request.headers.get("content-type", "")
        kind = written.partition(";")[0].strip().lower()
        body = await run_in_threadpool(as_utf8, await request.body(), charset_of(written))
        return await run_in_threadpool(_import, app, account, body, kind, history)


def _import(app: App, account: Account, body: bytes, kind: str, history: bool) -> Imported:
    rows = list(read_rows(body, kind, history=history))
    if not rows:
        raise empty_list(
            'a row is {"name": "...", "query": "..."}; curl sends a file with --data-binary @FILE'
        )
    new, unchanged = subscribe_all(app, account, rows)
    return Imported(new=new, unchanged=unchanged)


def read_rows(body: bytes, kind: str, *, history: bool = False) -> Iterator[SubscriptionRequest]:
    """Yield the rows of a list with the media type `kind`; raises Problem, RowError.

    With `history` each subscription is to begin with the matches of kept documents.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Problem(
            "encoding", f"the list is not UTF-8 text: byte {error.start + 1} is wrong"
        ) from None
    for number, row in enumerate(read_import_rows(text, is_csv=kind == "text/csv"), 1):
        refuse_long_list(number, MOST)
        yield SubscriptionRequest.model_construct(**row._asdict(), history=history)


@router.put(
    "/subscriptions/{name}",
    summary="Subscribe to a query",
    status_code=HTTPStatus.CREATED,
    responses={200: {"model": answers.Registered, "description": "It was there already."}},
)
async def put(
    name: Name, new: NewSubscription, app: TheApp, account: TheAccount, response: Response
) -> answers.Registered:
    """Registers a query under a name; the same query again changes nothing.

    Under the name of a removed subscription it has its own list of matches; the kept matches of the
    removed one are then listed as those of `NAME (removed)`.
    It begins with matches among kept documents: the newest 1,000 of the last 30 days, or all since
    `since`; without `history` it sees only documents that arrive from now on. If the kept documents
    are not read within two seconds, their matches follow: `history` is `reading` until then.
    """
    wanted = SubscriptionRequest(name=name, **new.model_dump())
    found, is_new = await subscribe(app, account, wanted)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return await run_in_threadpool(with_warnings, app, account, found)


def with_warnings(app: App, account: Account, found: Subscription) -> answers.Registered:
    """Return a subscription as its owner sees it, with the warnings of its query."""
    one = shown(app, account, found)
    xscl = found.language == XSCL
    warnings = app.accounts.warnings.of(account, one.query) if xscl else ()
    return answers.Registered(**one.model_dump(), warnings=tuple(warnings))


@router.get("/subscriptions:removed", summary="List removed subscriptions with matches")
def removed(app: TheApp, account: TheAccount) -> list[answers.Version]:
    """Lists the last versions of subscriptions that were removed, whose matches are kept."""
    return [
        _version(app, account, versions(app, account, name)[-1])
        for name in removed_names(app, account)
    ]


def removed_names(app: App, account: Account) -> list[str]:
    """Return the names of a user's removed subscriptions whose matches are kept."""
    names = map(account.own, app.engine.state.subscriptions.removed())
    return sorted(filter(None, names))


@router.get("/subscriptions:tags", summary="List the tags of subscriptions")
def tags_(app: TheApp, account: TheAccount) -> list[answers.SubscriptionTag]:
    """Lists your tags, sorted, with the number of subscriptions of each."""
    with app.store() as store:
        found = tag_counts(store, account.number)
    return [answers.SubscriptionTag(tag=tag, subscriptions=count) for tag, count in found]


@router.patch("/subscriptions/{name}", summary="Edit, pause, resume, rename or tag a subscription")
def patch(
    name: Name, wanted: SubscriptionEdit, app: TheApp, account: TheAccount
) -> answers.Registered:
    """Changes a subscription, all or nothing.

    Another query is its next version and sees the documents that arrive from now on; if only
    SELECT changes, it joins them with earlier ones. Matches of earlier versions stay, and no
    delivery is lost or repeated. While it is paused, it has none of the matches that become
    certain; documents that arrive take part in later ones. NEXT, FOLD, NOT FOLLOWED BY and ELSE
    report a match when time has passed it: perhaps after the pause.
    """
    return with_warnings(app, account, change(app, account, name, wanted))


@router.get("/subscriptions/{name}/versions", summary="List the versions of a subscription")
def versions_(name: Name, app: TheApp, account: TheAccount) -> list[answers.Version]:
    """Lists the versions whose matches are kept, the oldest first; also after a removal."""
    return [_version(app, account, version) for version in versions(app, account, name)]


@router.get("/subscriptions/{name}", summary="Show a subscription")
async def get(name: Name, app: TheApp, account: TheAccount) -> answers.Subscription:
    """Shows the query as it was written, what it reads and what it publishes."""
    return shown(app, account, existing(app, account, name))


@router.delete(
    "/subscriptions/{name}",
    summary="Remove a subscription",
    status_code=HTTPStatus.NO_CONTENT,
    response_model=None,  # an answer 204 has no body
    responses={200: {"model": Removed, "description": "With `cascade`: what was removed."}},
)
def delete(
    name: Name,
    app: TheApp,
    account: TheAccount,
    cascade: Annotated[
        bool, Query(description="Those that read what only it publishes, too.")
    ] = False,
    purge: Annotated[
        bool, Query(description="Delete its matches, too, also those of a removed subscription.")
    ] = False,
) -> Response:
    """Removes a subscription with its deliveries. Its matches stay, unless they are purged."""
    gone = unsubscribe(app, account, name, cascade=cascade, purge=purge)
    if not cascade:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    return JSONResponse({"removed": [account.named(one) for one in gone]})


def _version(app: App, account: Account, one: Subscription) -> answers.Version:
    shown = {"name": account.named(one.name), "query": written(app, account, one)}
    return answers.Version.model_validate(one).model_copy(update=shown)


def cost_shares(app: App, account: Account, names: Sequence[str]) -> dict[str, float]:
    """Return shares in evaluation time by engine name: in the time of the user's subscriptions.

    For the operator the shares are in the time of all users' subscriptions.
    """
    mine = None if account.is_operator else account.owns
    return app.engine.queries.cost_shares(names, mine)


def shown(
    app: App,
    account: Account,
    found: Subscription,
    tags: Sequence[str] | None = None,
    shares: Mapping[str, float] | None = None,
) -> answers.Subscription:
    """Return a subscription as its owner sees it.

    `tags` and `shares`, the shares in evaluation time by engine name, are read if they are None.
    """
    if shares is None:
        shares = cost_shares(app, account, [found.name])
    if tags is None:
        with app.store() as store:
            tags = tags_of(store, [found.name])[found.name]
    stopped = app.engine.stopped(found.name)
    own = [] if account.is_operator else [s for s in found.reads if account.owns(s)]
    return answers.Subscription(
        name=account.named(found.name),
        query=written(app, account, found),
        language=found.language,
        reads=tuple(account.visible(stream) or stream for stream in found.reads),
        own=tuple(map(account.named, own)),
        publishes=None if found.publish is None else account.own(found.publish),
        template=found.template if account.is_operator else None,
        updates=found.updates,
        stories=found.stories,
        version=found.version,
        paused=found.is_paused,
        tags=tuple(tags),
        history=history_of(app, found),
        stopped=None if stopped is None else answers.Stopped.model_validate(stopped),
        unevaluated=tuple(
            answers.NotEvaluatedIn.model_validate(one)
            for one in app.engine.queries.unevaluated(found.name)
        ),
        refused=app.engine.refused(found.name),
        cost_share=round(shares.get(found.name, 0.0), 6),
    )
