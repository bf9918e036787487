"""How the service is doing: health, status, what was late, what was rejected."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow.compute as pc
from fastapi import APIRouter
from pydantic import BaseModel, Field

from xscl.engine.read_snapshot import read_snapshot
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, Who
from xscl.service.moments import Moment
from xscl.service.names import qualified
from xscl.service.paging import Limit, Number, Page
from xscl.service.showing import document_name
from xscl.subscriptions.lateness import latest_missed

router = APIRouter(tags=["state"])


class Health(BaseModel):
    """That the service answers."""

    status: str = Field(default="ok", description="Always `ok`.")
    consumer: Literal["ok", "stalled"] = Field(
        default="ok",
        description="`stalled` if documents wait and none was committed for a minute or more.",
    )
    stalled_since: Moment | None = Field(
        default=None,
        description="Since when nothing was committed, if the consumer is stalled.",
        examples=["2026-03-01T12:00:00Z"],
    )
    stalled_segment: int | None = Field(
        default=None, description="The segment that waits for it, of the spool.", examples=[7]
    )
    clock: Literal["ok", "stepped", "slowed"] = Field(
        default="ok",
        description="`ok`, or how the wall clock disagrees with the monotonic clock: it has"
        " `stepped` and is not followed, or it was set back and time is `slowed` until it has"
        " caught up.",
    )
    clock_ahead: float = Field(
        default=0.0,
        description="By how many seconds the wall clock is ahead of the times given to documents.",
        examples=[0.0],
    )


class Rejected(BaseModel):
    """A document that could not be taken in, and why."""

    stream: str = Field(description="The stream.", examples=["orders"])
    id: str = Field(description="Its id.", examples=["order-17"])
    reason: str = Field(examples=["xml_syntax"], description="A stable code.")
    line: int | None = Field(description="Where it is wrong, if that is known.", examples=[3])
    column: int | None = Field(description="Where it is wrong, if that is known.", examples=[14])
    message: str = Field(
        description="What is wrong with it.", examples=["Opening and ending tag mismatch"]
    )
    sha256: str = Field(
        description="A hash of its bytes, in hexadecimal digits.",
        examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"],
    )
    beginning: str = Field(description="How it begins.", examples=["<order><item>"])
    clock: Moment = Field(
        description="The latest time among documents when it came.",
        examples=["2026-03-01T12:00:00Z"],
    )


class Late(BaseModel):
    """A document that came too late for some of your subscriptions."""

    id: str = Field(description="Its id.", examples=["order-17"])
    streams: list[str] = Field(
        description="Its streams, those that you may see.", examples=[["orders"]]
    )
    timestamp: Moment = Field(description="Its time.", examples=["2026-03-01T12:00:00Z"])
    watermark: Moment = Field(
        description="What was waited for when it came: nothing earlier.",
        examples=["2026-03-01T12:00:00Z"],
    )
    missed: list[str] = Field(
        description="Your subscriptions that may have missed it.", examples=[["echo"]]
    )


class Status(BaseModel):
    """The figures of the service; of a user, what he has."""

    user: str = Field(description="Your name.", examples=["alice"])
    subscriptions: int = Field(description="How many you have.", examples=[3])
    feeds: int = Field(description="How many you follow.", examples=[2])
    streams: int = Field(description="How many are your own.", examples=[2])
    documents_today: int = Field(
        description="How many documents you have sent today (UTC).", examples=[40]
    )
    matches_today: int = Field(
        description="How many matches you were given today (UTC).", examples=[7]
    )
    service: dict[str, Any] | None = Field(
        None,
        description="All figures, for the operator.",
        examples=[{"documents": 40, "matches": 7}],
    )


@router.get("/health", summary="Say whether the service answers")
async def health(here: Here) -> Health:
    """Answers at once and asks for no token."""
    clock, stall = here.clock.agreement(), here.watch.stall()
    found = Health(clock=clock.state, clock_ahead=clock.seconds)
    if stall is not None:
        found.consumer = "stalled"
        found.stalled_since = ticks() - int(stall.seconds * 1_000_000)
        found.stalled_segment = stall.segment
    return found


@router.get("/status", summary="Show how the service is doing")
def status(here: Here, who: Who) -> Status:
    """Shows what you have; the operator sees all figures, at most a second old."""
    return Status(
        user=who.name,
        subscriptions=here.usage.owned(who, "subscriptions"),
        feeds=here.usage.owned(who, "feeds"),
        streams=len(here.accounts.streams(who)),
        documents_today=here.usage.today(who, "documents"),
        matches_today=here.usage.today(who, "matches"),
        service=here.home.read_status() if who.is_operator else None,
    )


@router.get("/rejected", summary="List rejected documents")
def rejected(here: Here, who: Who, limit: Limit = 100, after: Number = None) -> Page[Rejected]:
    """Lists documents on your streams that could not be taken in, the newest first."""
    before = "" if after is None else f" AND rowid < {after}"
    with here.reading() as store:
        rows = store.fetch(
            'SELECT rowid, stream, id, reason, line, "column", message, sha256, beginning, clock'
            f" FROM state.rejected WHERE {_own_name('stream', who)}{before}"
            f" ORDER BY rowid DESC LIMIT {limit + 1}"
        )
    items = [
        Rejected(
            stream=document_name(who, stream),
            id=document_name(who, id),
            reason=reason,
            line=line,
            column=column,
            message=who.shown(message),
            sha256=sha256,
            beginning=bytes(beginning).decode("utf-8", "replace"),
            clock=clock,
        )
        for _, stream, id, reason, line, column, message, sha256, beginning, clock in rows[:limit]
    ]
    return Page(items=items, next=rows[limit - 1][0] if len(rows) > limit else None)


@router.get("/late", summary="List late documents")
def late(here: Here, who: Who, limit: Limit = 100) -> list[Late]:
    """Lists the latest documents that came too late for some of your subscriptions."""
    with here.reading() as store:
        with read_snapshot(here.engine.host.transactions, store) as look:
            readings = look.readings
        names = readings["subscription"]
        if who.is_operator:
            own = pc.invert(pc.match_substring_regex(names, r"^_[0-9]+\."))
        else:
            own = pc.starts_with(names, qualified(who.number, ""))
        rows = latest_missed(store, readings.filter(own), limit)
    return [
        Late(
            id=document_name(who, row["docid"]),
            streams=[name for s in row["streams"] if (name := who.visible(s)) is not None],
            timestamp=row["timestamp"],
            watermark=row["watermark"],
            missed=[who.own(name) or name for name in row["missed"]],
        )
        for row in rows
    ]


def _own_name(column: str, who: Account) -> str:
    """Return the condition that a name in a column is a user's own."""
    if who.is_operator:
        return f"NOT regexp_matches({column}, '^_[0-9]+\\.')"
    return f"starts_with({column}, '{qualified(who.number, '')}')"
