"""Tokens and accounts: `/v1/tokens` for everybody, `/v1/accounts` for the operator."""

from __future__ import annotations

import json
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import Path
from pydantic import Field
from starlette.responses import StreamingResponse

from xscl.client.bodies import JsonBody, Moment, time_of
from xscl.service import user_data
from xscl.service.accounts import Account, Quota
from xscl.service.app import App
from xscl.service.bodies import RequestBody, raw_response
from xscl.service.dependencies import TheAccount, TheApp, TheOperator, api_router
from xscl.service.problems import Problem, not_found
from xscl.service.tokens import AccessToken

router = api_router(tag="accounts")

MOST = 100
"""Maximum number of tokens of one user."""

TokenId = Annotated[str, Path(max_length=100, description="The id of the token.")]
Most = Annotated[int, Field(ge=0, lt=1 << 53)] | None
User = Annotated[str, Path(min_length=1, max_length=100, description="The name of the user.")]


class NewToken(RequestBody):
    """A token to create."""

    user: str | None = Field(None, min_length=1, max_length=100, examples=["alice"])
    """User of the token, for the operator only; a new user is created. Default: the caller."""
    label: str = Field("", max_length=200, examples=["laptop"])
    """Purpose of the token, as a remark."""


class Shown(JsonBody):
    """A token without its secret."""

    id: str = Field(examples=["3f9a01c2"])
    """The id of the token, as addresses have it; not secret."""
    user: str = Field(examples=["alice"])
    """User of the token."""
    label: str = Field(examples=["laptop"])
    """Purpose of the token, as a remark."""
    created: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of creation."""


class Made(Shown):
    """A new token."""

    token: str = Field(examples=["xscl_..."])
    """The token itself; it is shown only once."""


class Quotas(RequestBody):
    """The limits of a user; null means unlimited."""

    subscriptions: Most = Field(None, examples=[1000])
    """Subscriptions."""
    feeds: Most = Field(None, examples=[500])
    """Feeds."""
    streams: Most = Field(None, examples=[100])
    """Own streams."""
    endpoints: Most = Field(None, examples=[100])
    """Webhooks, mail addresses and files."""
    documents_a_day: Most = Field(None, examples=[100000])
    """Documents sent per day (UTC)."""
    bytes_a_day: Most = Field(None, examples=[1000000000])
    """Bytes of documents sent per day (UTC)."""
    matches_a_day: Most = Field(None, examples=[1000000])
    """Matches delivered per day (UTC)."""
    mails_a_day: Most = Field(None, examples=[1000])
    """Mails sent per day (UTC)."""
    requests_a_minute: int | None = Field(None, ge=1, lt=1 << 53, examples=[6000])
    """Requests per minute."""
    listeners: Most = Field(None, examples=[20])
    """Concurrent event streams."""


class Used(JsonBody):
    """The resources that a user holds, and the daily counts."""

    subscriptions: int = Field(examples=[3])
    """Subscriptions."""
    feeds: int = Field(examples=[2])
    """Feeds."""
    streams: int = Field(examples=[2])
    """Own streams."""
    endpoints: int = Field(examples=[1])
    """Webhooks, mail addresses and files."""
    documents_today: int = Field(examples=[40])
    """Documents sent today (UTC)."""
    bytes_today: int = Field(examples=[5000])
    """Bytes of documents sent today (UTC)."""
    matches_today: int = Field(examples=[7])
    """Matches delivered today (UTC)."""
    listeners: int = Field(examples=[1])
    """Open event streams."""
    mails_today: int = Field(examples=[3])
    """Mails sent today (UTC)."""


class User_(JsonBody):
    """A user, with quota and usage."""

    name: str = Field(examples=["alice"])
    """The name."""
    quota: Quotas
    """Limits of the user."""
    used: Used
    """Current usage of the user."""


@router.get("/me", summary="Show your account")
def me(app: TheApp, account: TheAccount) -> User_:
    """Shows your name, your quota and your usage."""
    return _user(app, account)


@router.get("/tokens", summary="List tokens")
def list_(app: TheApp, account: TheAccount) -> list[Shown]:
    """Lists your tokens; the operator sees the tokens of all users."""
    return [
        _shown(app, one) for one in app.accounts.tokens.of(None if account.is_operator else account)
    ]


@router.post("/tokens", summary="Create a token", status_code=HTTPStatus.CREATED)
def create(new: NewToken, app: TheApp, account: TheAccount) -> Made:
    """Creates a token; only this answer shows its text."""
    owner = account
    if new.user is not None and new.user != account.name:
        if not account.is_operator:
            raise Problem("operator_only", "only the operator makes tokens of others")
        owner = app.accounts.users.make(new.user)
    most = None if account.is_operator else MOST
    token, text = app.accounts.tokens.create(owner, new.label, most=most)
    return Made(**_shown(app, token).model_dump(), token=text)


@router.delete("/tokens/{id}", summary="Revoke a token", status_code=HTTPStatus.NO_CONTENT)
def revoke(id: TokenId, app: TheApp, account: TheAccount) -> None:
    """Revokes a token with its sessions: requests with it are refused from now on."""
    app.accounts.tokens.revoke(id, None if account.is_operator else account)


@router.get("/accounts", summary="List users")
def accounts(app: TheApp, _: TheOperator) -> list[User_]:
    """Lists the users with their quotas and their usage."""
    return [_user(app, user) for user in app.accounts.users if not user.is_operator]


@router.put("/accounts/{name}/quota", summary="Set the quota of a user")
def allow(name: User, quotas: Quotas, app: TheApp, _: TheOperator) -> User_:
    """Replaces the quota of a user: a limit that is null or absent does not exist."""
    _existing(app, name)
    return _user(app, app.accounts.users.allow(name, Quota(**quotas.model_dump())))


_DATA = raw_response("application/x-ndjson", "One JSON value a line.")


@router.get("/me/data", summary="Export your data", **_DATA)
def my_data(app: TheApp, account: TheAccount) -> StreamingResponse:
    """Returns all your data: account, tokens, streams, feeds, subscriptions, endpoints, documents
    and matches; each value has its `kind`."""
    return _exported(app, account)


@router.get("/accounts/{name}/data", summary="Export the data of a user", **_DATA)
def data(name: User, app: TheApp, _: TheOperator) -> StreamingResponse:
    """Returns all data of a user, as `/v1/me/data` does for the user."""
    return _exported(app, _existing(app, name))


@router.delete("/accounts/{name}", summary="Erase a user", status_code=HTTPStatus.NO_CONTENT)
def erase(name: User, app: TheApp, _: TheOperator) -> None:
    """Erases a user with all data: tokens, subscriptions, matches, endpoints, feeds, streams and
    documents, in the spool, too. Backups that were made before still have the data."""
    user_data.erase(app, _existing(app, name), is_consumed=True)


def _existing(app: App, name: str) -> Account:
    found = app.accounts.users.get(name)
    if found is None or found.is_operator:
        raise not_found("user", name)
    return found


def _exported(app: App, account: Account) -> StreamingResponse:
    lines = (json.dumps(row) + "\n" for row in user_data.export(app, account))
    return StreamingResponse(lines, media_type="application/x-ndjson")


def _shown(app: App, token: AccessToken) -> Shown:
    account = app.accounts.users.numbered(token.account)
    name = "" if account is None else account.name
    return Shown(id=token.id, user=name, label=token.label, created=time_of(token.created))


def _user(app: App, one: Account) -> User_:
    return User_(
        name=one.name,
        quota=Quotas(**asdict(one.quota)),
        used=Used(
            subscriptions=app.accounts.usage.owned(one, "subscriptions"),
            feeds=app.accounts.usage.owned(one, "feeds"),
            streams=len(app.accounts.users.streams(one)),
            endpoints=app.delivery.endpoints.count(one.owns),
            listeners=app.accounts.limits.listeners.held(one.number),
            documents_today=app.accounts.usage.today(one, "documents"),
            bytes_today=app.accounts.usage.today(one, "bytes"),
            matches_today=app.accounts.usage.today(one, "matches"),
            mails_today=app.delivery.mails.used(one.number),
        ),
    )
