"""Tokens and accounts: `/v1/tokens` for everybody, `/v1/accounts` for the operator."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from xscl.service.accounts import Account, Quota, QuotaExceeded
from xscl.service.dependencies import Here, TheOperator, Who
from xscl.service.installation import Installation
from xscl.service.moments import Moment
from xscl.service.problems import Problem, not_found
from xscl.service.tokens import Token

router = APIRouter(tags=["accounts"])

MOST = 100
"""Tokens of one user."""

TokenId = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="The id of the token.")]
Most = Annotated[int, Field(ge=0, lt=1 << 53)] | None
User = Annotated[str, Path(min_length=1, max_length=100, description="The name of the user.")]


class New(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    user: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Whose it is to be, for the operator; the user is made with his first token."
        " Your own if it is left out.",
        examples=["alice"],
    )
    label: str = Field("", max_length=200, description="What it is for.", examples=["laptop"])


class Shown(BaseModel):
    """A token; what proves it is never shown again."""

    id: str = Field(examples=["3f9a01c2"], description="Its name in addresses; no secret.")
    user: str = Field(examples=["alice"], description="Whose it is.")
    label: str = Field(description="What it is for.", examples=["laptop"])
    created: Moment = Field(description="When it was made.", examples=["2026-03-01T12:00:00Z"])


class Made(Shown):
    """A token that was just made."""

    token: str = Field(description="Keep it: it is shown this once.", examples=["xscl_..."])


class Quotas(BaseModel):
    """How much a user may have; null is no limit."""

    model_config = ConfigDict(extra="forbid")

    subscriptions: Most = Field(None, description="Subscriptions.", examples=[1000])
    feeds: Most = Field(None, description="Feeds.", examples=[500])
    streams: Most = Field(None, description="Streams of his own.", examples=[100])
    endpoints: Most = Field(None, description="Webhooks, mail addresses and files.", examples=[100])
    documents_a_day: Most = Field(
        None, description="Documents sent in a day (UTC).", examples=[100000]
    )
    matches_a_day: Most = Field(
        None, description="Matches given in a day (UTC).", examples=[1000000]
    )
    mails_a_day: Most = Field(None, description="Mails sent in a day (UTC).", examples=[1000])
    requests_a_minute: int | None = Field(
        None, ge=1, lt=1 << 53, description="Requests in a minute.", examples=[6000]
    )
    listeners: Most = Field(None, description="Streams of events at the same time.", examples=[20])


class Used(BaseModel):
    """What a user has, and has had today."""

    subscriptions: int = Field(description="Subscriptions.", examples=[3])
    feeds: int = Field(description="Feeds.", examples=[2])
    streams: int = Field(description="Streams of his own.", examples=[2])
    endpoints: int = Field(description="Webhooks, mail addresses and files.", examples=[1])
    documents_today: int = Field(description="Documents sent today (UTC).", examples=[40])
    matches_today: int = Field(description="Matches given today (UTC).", examples=[7])
    listeners: int = Field(description="Streams of events now.", examples=[1])
    mails_today: int = Field(description="Mails sent today (UTC).", examples=[3])


class User_(BaseModel):
    """A user, what he may have and what he has."""

    name: str = Field(description="The name.", examples=["alice"])
    quota: Quotas = Field(description="What the user may have.")
    used: Used = Field(description="What the user has.")


@router.get("/me", summary="Show who you are")
def me(here: Here, who: Who) -> User_:
    """Shows your name, what you may have and what you have."""
    return _user(here, who)


@router.get("/tokens", summary="List tokens")
def list_(here: Here, who: Who) -> list[Shown]:
    """Lists your tokens; the operator sees those of all."""
    return [_shown(here, one) for one in here.tokens.of(None if who.is_operator else who)]


@router.post("/tokens", summary="Make a token", status_code=HTTPStatus.CREATED)
def create(new: New, here: Here, who: Who) -> Made:
    """Makes a token; its text is in this answer and nowhere else."""
    account = who
    if new.user is not None and new.user != who.name:
        if not who.is_operator:
            raise Problem(
                HTTPStatus.FORBIDDEN, "operator_only", "only the operator makes tokens of others"
            )
        account = here.accounts.make(new.user)
    if not who.is_operator and len(here.tokens.of(account)) >= MOST:
        raise QuotaExceeded(f"you have {MOST} tokens, and more are not allowed")
    token, text = here.tokens.create(account, new.label)
    return Made(**_shown(here, token).model_dump(), token=text)


@router.delete("/tokens/{id}", summary="Revoke a token", status_code=HTTPStatus.NO_CONTENT)
def revoke(id: TokenId, here: Here, who: Who) -> None:
    """Makes a token worth nothing from now on."""
    here.tokens.revoke(id, None if who.is_operator else who)


@router.get("/accounts", summary="List users")
def accounts(here: Here, _: TheOperator) -> list[User_]:
    """Lists the users, what they may have and what they have."""
    return [_user(here, one) for one in here.accounts if not one.is_operator]


@router.put("/accounts/{name}/quota", summary="Say how much a user may have")
def allow(name: User, quotas: Quotas, here: Here, _: TheOperator) -> User_:
    """Replaces the quota of a user."""
    found = here.accounts.get(name)
    if found is None or found.is_operator:
        raise not_found("user", name)
    return _user(here, here.accounts.allow(name, Quota(**quotas.model_dump())))


def _shown(here: Installation, token: Token) -> Shown:
    account = here.accounts.numbered(token.account)
    name = "" if account is None else account.name
    return Shown(id=token.id, user=name, label=token.label, created=token.created)


def _user(here: Installation, one: Account) -> User_:
    return User_(
        name=one.name,
        quota=Quotas(**asdict(one.quota)),
        used=Used(
            subscriptions=here.usage.owned(one, "subscriptions"),
            feeds=here.usage.owned(one, "feeds"),
            streams=len(here.accounts.streams(one)),
            endpoints=here.outbox.endpoints.count(lambda known: one.own(known) is not None),
            listeners=here.listeners.held(one.number),
            documents_today=here.usage.today(one, "documents"),
            matches_today=here.usage.today(one, "matches"),
            mails_today=here.outbox.mails.used(one.number),
        ),
    )
