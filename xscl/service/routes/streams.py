"""Streams: `/v1/streams`, the public ones and those that a user owns."""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import Path, Response
from pydantic import Field

from xscl.client import service_answers as answers
from xscl.documents.document_validation import check_stream
from xscl.documents.retention import ticks_of
from xscl.errors import XsclError
from xscl.inspection.vocabulary import vocabulary
from xscl.planning.event_queries import attributes_of
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import After, Limit, ListPage, RequestBody
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.problems import not_found, refuse_bare
from xscl.store.queries.documents import documents_by_stream
from xscl.store.queries.subscriptions import names_of

router = api_router(tag="streams")

Name = Annotated[str, Path(min_length=1, max_length=200, description="The name of the stream.")]


class Declared(RequestBody):
    """The declaration of a stream."""

    lateness: str | None = Field(None, max_length=100, examples=["1 h"])
    """Lateness: maximum delay of a document behind the latest one, as a duration; default:
    unchanged, `0 s` for a new stream."""
    live: bool = Field(True, examples=[True])
    """True for documents in real time: the wall clock, too, advances the stream's time, so absences
    are reported without further documents. False: only documents advance it, so old records can be
    replayed."""
    attributes: dict[str, Literal["str", "int", "float", "bool", "decimal"]] | None = Field(
        None, examples=[{"title": "str", "price": "float"}]
    )
    """Leaves of the documents that CEL, SASE and EQL queries read, with their types; default:
    unchanged."""


@router.get("/streams", summary="List streams")
def list_(
    app: TheApp, account: TheAccount, limit: Limit = 100, after: After = None
) -> ListPage[answers.ListedStream]:
    """Lists the public streams and your own, sorted by name.

    Your own stream hides a public one of the same name.
    """
    mine = app.accounts.users.streams(account)
    names = sorted({*mine, *app.accounts.streams.names()} - {""})
    following = [name for name in names if after is None or name > after]
    with app.store() as store:
        counts = documents_by_stream(store)
    shown = [_shown(app, account, name) for name in following[:limit]]
    items = [
        answers.ListedStream(
            **one.model_dump(),
            documents=counts.get(app.accounts.resolver.stream(account, one.name) or one.name, 0),
        )
        for one in shown
    ]
    more = items[-1].name if len(following) > limit else None
    return ListPage(items=items, next=more)


@router.get("/streams/{name}", summary="Show a stream")
def get(name: Name, app: TheApp, account: TheAccount) -> answers.Stream:
    """Shows a stream: its owner (you or public), lateness in seconds and declared attributes."""
    if app.accounts.resolver.stream(account, name) is None:
        raise not_found("stream", name)
    return _shown(app, account, name)


@router.get("/streams/{name}/elements", summary="List the elements of a stream")
def elements(name: Name, app: TheApp, account: TheAccount) -> answers.Elements:
    """Lists names of elements and attributes with counts and sample values, for an editor.

    They are from the newest documents whose texts are kept, at most 300.
    """
    known = app.accounts.resolver.stream(account, name)
    if known is None:
        raise not_found("stream", name)
    with app.accounts.limits.questions.hold(account.number), app.store() as store:
        found = vocabulary(store, known)
    seen = map(answers.SeenElement.model_validate, found.paths)
    return answers.Elements(stream=name, documents=found.documents, elements=tuple(seen))


@router.put(
    "/streams/{name}",
    summary="Create a stream, or change its lateness",
    responses={201: {"model": answers.MadeStream, "description": "It is new."}},
)
def put(
    name: Name, declared: Declared, app: TheApp, account: TheAccount, response: Response
) -> answers.MadeStream:
    """Creates or changes a stream of your own.

    New queries read your own stream; registered ones still read the public stream of that name.
    Lateness and attributes cannot change once a subscription reads the stream.
    """
    known = account.qualify(name)
    check_stream(name)
    text = declared.lateness
    lateness = app.engine.lateness(known) if text is None else _lateness(text)
    is_known = app.engine.state.streams.is_known(known)
    is_new = not app.accounts.users.has_stream(account, name) and not is_known
    if is_new:
        app.accounts.users.claim(account, name)
    attributes = None if declared.attributes is None else attributes_of(declared.attributes)
    app.engine.stream(known, lateness=lateness, live=declared.live, attributes=attributes)
    if is_new:
        response.status_code = HTTPStatus.CREATED
    made = _shown(app, account, name)
    return answers.MadeStream(**made.model_dump(), still_public=_still_public(app, account, name))


def make_live(app: App, account: Account, names: Collection[str]) -> None:
    """Declare streams live, by a user's own names: the wall clock advances their time, too."""
    for name in names:
        known = account.qualify(name)
        app.engine.stream(known, lateness=app.engine.lateness(known), live=True)


def _still_public(app: App, account: Account, name: str) -> tuple[str, ...]:
    """Return names of at most 100 of a user's subscriptions that read the public stream `name`."""
    if account.is_operator:
        return ()
    with app.store() as store:
        return tuple(map(account.named, names_of(store, account.number, reads=name, limit=100)))


def _lateness(text: str) -> int:
    if text.strip() == "0":
        return 0
    refuse_bare(text, "lateness", "s", "min")
    ticks = ticks_of(text)
    if ticks is None:
        raise XsclError("a stream cannot be late for ever", hint="a duration such as 1 h")
    return ticks


def _shown(app: App, account: Account, name: str) -> answers.Stream:
    known = app.accounts.resolver.stream(account, name) or name
    return answers.Stream(
        name=name,
        own=account.owns(known),
        lateness=app.engine.lateness(known) / 1e6,
        live=app.engine.is_live(known),
        attributes=app.engine.attributes(known),
    )
