"""State of the service: metrics, health, status, late and rejected documents, backup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Annotated, Any, Literal

import pyarrow.compute as pc
from fastapi import APIRouter, Query, Response
from pydantic import Field
from starlette.responses import StreamingResponse

from xscl.engine.read_snapshot import read_snapshot
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody, Moment, raw_response
from xscl.service.dependencies import TheAccount, TheApp, TheOperator
from xscl.service.metrics import CONTENT_TYPE
from xscl.service.names import qualified
from xscl.service.paging import Limit, Number, Page
from xscl.service.status_series import SPANS
from xscl.store.queries.lateness import latest_missed
from xscl.store.queries.rejected import rejected_of

router = APIRouter(tags=["state"])

BACKUP_TYPE = "application/x-tar"
_PIECE = 1 << 18


class Health(JsonBody):
    """Health of the service."""

    status: str = "ok"
    """Always `ok`."""
    consumer: Literal["ok", "stalled"] = "ok"
    """`stalled` if documents wait and none was committed for a minute or more."""
    stalled_since: Moment | None = Field(default=None, examples=["2026-03-01T12:00:00Z"])
    """Start of the stall, since which nothing was committed; null without a stall."""
    stalled_segment: int | None = Field(default=None, examples=[7])
    """Spool segment that waits for the consumer; null without a stall."""
    executors: Literal["ok", "away"] | None = Field(default=None, examples=["ok"])
    """`away` while documents wait for Spark's executors; null for a service without `--master`."""
    executors_away_since: Moment | None = Field(default=None, examples=["2026-03-01T12:00:00Z"])
    """Since when they are; null while they are there."""
    store: Literal["ok"] = "ok"
    """Always `ok`."""
    clock: Literal["ok", "stepped", "held"] = "ok"
    """`ok`, or how the wall clock disagrees with the monotonic clock: it has `stepped` and is not
    followed, or it was set back and time is `held` until it has caught up."""
    clock_ahead: float = Field(default=0.0, examples=[0.0])
    """Lead of the wall clock over the assigned document times, in seconds."""


class Rejected(JsonBody):
    """A rejected document, with the reason."""

    stream: str = Field(examples=["orders"])
    """The stream."""
    id: str = Field(examples=["order-17"])
    """Its id."""
    reason: str = Field(examples=["xml_syntax"])
    """A stable code."""
    line: int | None = Field(examples=[3])
    """Line of the error; null if unknown."""
    column: int | None = Field(examples=[14])
    """Column of the error; null if unknown."""
    message: str = Field(examples=["Opening and ending tag mismatch"])
    """Error message."""
    sha256: str = Field(
        examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"]
    )
    """A hash of its bytes, in hexadecimal digits."""
    beginning: str = Field(examples=["<order><item>"])
    """First characters of the document."""
    clock: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Latest event time at its arrival."""


class Late(JsonBody):
    """A document that came too late for some of your subscriptions."""

    document: str = Field(examples=["orders/order-17"])
    """Its name, which no other document has."""
    id: str = Field(examples=["order-17"])
    """The id that it was sent with."""
    streams: list[str] = Field(examples=[["orders"]])
    """Its streams, those that you may see."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""
    watermark: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """The watermark at its arrival; documents with earlier times are late."""
    missed: list[str] = Field(examples=[["echo"]])
    """Your subscriptions that may have missed it."""


class Status(JsonBody):
    """Usage of the caller; for the operator also the figures of the service."""

    user: str = Field(examples=["alice"])
    """Your name."""
    subscriptions: int = Field(examples=[3])
    """Number of your subscriptions."""
    feeds: int = Field(examples=[2])
    """Number of feeds that you follow."""
    streams: int = Field(examples=[2])
    """Number of your own streams."""
    documents_today: int = Field(examples=[40])
    """Number of documents that you have sent today (UTC)."""
    matches_today: int = Field(examples=[7])
    """Number of matches delivered to you today (UTC)."""
    service: dict[str, Any] | None = Field(None, examples=[{"documents": 40, "matches": 7}])
    """All figures, for the operator."""


class Sample(JsonBody):
    """The figures of an interval of 15 s."""

    at: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """End of the interval."""
    documents: float = Field(examples=[4.5])
    """Documents that were taken in, a second."""
    matches: float = Field(examples=[0.5])
    """Matches, a second."""
    waiting: int = Field(examples=[0])
    """Largest number of documents that waited."""
    lag: float = Field(examples=[0.2])
    """Largest age of the oldest document that waited, in seconds."""
    memory: int = Field(examples=[300_000_000])
    """Resident memory in bytes; 0 where the system does not tell."""
    p50: float = Field(examples=[0.02])
    """Median of the seconds from the arrival of documents to the commit of their matches."""
    p95: float = Field(examples=[0.05])
    """Their 95th percentile."""


@router.get("/metrics", summary="Show metrics for Prometheus", response_class=Response)
def metrics(app: TheApp, account: TheOperator) -> Response:
    """Shows counters, gauges and histograms in the text format of Prometheus, to the operator."""
    with app.reading() as store:
        return Response(app.metrics.text(store), media_type=CONTENT_TYPE)


@router.get("/health", summary="Check the health of the service")
async def health(app: TheApp) -> Health:
    """Answers without delay; needs no token."""
    clock, stall = app.clock.agreement(), app.watch.stall()
    found = Health(clock=clock.state, clock_ahead=clock.seconds)
    if stall is not None:
        found.consumer = "stalled"
        found.stalled_since = ticks() - int(stall.seconds * 1_000_000)
        found.stalled_segment = stall.segment
    if app.executors is not None:
        away = app.executors.away
        found.executors = "ok" if away is None else "away"
        found.executors_away_since = None if away is None else away.since
    return found


@router.get("/status", summary="Show the status of the service")
def status(app: TheApp, account: TheAccount) -> Status:
    """Shows your usage; the operator also sees the figures of the service, at most 1 s old."""
    return Status(
        user=account.name,
        subscriptions=app.usage.owned(account, "subscriptions"),
        feeds=app.usage.owned(account, "feeds"),
        streams=len(app.accounts.streams(account)),
        documents_today=app.usage.today(account, "documents"),
        matches_today=app.usage.today(account, "matches"),
        service=app.home.read_status() if account.is_operator else None,
    )


@router.get("/status/series", summary="Show figures over time")
def series(
    app: TheApp,
    _: TheOperator,
    span: Annotated[
        Literal["hour", "day"], Query(description="The time up to now that they are of.")
    ] = "hour",
) -> list[Sample]:
    """Shows the figures of the last hour or day, one sample for each 15 s, to the operator.

    They begin anew with each start of the service.
    """
    begin = app.clock.now() - SPANS[span]
    return [Sample.model_validate(one) for one in app.series.since(begin)]


@router.get("/rejected", summary="List rejected documents")
def rejected(
    app: TheApp, account: TheAccount, limit: Limit = 100, after: Number = None
) -> Page[Rejected]:
    """Lists the rejected documents of your streams, newest first."""
    with app.reading() as store:
        rows = list(rejected_of(store, account.number, before=after, limit=limit + 1))
    items = [_rejected(account, row) for row in rows[:limit]]
    return Page(items=items, next=rows[limit - 1]["number"] if len(rows) > limit else None)


def _rejected(account: Account, row: dict[str, Any]) -> Rejected:
    shown = {
        "stream": account.named(row["stream"]),
        "id": row["id"],
        "message": account.shown(row["message"]),
        "beginning": row["beginning"].decode("utf-8", "replace"),
    }
    return Rejected(**row | shown)


@router.get("/late", summary="List late documents")
def late(app: TheApp, account: TheAccount, limit: Limit = 100) -> list[Late]:
    """Lists documents that some of your subscriptions missed, the last one to arrive first."""
    with app.reading() as store:
        with read_snapshot(app.engine.host.transactions, store) as look:
            readings = look.readings
        names = readings["subscription"]
        if account.is_operator:
            own = pc.invert(pc.match_substring_regex(names, r"^_[0-9]+\."))
        else:
            own = pc.starts_with(names, qualified(account.number, ""))
        rows = latest_missed(store, readings.filter(own), limit)
    return [
        Late(
            document=account.named(row["docid"]),
            id=row["id"],
            streams=[name for s in row["streams"] if (name := account.visible(s)) is not None],
            timestamp=row["timestamp"],
            watermark=row["watermark"],
            missed=[account.named(name) for name in row["missed"]],
        )
        for row in rows
    ]


@router.post(
    "/backup",
    summary="Download a backup",
    response_class=Response,
    responses=raw_response(BACKUP_TYPE, "What `xscl restore` puts back."),
)
def backup(app: TheApp, _: TheOperator) -> Response:
    """Answers with the store between two batches and what waits in the spool, without secrets.

    Everything else goes on meanwhile.  One is made at a time.
    """
    file, size = app.backups.make()
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": 'attachment; filename="backup.xscl"',
    }
    return StreamingResponse(_pieces(file), headers=headers, media_type=BACKUP_TYPE)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
