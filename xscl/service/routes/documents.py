"""Documents: `GET /v1/documents`, `POST /v1/documents/{stream}`, `POST /v1/documents:batch`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Header, Path, Query, Request
from pydantic import Field, StrictInt, ValidationError
from starlette.concurrency import run_in_threadpool

from feeds.documents import Document
from feeds.errors import FeedError, MalformedDocument
from feeds.xml.encoding import as_utf8, charset_of, encoded
from xscl.client import service_answers as answers
from xscl.client.bodies import JsonBody, time_of
from xscl.documents.document_ids import number_in
from xscl.documents.document_validation import expect_valid
from xscl.documents.retention import DAY
from xscl.errors import DocumentError, XsclError
from xscl.language.names import in_short
from xscl.service.accounts import Account
from xscl.service.app import App, writable_stream
from xscl.service.bodies import FROM_NEXT, Limit, ListPage, RequestBody, raw_request
from xscl.service.browsing import part_of, place_read, visible_names
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.marks import ItemOrder, read_among
from xscl.service.names import refuse_reserved
from xscl.service.problems import (
    Problem,
    empty_list,
    not_found,
    of_error,
    reason,
    refuse_long_list,
)
from xscl.store.queries.browsing import BrowsedDocument, DocumentPlace, documents_seen
from xscl.subscriptions.match import source_of
from xscl.time_format import duration, other_unit, ticks_of_time, unit_hint, written

router = api_router(tag="documents")

_BLANK = b"\xef\xbb\xbf \t\r"

AHEAD = 5 * 60 * 1_000_000
"""Ticks by which a user's document may be ahead of the clock; it then gets the service's time."""

MOST = 1_000
"""Maximum number of documents of a batch."""

Before = Annotated[
    str,
    Query(pattern=r"^(\d{1,18}(\.-?\d{1,18})?)?$", description="The `next` of the page before."),
]
Stream = Annotated[
    str,
    Path(min_length=1, max_length=200, description="The stream.", examples=["orders"]),
]


class Given(JsonBody):
    """Query parameters of a document."""

    id: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        examples=["order-17"],
        description="Id of the document on its stream; default: generated. Equal content under a"
        " known id has no effect, other content is a new version.",
    )
    time: str | None = Field(
        None,
        max_length=50,
        examples=["2026-03-01T12:00:00Z"],
        description="Its time, ISO 8601 or microseconds since 1970; what looks like seconds is"
        " refused. If it is left out, the service gives it the time at which it is accepted, in the"
        " order of acceptance.",
    )
    timestamp: str | None = Field(
        None,
        max_length=50,
        examples=["2026-03-01T12:00:00Z"],
        description="Another name of `time`, as answers call it; only one of them may be given.",
    )


class Line(RequestBody):
    """A document of a batch."""

    xml: str = Field(min_length=1, examples=["<order><item>a12</item></order>"])
    """Its text."""
    stream: str | None = Field(None, min_length=1, max_length=200, examples=["orders"])
    """Its stream; default: that of the request."""
    id: str | None = Field(None, min_length=1, max_length=500, examples=["order-17"])
    """Its id on its stream; default: generated."""
    time: str | StrictInt | None = Field(None, examples=["2026-03-01T12:00:00Z"])
    """Its time; default: that of its acceptance."""
    timestamp: str | StrictInt | None = Field(None, examples=["2026-03-01T12:00:00Z"])
    """Another name of `time`."""


@router.get("/documents", summary="List documents")
def list_(
    app: TheApp,
    account: TheAccount,
    stream: Annotated[
        str, Query(max_length=200, description="Only documents of this stream.")
    ] = "",
    text: Annotated[
        str,
        Query(max_length=200, description="Only those of the newest 50,000 that contain it."),
    ] = "",
    before: Before = "",
    limit: Limit = 100,
    order: Annotated[
        ItemOrder,
        Query(description="By arrival, or the newest 50,000 by their own dates."),
    ] = "arrival",
) -> ListPage[answers.ListedDocument]:
    """Lists the documents that you may see, in the given order with the latest first."""
    found, following = browsed(
        app, account, stream=stream, text=text, before=before, limit=limit, order=order
    )
    with app.store() as store:
        read = read_among(store, account, [account.named(one.name) for one in found])
    items = [_listed(account, one) for one in found]
    items = [item.model_copy(update={"read": item.document in read}) for item in items]
    at = following.number if following and following.ts is None else following and str(following)
    return ListPage(items=items, next=at)


def browsed(
    app: App,
    account: Account,
    *,
    stream: str,
    text: str,
    before: str,
    limit: int,
    order: ItemOrder,
) -> tuple[list[BrowsedDocument], DocumentPlace | None]:
    """Return a page of documents, and the `before` of the next page, None after the last page.

    Raises Problem.
    """
    by_date = order == "date"
    try:
        place = place_read(before, by_date=by_date)
    except ValueError:
        raise Problem(
            "invalid_request", f"before: {before} is no place in a list by dates", hint=FROM_NEXT
        ) from None
    known = app.accounts.resolver.stream(account, stream) if stream else ""
    if known is None:
        raise not_found("stream", stream)
    with app.accounts.limits.questions.hold(account.number), app.store() as store:
        found = documents_seen(
            store,
            account.number,
            stream=known,
            text=text,
            before=place,
            limit=limit + 1,
            by_date=by_date,
        )
    if len(found) <= limit:
        return found, None
    last = found[limit - 1]
    return found[:limit], DocumentPlace(last.number, last.ts if by_date else None)


def _listed(account: Account, one: BrowsedDocument) -> answers.ListedDocument:
    source = None if one.xml is None else source_of(part_of(one, one.xml))
    return answers.ListedDocument(
        document=account.named(one.name),
        id=one.id,
        version=number_in(one.name),
        streams=tuple(visible_names(account, one.streams)),
        timestamp=time_of(one.ts),
        arrived=time_of(one.arrived),
        history=one.history,
        title="" if source is None else source.title,
        feed_title="" if source is None else source.feed_title,
        url=None if source is None else source.url,
        kept=one.xml is not None,
    )


@router.post(
    "/documents/{stream}",
    summary="Send a document",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=raw_request({"application/xml": "<order><item>a12</item></order>"}),
)
async def post(
    stream: Stream,
    request: Request,
    app: TheApp,
    account: TheAccount,
    given: Annotated[Given, Query()],
    x_document_id: Annotated[
        str | None, Header(max_length=500, description="Its id, if `id` is left out.")
    ] = None,
    x_document_time: Annotated[
        str | None, Header(max_length=50, description="Its time, if `time` is left out.")
    ] = None,
) -> answers.SentDocument:
    """Accepts one XML document; the answer comes when the document is durable.

    A stream that does not exist is created: it is live (see `PUT /v1/streams/{name}`) unless its
    first document has a time of its own.  A malformed document is refused with line and column of
    the error; `429` or `503` with `Retry-After` say that there is no room for it now.
    """
    charset = charset_of(request.headers.get("content-type"))
    xml = await run_in_threadpool(as_utf8, await request.body(), charset)
    name, time = given.id or x_document_id, _one_time(given) or x_document_time
    return await run_in_threadpool(take, app, account, stream, xml, name, time)


def take(
    app: App, account: Account, stream: str, xml: bytes, name: str | None, time: str | None
) -> answers.SentDocument:
    """Validate and spool a document durably; raises DocumentError, Problem.

    `name` is its id, `time` its time as text; for None see `POST /v1/documents/{stream}`.
    """
    (taken,) = _spool(app, [_accept(app, account, stream, xml, name, time)])
    return taken


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """A valid document; `stream` is its sender's name of the stream.

    Unless `is_timed`, the intake replaces its time.
    """

    stream: str
    document: Document
    is_timed: bool


def _accept(
    app: App, account: Account, stream: str, xml: bytes, name: str | None, time: str | None
) -> _Acceptance:
    """Validate a document, count it, and create its stream; raises DocumentError, Problem."""
    known = writable_stream(app, account, stream)
    given = name or secrets.token_hex(16)
    moment, is_timed = _moment(app, account, given, time)
    refuse_reserved(given)
    document = Document(known, given, moment, xml, origin=account.name)
    _check(app, account, document)
    app.accounts.usage.refuse_many_matches(account)
    app.accounts.usage.count_document(account, len(xml))
    app.accounts.users.claim(account, stream)
    if time is None:
        app.engine.catalog.declare_live(known)
    return _Acceptance(stream, document, is_timed)


def _spool(app: App, accepted: Sequence[_Acceptance]) -> list[answers.SentDocument]:
    """Spool documents durably, in one segment; return the answers to their senders, in order."""
    documents = app.store.intake.append(
        [one.document for one in accepted], [one.is_timed for one in accepted]
    )
    return [
        answers.SentDocument(
            id=document.id, stream=one.stream, timestamp=time_of(document.timestamp)
        )
        for one, document in zip(accepted, documents, strict=True)
    ]


@router.post(
    "/documents:batch",
    summary="Send up to 1,000 documents",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=raw_request(
        {"application/x-ndjson": json.dumps({"xml": "<order/>", "id": "order-17"}) + "\n"}
    ),
)
async def post_batch(
    request: Request,
    app: TheApp,
    account: TheAccount,
    stream: Annotated[
        str, Query(max_length=200, description="The stream of lines that name none.")
    ] = "",
) -> answers.SentBatch:
    """Takes JSON lines, `{"xml": ...}`; a line may have a `stream`, an `id` and a `time`.

    The answer comes when all accepted documents are durable, at the cost of one write.  Refused
    lines are listed with their number and the reason; all others are accepted.
    """
    return await run_in_threadpool(take_batch, app, account, stream, await request.body())


def take_batch(app: App, account: Account, stream: str, body: bytes) -> answers.SentBatch:
    """Validate the lines of a batch, and spool the valid ones durably; the others are reported.

    `stream` is that of lines that name none.
    """
    lines = [
        (number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip(_BLANK)
    ]
    if not lines:
        raise empty_list('a row is {"xml": "..."}; curl sends a file with --data-binary @FILE')
    refuse_long_list(len(lines), MOST)
    accepted, refused = list[_Acceptance](), list[answers.RefusedDocument]()
    for number, line in lines:
        try:
            accepted.append(_accept_line(app, account, stream, line))
        except (Problem, XsclError, FeedError) as error:
            problem = of_error(error, account.number)
            refused.append(
                answers.RefusedDocument(
                    line=number, code=problem.code, detail=problem.detail, hint=problem.hint
                )
            )
    return answers.SentBatch(taken=_spool(app, accepted) if accepted else [], refused=refused)


def _accept_line(app: App, account: Account, stream: str, line: bytes) -> _Acceptance:
    """Validate a line of a batch; raises DocumentError, Problem."""
    try:
        given = Line.model_validate_json(line.strip(_BLANK))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "line"
        raise Problem("invalid_request", f"{place}: {reason(first)}") from None
    xml = encoded(given.xml)
    return _accept(app, account, given.stream or stream, xml, given.id, _one_time(given))


def _one_time(given: Given | Line) -> str | None:
    """Return the time of a document from `time` or `timestamp`; raises Problem if both are set."""
    if given.time is not None and given.timestamp is not None:
        raise Problem("invalid_request", "timestamp: it is another name of time: give one of them")
    time = given.timestamp if given.time is None else given.time
    return None if time is None else str(time)


def _check(app: App, account: Account, document: Document) -> None:
    """Raise MalformedDocument for a malformed document; it is spooled, and recorded as rejected."""
    try:
        expect_valid([document])
    except MalformedDocument:
        with suppress(XsclError):  # report the error even if the rejected document cannot be stored
            app.accounts.usage.count_document(account, len(document.xml))
            app.store.intake.append([document])
        raise


def _moment(app: App, account: Account, id: str, time: str | None) -> tuple[int, bool]:
    """Return a document's time in ticks, and True if it is final; else the intake stamps it."""
    now = app.clock.now()
    found = now if time is None else ticks_of_time(time)
    if found is None:
        raise Problem("time", f"{time!r} is no time", hint="write it as 2026-03-01T12:00:00Z")
    if time is not None and time.isdecimal() and (unit := other_unit(found)):
        detail = f"{time} is taken as {written(found)}"
        raise Problem("time", detail, hint=unit_hint(found, unit))
    ahead = DAY if account.is_operator else AHEAD
    if found > now + ahead:
        raise DocumentError(
            f"the document {in_short(id)} is dated {written(found)}: the clock of the service says"
            f" {written(now)}, and a document may be {duration(ahead)} ahead of it,"
            " since windows are counted from the latest document",
            reason_code="future",
        )
    # The latest document drives everybody's windows, so users do not get ahead of the clock.
    return found, time is not None and (account.is_operator or found <= now)
