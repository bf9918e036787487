"""WebSub callbacks: `/websub/SECRET`, to which hubs confirm leases and send what is new.

They are asked without a token: who knows the address is the hub.  Content must be signed; it makes
the poll of the feed due.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from feeds.http.websub import is_signed
from xscl.limiter import TooManyConcurrent
from xscl.polling.feed_repository import HubLease
from xscl.polling.hubs import confirm, delivered, deny
from xscl.polling.websub_callbacks import PATH, TOKEN, HubCallbacks, digest
from xscl.service.app import App
from xscl.service.dependencies import TheApp
from xscl.service.problems import Problem, not_found

router = APIRouter(prefix=PATH.rstrip("/"), tags=["feeds"])

REQUESTS = 60
"""Requests to one callback in a minute."""

AT_ONCE = 4
"""Bodies that are read at the same time."""

PATIENCE = 30.0
"""Seconds for which content may wait to be read."""

_DAY = 24 * 3_600

Secret = Annotated[str, Path(max_length=100, description="The secret part of the callback.")]
Text = Annotated[str, Query(max_length=4_000)]


@router.get("/{secret}", summary="Confirm or end a lease", response_class=Response)
async def answer_hub(
    secret: Secret,
    app: TheApp,
    mode: Annotated[Text, Query(alias="hub.mode")] = "",
    topic: Annotated[Text, Query(alias="hub.topic")] = "",
    challenge: Annotated[Text, Query(alias="hub.challenge")] = "",
    seconds: Annotated[int, Query(alias="hub.lease_seconds", ge=1, le=2**31)] = _DAY,
    reason: Annotated[Text, Query(alias="hub.reason")] = "",
) -> Response:
    """Hubs ask whether a subscription is intended, or tell that they refuse it."""
    lease = await _lease(app, secret)
    if topic != lease.topic or mode not in ("subscribe", "denied"):
        raise not_found("subscription", topic[:200])
    await run_in_threadpool(_note, app, lease, mode, seconds, reason)
    return Response(challenge if mode == "subscribe" else "", media_type="text/plain")


@router.post("/{secret}", summary="Send what is new in a feed", status_code=HTTPStatus.ACCEPTED)
async def deliver(secret: Secret, app: TheApp, request: Request) -> Response:
    """Content of the topic, signed by `X-Hub-Signature`; the feed is polled then."""
    lease = await _lease(app, secret)
    now = app.clock.now()
    if lease.until is None or lease.until <= now:
        raise _unknown()
    full = TooManyConcurrent("too many hubs send at the same time", hint="send it again later")
    async with app.limits.deliveries.hold_async(None, AT_ONCE, full, PATIENCE):
        signature = request.headers.get("x-hub-signature", "")
        if not is_signed(_callbacks(app).secret(secret), signature, await request.body()):
            message = "the content is not signed with the secret of the callback"
            raise Problem("push_signature", message)
    await run_in_threadpool(_deliver, app, lease, now)
    return Response(status_code=HTTPStatus.ACCEPTED)


def _deliver(app: App, lease: HubLease, now: int) -> None:
    with app.feeds() as feeds:
        delivered(feeds, lease, now)


async def _lease(app: App, secret: str) -> HubLease:
    """Return the lease of a callback, and count the request; raises Problem, RateExceeded."""
    if not TOKEN.fullmatch(secret):
        raise Problem("unknown_address", "this is no address of a callback")
    if app.pushes is None:
        raise _unknown()
    lease = await run_in_threadpool(_found, app, digest(secret))
    if lease is None:
        raise _unknown()
    app.limits.callbacks.consume(lease.key, REQUESTS)
    return lease


def _found(app: App, callback: str) -> HubLease | None:
    with app.feeds() as feeds:
        return feeds.lease_of(callback)


def _note(app: App, lease: HubLease, mode: str, seconds: int, reason: str) -> None:
    now = app.clock.now()
    with app.feeds() as feeds:
        if mode == "denied":
            deny(feeds, lease, reason, now)
        else:
            confirm(feeds, lease, seconds, now)


def _callbacks(app: App) -> HubCallbacks:
    if app.pushes is None:
        raise _unknown()
    return app.pushes


def _unknown() -> Problem:
    """Return problem 410, at which a hub ends what it sends to the address."""
    return Problem("unknown_callback", "nothing is expected at this address")
