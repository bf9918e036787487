"""How the service is doing: health, status, what was late, what was rejected."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
from fastapi import APIRouter
from pydantic import BaseModel, Field

from xscl.lateness import latest_missed
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, Who
from xscl.service.names import qualified
from xscl.service.paging import Limit, Number, Page
from xscl.service.showing import document_name

router = APIRouter(tags=["state"])


class Health(BaseModel):
    """That the service answers."""

    status: str = "ok"


class Rejected(BaseModel):
    """A document that could not be taken in, and why."""

    stream: str
    id: str
    reason: str = Field(examples=["xml_syntax"])
    line: int | None
    column: int | None
    message: str
    sha256: str
    beginning: str = Field(description="How it begins.")
    clock: int


class Late(BaseModel):
    """A document that came too late for some of your subscriptions; times in microseconds."""

    id: str
    streams: list[str]
    timestamp: int
    watermark: int
    missed: list[str] = Field(description="Your subscriptions that may have missed it.")


class Status(BaseModel):
    """The figures of the service; of a user, what he has."""

    user: str
    subscriptions: int
    feeds: int
    streams: int
    documents_today: int
    matches_today: int
    service: dict[str, Any] | None = Field(None, description="All figures, for the operator.")


@router.get("/health", summary="Say whether the service answers")
async def health() -> Health:
    """Answers at once and asks for no token."""
    return Health()


@router.get("/status", summary="Show how the service is doing")
def status(here: Here, who: Who) -> Status:
    """Shows what you have; the operator sees all figures, at most a second old."""
    return Status(
        user=who.name,
        subscriptions=here.usage.has(who, "subscriptions"),
        feeds=here.usage.has(who, "feeds"),
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
        with here.engine.look(store) as look:
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
