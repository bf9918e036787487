"""State of the service: metrics, health, status, late and rejected documents, backup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Annotated, Any, Literal

import pyarrow.compute as pc
from fastapi import Query, Response
from starlette.responses import StreamingResponse

from xscl.client import service_answers as answers
from xscl.engine.queries import read_snapshot
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account
from xscl.service.bodies import Limit, ListPage, Number, raw_response
from xscl.service.dependencies import TheAccount, TheApp, TheOperator, api_router
from xscl.service.metrics import CONTENT_TYPE
from xscl.service.names import qualified
from xscl.service.status import SPANS
from xscl.store.queries.lateness import latest_missed, rejected_of

router = api_router(tag="state")

BACKUP_TYPE = "application/x-tar"
_PIECE = 1 << 18


@router.get("/metrics", summary="Show metrics for Prometheus", response_class=Response)
def metrics(app: TheApp, account: TheOperator) -> Response:
    """Shows counters, gauges and histograms in the text format of Prometheus, to the operator."""
    with app.store() as store:
        return Response(app.figures.metrics.text(store), media_type=CONTENT_TYPE)


@router.get("/health", summary="Check the health of the service")
async def health(app: TheApp) -> answers.Health:
    """Shows the state of clock, consumer and executors, without delay; needs no token."""
    clock, stall = app.clock.agreement(), app.figures.watch.stall()
    found: dict[str, Any] = {"clock": clock.state, "clock_ahead": clock.seconds}
    if stall is not None:
        found["consumer"] = "stalled"
        found["stalled_since"] = ticks() - int(stall.seconds * 1_000_000)
        found["stalled_segment"] = stall.segment
    if app.figures.executors is not None:
        away = app.figures.executors.away
        found["executors"] = "ok" if away is None else "away"
        found["executors_away_since"] = None if away is None else away.since
    return answers.Health(**found)


@router.get("/status", summary="Show the status of the service")
def status(app: TheApp, account: TheAccount) -> answers.Status:
    """Shows your usage; the operator also sees the figures of the service, at most 1 s old."""
    return answers.Status(
        user=account.name,
        subscriptions=app.accounts.usage.owned(account, "subscriptions"),
        feeds=app.accounts.usage.owned(account, "feeds"),
        streams=len(app.accounts.users.streams(account)),
        documents_today=app.accounts.usage.today(account, "documents"),
        matches_today=app.accounts.usage.today(account, "matches"),
        service=app.home.read_status() if account.is_operator else None,
    )


@router.get("/status/series", summary="Show figures over time")
def series(
    app: TheApp,
    _: TheOperator,
    span: Annotated[
        Literal["hour", "day"], Query(description="The time up to now that they are of.")
    ] = "hour",
) -> list[answers.StatusSample]:
    """Shows the figures of the last hour or day, one sample for each 15 s, to the operator.

    They begin with the last start of the service.
    """
    begin = app.clock.now() - SPANS[span]
    return app.figures.series.since(begin)


@router.get("/rejected", summary="List rejected documents")
def rejected(
    app: TheApp, account: TheAccount, limit: Limit = 100, after: Number = None
) -> ListPage[answers.RejectedDocument]:
    """Lists the rejected documents of your streams, newest first."""
    with app.store() as store:
        rows = list(rejected_of(store, account.number, before=after, limit=limit + 1))
    items = [_rejected(account, row) for row in rows[:limit]]
    return ListPage(items=items, next=rows[limit - 1]["number"] if len(rows) > limit else None)


def _rejected(account: Account, row: dict[str, Any]) -> answers.RejectedDocument:
    shown = {
        "stream": account.named(row["stream"]),
        "id": row["id"],
        "message": account.shown(row["message"]),
        "beginning": row["beginning"].decode("utf-8", "replace"),
    }
    return answers.RejectedDocument(**row | shown)


@router.get("/late", summary="List late documents")
def late(app: TheApp, account: TheAccount, limit: Limit = 100) -> list[answers.LateDocument]:
    """Lists late documents that some of your subscriptions may have missed, the last arrival first.

    Streams and times decide; whether a pattern would have matched is not tested.
    """
    with app.store() as store:
        with read_snapshot(app.engine.transactions, store) as look:
            readings = look.readings
        names = readings["subscription"]
        if account.is_operator:
            own = pc.invert(pc.match_substring_regex(names, r"^_[0-9]+\."))
        else:
            own = pc.starts_with(names, qualified(account.number, ""))
        rows = latest_missed(store, readings.filter(own), limit)
    return [
        answers.LateDocument(
            document=account.named(row["docid"]),
            id=row["id"],
            streams=tuple(filter(None, map(account.visible, row["streams"]))),
            timestamp=row["timestamp"],
            watermark=row["watermark"],
            missed=tuple(map(account.named, row["missed"])),
        )
        for row in rows
    ]


@router.post(
    "/backup",
    summary="Download a backup",
    **raw_response(BACKUP_TYPE, "What `xscl restore` puts back."),
)
def backup(app: TheApp, _: TheOperator) -> Response:
    """Answers with the store between two batches and the waiting segments, without secrets.

    The service keeps working meanwhile.  Only one backup is made at a time.
    """
    file, size = app.store.backups.make()
    headers = {
        "Content-Length": str(size),
        "Content-Disposition": 'attachment; filename="backup.xscl"',
    }
    return StreamingResponse(_pieces(file), headers=headers, media_type=BACKUP_TYPE)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
