"""Subscriptions: `PUT`, `GET` and `DELETE /v1/subscriptions/{name}`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from xscl.errors import NameTaken
from xscl.language.windows import refuse_bare_windows
from xscl.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, Who
from xscl.service.installation import Installation
from xscl.service.problems import not_found

router = APIRouter(prefix="/subscriptions", tags=["subscriptions"])

Name = Annotated[str, Path(min_length=1, max_length=500, description="The subscription's name.")]


class New(BaseModel):
    """What to subscribe to."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(max_length=1_000_000, description="The query, in XSCL.")
    updates: bool = Field(False, description="See new versions of documents too.")


class Shown(BaseModel):
    """A subscription."""

    name: str
    query: str
    language: str
    reads: list[str]
    publishes: str | None
    updates: bool


@router.put("/{name}", summary="Subscribe", status_code=201)
def put(name: Name, new: New, here: Here, who: Who, response: Response) -> Shown:
    """Registers a query under a name; the same query again changes nothing."""
    known = who.qualify(name)
    found = here.engine.subscription(known)
    if found is None:
        refuse_bare_windows(new.query)
        try:
            here.registrar.register(known, new.query, updates=new.updates)
        except NameTaken:
            found = here.engine.subscription(known)
            if found is None:
                raise
        else:
            return shown(here, who, known)
    if found.query != new.query or found.updates != new.updates:
        raise NameTaken(
            f"there is a subscription named {name!r} already, with another query",
            hint="unsubscribe it first, or choose another name",
        )
    response.status_code = 200
    return shown(here, who, known)


@router.get("/{name}", summary="Show a subscription")
def get(name: Name, here: Here, who: Who) -> Shown:
    """Shows the query as it was written, what it reads and what it publishes."""
    return shown(here, who, existing(here, who, name).name)


@router.delete("/{name}", summary="Unsubscribe", status_code=204)
def delete(name: Name, here: Here, who: Who, cascade: bool = False) -> None:
    """Removes a subscription with its matches; with `cascade` those that read what it publishes."""
    removed = here.engine.unsubscribe(existing(here, who, name).name, cascade=cascade)
    here.outbox.removed(removed)


def existing(here: Installation, who: Account, name: str) -> Subscription:
    """Return a user's subscription; raises Problem 404 if he has none of that name."""
    found = here.engine.subscription(who.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def shown(here: Installation, who: Account, known: str) -> Shown:
    """Return a subscription as its owner sees it."""
    found = here.engine.subscription(known)
    if found is None:
        raise not_found("subscription", who.own(known) or known)
    return Shown(
        name=who.own(known) or known,
        query=found.query,
        language=found.language if found.relational else XSCL,
        reads=[who.visible(stream) or stream for stream in found.reads],
        publishes=None if found.publish is None else who.own(found.publish),
        updates=found.updates,
    )
