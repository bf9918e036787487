"""Endpoints of a subscription: webhooks, mail addresses and files that get its matches.

`/unsubscribe/ENDPOINT/TOKEN` ends mails (RFC 8058).  It needs no token of a user, because only the
mails contain the address.  A GET changes nothing, since mail programs fetch all addresses in a
mail; a POST ends the mails.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from html import escape
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Body, Path
from fastapi.responses import HTMLResponse
from pydantic import Field

from feeds.formats.times import SECOND
from feeds.http.addresses import RefusedAddress, check, unreachable
from xscl.client.bodies import JsonBody, Moment
from xscl.delivery.channels.mail import CODES
from xscl.delivery.channels.signature import is_secret
from xscl.delivery.endpoint import (
    CHANNELS,
    DeliveryChannel,
    Endpoint,
    EndpointState,
    Mail,
    Webhook,
)
from xscl.delivery.outbox.outbox import UNSUBSCRIBE
from xscl.language.names import owner_name, owner_number
from xscl.language.parser import parse_window
from xscl.plurals import counted
from xscl.polling.feed import HIDDEN
from xscl.service.accounts import Account, QuotaExceeded, refuse_more
from xscl.service.app import App
from xscl.service.bodies import RequestBody, example
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.problems import Problem, not_found, refused_address
from xscl.service.routes.matches import POSITION
from xscl.service.routes.subscriptions import Name
from xscl.service.subscribing import existing

router = api_router("/subscriptions/{name}/endpoints", tag="deliveries")

Id = Annotated[str, Path(max_length=100, description="The id of the endpoint.")]

RESOLVING = 5.0
"""Timeout in seconds of resolving a host."""
LONGEST = 7 * 86_400 * SECOND
"""Maximum digest interval in ticks."""


class _Endpoint(RequestBody):
    history: bool = False
    """Also matches between items that were history."""
    grouped: bool = True
    """Matches on the same documents as one message."""
    after: int | None = Field(None, ge=0, le=POSITION, examples=[17])
    """Position after which deliveries begin, at most that of the newest match, the default."""
    backfilled: bool | None = Field(None, examples=[True])
    """Also matches that the subscription began with; default: true if `after` is given."""


class _PostedEndpoint(_Endpoint):
    url: str = Field(max_length=4_000, examples=["https://example.org/hook"])
    """Target of the POST requests, `https` or `http`. A private address needs the operator's
    `xscl serve --allow-address`, which applies to feeds and webhooks of all users."""


class NewWebhook(_PostedEndpoint):
    """A POST for each message, signed by the Standard Webhooks scheme."""

    model_config = example(kind="webhook", url="https://example.org/hook")

    kind: Literal["webhook"]
    """A webhook."""
    secret: str | None = Field(None, max_length=200, examples=["whsec_BASE64"])
    """`whsec_` and the base64 of 24 to 64 secret bytes; default: generated."""


class NewSlack(_PostedEndpoint):
    """A text for an incoming webhook of Slack, or of Mattermost, Rocket.Chat or Discord (its
    address with `/slack` behind it); it is not signed."""

    model_config = example(kind="slack", url="https://hooks.slack.com/services/T0/B0/KEY")

    kind: Literal["slack"]
    """A webhook of Slack."""


class NewNtfy(_PostedEndpoint):
    """A notification of ntfy, on phones and desktops; it is not signed."""

    model_config = example(kind="ntfy", url="https://ntfy.sh/my-topic")

    kind: Literal["ntfy"]
    """A topic of ntfy, by its address."""


class NewMail(_Endpoint):
    """A mail for each message, or a digest.

    To an address that a user gives, only a code is mailed until `:confirm` has received it.
    """

    kind: Literal["mail"]
    """A mail address."""
    to: str = Field(max_length=254, examples=["reader@example.org"])
    """Recipient."""
    every: str | None = Field(None, max_length=20, examples=["1 d"])
    """Interval of a digest, as a duration; default: a mail for each message."""


class NewFile(_Endpoint):
    """A line of JSON for each message, in the folder `files` of the data directory."""

    kind: Literal["file"]
    """A file; for the operator."""
    name: str = Field(max_length=100, examples=["matches.jsonl"])
    """The name of the file."""


NewEndpoint: TypeAlias = Annotated[
    NewWebhook | NewSlack | NewNtfy | NewMail | NewFile, Field(discriminator="kind")
]


class Changes(RequestBody):
    """Changes to an endpoint; omitted fields stay unchanged."""

    state: Literal["active", "paused"] | None = Field(None, examples=["paused"])
    """'active' also enables a disabled endpoint, and retries at once."""
    history: bool | None = Field(None, examples=[True])
    """Also matches between items that were history."""
    backfilled: bool | None = Field(None, examples=[True])
    """Also matches that the subscription began with."""
    grouped: bool | None = Field(None, examples=[False])
    """Matches on the same documents as one message."""
    url: str | None = Field(None, max_length=4_000, examples=["https://example.org/hook"])
    """The address of a webhook."""


class ShownEndpoint(JsonBody):
    """An endpoint without its secret."""

    id: str = Field(examples=["5f0c2a9d"])
    """The id of the endpoint, as addresses have it."""
    kind: str = Field(examples=["webhook"])
    """The kind that it was created with."""
    state: str = Field(examples=["active"])
    """active, paused, disabled after too many failures, unconfirmed, or incomplete: the secret is
    missing after a restore on another machine, and messages wait until it is rotated."""
    to: dict[str, Any] = Field(examples=[{"url": "https://example.org/hook"}])
    """Target address or file, without secrets."""
    position: int = Field(examples=[17])
    """Position up to which all matches were delivered or refused."""
    failures: int = Field(examples=[0])
    """Number of consecutive failures."""
    next_try: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the next attempt; null if none is scheduled."""
    note: str = Field(examples=[""])
    """Last error."""
    letters: int = Field(examples=[0])
    """Number of messages that were refused and are kept."""
    created: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of creation."""


class MadeEndpoint(ShownEndpoint):
    """A new endpoint; its secret is shown only once."""

    secret: str | None = Field(examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])
    """Signing key of a webhook; null for other kinds."""


class Secret(JsonBody):
    """A new secret; messages are also signed with the old one for a day."""

    secret: str = Field(examples=["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"])
    """New signing key."""


class ShownLetter(JsonBody):
    """A message that was refused."""

    message: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """The id of the message."""
    position: int = Field(examples=[17])
    """Position of its first match."""
    attempts: int = Field(examples=[3])
    """Number of attempts."""
    reason: str = Field(examples=["the answer was 500"])
    """Last error."""
    last_try: Moment = Field(validation_alias="died", examples=["2026-03-01T12:00:00Z"])
    """Time of the last attempt."""
    next_try: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the next attempt; null for a dead letter, which waits for a replay."""


class Replay(RequestBody):
    """Selection of refused messages to replay."""

    message: str | None = Field(None, max_length=100, examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """Id of one message; default: all."""


class Confirmation(RequestBody):
    """Confirmation of a mail address."""

    code: str | None = Field(None, max_length=20, examples=["123456"])
    """Code from the mail; if omitted, a new one is mailed."""


class Replayed(JsonBody):
    """The result of a replay."""

    letters: int = Field(examples=[2])
    """Number of messages that are sent again."""


@router.post("", summary="Create an endpoint", status_code=201)
def make(
    name: Name, app: TheApp, account: TheAccount, new: Annotated[NewEndpoint, Body()]
) -> MadeEndpoint:
    """Creates an endpoint.  Only this response shows a webhook's secret."""
    known = existing(app, account, name).name
    secret = new.secret if isinstance(new, NewWebhook) else None
    if secret is not None and not is_secret(secret):
        raise _wrong("secret", "a secret is 'whsec_' and the base64 of 24 to 64 bytes")
    channel = _channel(app, account, new)
    newest = app.delivery.pages.position()
    if new.after is not None and new.after > newest:  # the matches before it would be skipped
        raise Problem(
            "position_ahead",
            f"after: the newest match is at position {newest}, {new.after} is not reached yet",
            hint="leave `after` out to begin from now on",
        )
    with app.accounts.limits.endpoints:
        has = app.delivery.endpoints.count(account.owns)
        refuse_more(has, account.quota.endpoints, "endpoint")
        state: EndpointState = "active" if _is_confirmed(app, account, channel) else "unconfirmed"
        endpoint, made = app.delivery.deliver(
            known, channel, after=new.after, secret=secret, state=state
        )
    if endpoint.state == "unconfirmed":
        try:
            _mail_code(app, account, endpoint)
        except BaseException:
            app.delivery.endpoints.remove([endpoint.id])
            raise
    return MadeEndpoint(**_shown(app, endpoint).model_dump(), secret=made)


@router.get("", summary="List the endpoints")
def listed(name: Name, app: TheApp, account: TheAccount) -> list[ShownEndpoint]:
    """Lists the endpoints of a subscription with their delivery state."""
    known = existing(app, account, name).name
    return [_shown(app, endpoint) for endpoint in app.delivery.endpoints.of(known)]


@router.get("/{id}", summary="Show an endpoint")
def get(name: Name, id: Id, app: TheApp, account: TheAccount) -> ShownEndpoint:
    """Shows an endpoint with its position, failures and next attempt."""
    return _shown(app, _existing(app, account, name, id))


@router.patch("/{id}", summary="Change an endpoint")
def change(name: Name, id: Id, app: TheApp, account: TheAccount, changes: Changes) -> ShownEndpoint:
    """Pauses, resumes or enables an endpoint, or changes its address or its options."""
    endpoint = _existing(app, account, name, id)
    if endpoint.state == "unconfirmed" and changes.state is not None:
        raise Problem(
            "endpoint_unconfirmed",
            "the mail address was not confirmed yet",
            hint="send the code that was mailed to it: POST ...:confirm",
        )
    given = changes.model_dump(include={"history", "grouped", "backfilled"}, exclude_none=True)
    channel = replace(endpoint.channel, **given)
    if changes.url is not None:
        if not isinstance(channel, Webhook):
            raise _wrong("url", "only a webhook has an address that can be changed")
        _check(app, account, changes.url)
        channel = replace(channel, url=changes.url).redacted()
    transition = {"active": Endpoint.resumed, "paused": Endpoint.paused, None: _same}
    changed = app.delivery.endpoints.change(
        id, lambda one: transition[changes.state](replace(one, channel=channel)), url=changes.url
    )
    if changed is None:
        raise not_found("endpoint", id)
    return _shown(app, changed)


@router.delete("/{id}", summary="Delete an endpoint", status_code=204)
def delete(name: Name, id: Id, app: TheApp, account: TheAccount) -> None:
    """Removes an endpoint with its secret and its letters."""
    app.delivery.endpoints.remove([_existing(app, account, name, id).id])


@router.post("/{id}:rotate", summary="Rotate the secret of a webhook")
def rotate(name: Name, id: Id, app: TheApp, account: TheAccount) -> Secret:
    """Replaces the secret.  Messages are signed with both secrets for a day, so that a receiver can
    be changed meanwhile.  Messages that wait at an incomplete endpoint are delivered."""
    channel = _existing(app, account, name, id).channel
    if not isinstance(channel, Webhook) or not channel.is_signed:
        raise _wrong("id", "only a webhook has a secret")
    return Secret(secret=app.delivery.endpoints.rotate(id))


@router.post("/{id}:confirm", summary="Confirm a mail address")
def confirm(
    name: Name, id: Id, app: TheApp, account: TheAccount, confirmation: Confirmation
) -> ShownEndpoint:
    """Confirms the address by the code that was mailed to it, or mails another code."""
    endpoint = _existing(app, account, name, id)
    if endpoint.state != "unconfirmed":
        return _shown(app, endpoint)
    if confirmation.code is None:
        _mail_code(app, account, endpoint)
        return _shown(app, endpoint)
    confirmed = app.delivery.endpoints.confirm(id, confirmation.code.strip())
    if confirmed is None:
        raise Problem(
            "wrong_code",
            "that is not the code that was mailed, or it is over",
            hint="'POST ...:confirm {}' mails another one",
        )
    return _shown(app, confirmed)


@router.get("/{id}/letters", summary="List the refused messages of an endpoint")
def letters(name: Name, id: Id, app: TheApp, account: TheAccount) -> list[ShownLetter]:
    """Lists the messages that the receiver refused, and that are kept for a retry or a replay."""
    endpoint = _existing(app, account, name, id)
    found = app.delivery.endpoints.letters(endpoint.id)
    return [ShownLetter.model_validate(letter) for letter in found]


@router.post("/{id}:replay", summary="Retry refused messages")
def replay(
    name: Name,
    id: Id,
    app: TheApp,
    account: TheAccount,
    replay: Annotated[Replay, Body(default_factory=Replay)],
) -> Replayed:
    """Sends refused messages again at once, with the same ids."""
    endpoint = _existing(app, account, name, id)
    if endpoint.state != "active":
        raise Problem(
            "endpoint_not_active",
            f"the endpoint is {endpoint.state}",
            hint='enable it first: PATCH {"state": "active"}',
        )
    return Replayed(letters=app.delivery.endpoints.replay(id, replay.message))


def _existing(app: App, account: Account, name: str, id: str) -> Endpoint:
    """Return an endpoint of a user's subscription; raises Problem 404."""
    known = existing(app, account, name).name
    endpoint = app.delivery.endpoints.get(id)
    if endpoint is None or endpoint.subscription != known:
        raise not_found("endpoint", id)
    return endpoint


def _channel(app: App, account: Account, new: NewEndpoint) -> DeliveryChannel:
    """Return the channel of a requested endpoint, validated; raises Problem."""
    kind = CHANNELS[new.kind]
    target = getattr(new, kind.target)
    if kind.is_operators and not account.is_operator:
        raise Problem("operator_only", f"only the operator delivers by {kind.kind}")
    if kind.form.fullmatch(target) is None:
        raise _wrong(kind.target, kind.rule)
    backfilled = new.after is not None if new.backfilled is None else new.backfilled
    own: dict[str, Any] = {}
    if isinstance(new, _PostedEndpoint):
        _check(app, account, new.url)
    if isinstance(new, NewMail):
        if app.delivery.settings.mail is None:
            raise Problem(
                "no_mail_server",
                "this service mails nothing: it has no mail server",
                hint="the operator names one with 'xscl serve --smtp URL' or XSCL_SMTP",
            )
        every = 0 if new.every is None else parse_window(new.every)
        if not 0 <= every <= LONGEST:
            raise _wrong("every", "a digest gathers for a week at most")
        own["every"] = every / SECOND
    flags = {"history": new.history, "grouped": new.grouped, "backfilled": backfilled}
    return kind(target, **own, **flags)


def _check(app: App, account: Account, url: str) -> None:
    """Raise Problem for an address that webhooks may not reach.

    A user gets the same answer for a host that does not resolve as for one that is refused.  The
    operator may give a host that does not resolve yet: each message checks the address again.
    """
    if HIDDEN in url:
        raise _wrong("url", f"{HIDDEN} stands for what answers do not show: give the whole address")
    requests = app.delivery.settings.requests
    asked = check(url, requests.allow_addresses, requests.resolve)
    try:
        asyncio.run(asyncio.wait_for(asked, RESOLVING))
    except TimeoutError:
        refused = unreachable(url, requests.allow_addresses)
    except RefusedAddress as error:
        refused = error
    else:
        return
    if not (account.is_operator and refused.code == "fetch_unreachable"):
        raise refused_address(account, refused)


def _is_confirmed(app: App, account: Account, channel: DeliveryChannel) -> bool:
    """Return True if a channel needs no confirmation, or its mail address has been confirmed."""
    if account.is_operator or not isinstance(channel, Mail):
        return True
    return app.delivery.endpoints.has_confirmed(channel.to, account.owns)


def _mail_code(app: App, account: Account, endpoint: Endpoint) -> None:
    """Mail a code to the address of an endpoint; raises Problem, QuotaExceeded."""
    assert isinstance(endpoint.channel, Mail)
    outbox, to = app.delivery, endpoint.channel.to
    user = owner_number(endpoint.subscription)
    key = user, to.casefold()
    with app.accounts.limits.confirming.hold(account.number):
        if outbox.codes.consume(key, CODES) is not None:
            raise QuotaExceeded(f"you have had {CODES} codes mailed to that address today")
        mailed = False
        try:
            if outbox.count_mail(user) is not None:
                mails = counted(account.quota.mails_a_day or 0, "mail")
                raise QuotaExceeded(f"you have had {mails} today")
            mailed = outbox.mail_code(endpoint.id, to)
        finally:
            if not mailed:
                outbox.codes.refund(key)
        if not mailed:
            raise Problem(
                "mail_server",
                "the mail server does not take a mail for that address now",
                hint="is it right? try again later",
                headers={"Retry-After": "60"},
            )


def _wrong(field: str, detail: str) -> Problem:
    return Problem("invalid_request", f"{field}: {detail}")


def _same(endpoint: Endpoint) -> Endpoint:
    return endpoint


def _shown(app: App, endpoint: Endpoint) -> ShownEndpoint:
    own = {
        "kind": endpoint.channel.kind,
        "to": asdict(endpoint.channel),
        "next_try": endpoint.next_try or None,
        "letters": len(app.delivery.endpoints.letters(endpoint.id)),
    }
    return ShownEndpoint.model_validate(asdict(endpoint) | own)


mail_router = APIRouter(prefix=UNSUBSCRIBE.rstrip("/"), tags=["deliveries"])

NOTE = "the reader asked for no more mails"

Token = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The token of the mail.")]


@mail_router.head("/{id}/{token}", include_in_schema=False)  # programs that test addresses
@mail_router.get("/{id}/{token}", summary="Look at the end of mails", response_class=HTMLResponse)
def look(id: Id, token: Token, app: TheApp) -> HTMLResponse:
    """Shows a page with a button that ends the mails."""
    endpoint = _mailed(app, id, token)
    return _page(
        f"Mails about {escape(owner_name(endpoint.subscription))}",
        '<form method="post"><button type="submit">No more of these mails</button></form>',
    )


@mail_router.post("/{id}/{token}", summary="End mails", response_class=HTMLResponse)
def unsubscribe(id: Id, token: Token, app: TheApp) -> HTMLResponse:
    """Disables an endpoint of the operator; that of a user needs another code from the reader."""
    _mailed(app, id, token)
    app.delivery.endpoints.change(id, _ended)
    return _page("No more of these mails", "<p>You get no more of these mails.</p>")


def _ended(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that sends no mails; a user's needs a confirmation by its reader again."""
    if owner_number(endpoint.subscription):
        return replace(endpoint.stopped(NOTE), state="unconfirmed")
    return endpoint.stopped(NOTE)


def _mailed(app: App, id: str, token: str) -> Endpoint:
    """Return the endpoint of an address `/unsubscribe/ID/TOKEN`; raises Problem 404."""
    endpoint = app.delivery.mailed(id, token)
    if endpoint is None:
        raise Problem("unknown_address", "this is no address of a mail, or its endpoint is gone")
    return endpoint


def _page(title: str, body: str) -> HTMLResponse:
    return HTMLResponse(
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><h1>{title}</h1>{body}</body></html>\n"
    )
