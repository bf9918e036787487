"""WebSub callbacks: `/websub/SECRET`, to which hubs confirm leases and send what is new.

They are asked without a token: who knows the address is the hub.  Content must be signed, and is
acknowledged when it is durable; a hub sends again what was not.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from feeds.errors import FeedError
from feeds.formats.items import FeedItem
from feeds.formats.parse import parse_feed
from feeds.http.websub import is_signed
from xscl.errors import XsclError
from xscl.limiter import TooManyConcurrent
from xscl.polling.feed import public
from xscl.polling.hub_lease import HubLease
from xscl.polling.hubs import confirm, deny
from xscl.polling.websub_callbacks import PATH, TOKEN, Push, Pushes, digest
from xscl.service.dependencies import TheApp
from xscl.service.installation import Installation
from xscl.service.problems import Problem, not_found

router = APIRouter(prefix=PATH.rstrip("/"), tags=["feeds"])

REQUESTS = 60
"""Requests to one callback in a minute."""

AT_ONCE = 4
"""Bodies that are read and parsed at the same time."""

PATIENCE = 30.0
"""Seconds for which content may wait to become durable."""

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
    """Content of the topic, signed by `X-Hub-Signature`; 202 when it is durable."""
    lease = await _lease(app, secret)
    if lease.until is None or lease.until <= app.clock.now():
        raise _unknown()
    full = TooManyConcurrent("too many hubs send at the same time", hint="send it again later")
    async with app.deliveries.hold_async(None, AT_ONCE, full, PATIENCE):
        body = await request.body()
        signature = request.headers.get("x-hub-signature", "")
        kind = request.headers.get("content-type")
        items = await run_in_threadpool(_items, app, lease, secret, signature, body, kind)
        push = Push(lease.key, items, app.clock.now())
        _pushes(app).put(push)
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(asyncio.wrap_future(push.done))
        except XsclError:
            raise
        except Exception:
            raise Problem("spool", "it cannot be kept now", headers={"Retry-After": "60"}) from None
    return Response(status_code=HTTPStatus.ACCEPTED)


async def _lease(app: Installation, secret: str) -> HubLease:
    """Return the lease of a callback, and count the request; raises Problem, RateExceeded."""
    if not TOKEN.fullmatch(secret):
        raise Problem("unknown_address", "this is no address of a callback")
    if app.pushes is None:
        raise _unknown()
    lease = await run_in_threadpool(_found, app, digest(secret))
    if lease is None:
        raise _unknown()
    app.callbacks.consume(lease.key, REQUESTS)
    return lease


def _found(app: Installation, callback: str) -> HubLease | None:
    with app.feeds_lock:
        return app.feeds.lease_of(callback)


def _note(app: Installation, lease: HubLease, mode: str, seconds: int, reason: str) -> None:
    now = app.clock.now()
    with app.feeds_lock:
        if mode == "denied":
            deny(app.feeds, lease, reason, now)
        else:
            confirm(app.feeds, lease, seconds, now)


def _items(
    app: Installation,
    lease: HubLease,
    secret: str,
    signature: str,
    body: bytes,
    content_type: str | None,
) -> tuple[FeedItem, ...] | None:
    """Return the items of signed content, None if it is no feed; raises Problem 403."""
    if not is_signed(_pushes(app).secret(secret), signature, body):
        raise Problem("push_signature", "the content is not signed with the secret of the callback")
    with app.feeds_lock:
        found = app.feeds.among([lease.key])
    if not found:
        raise _unknown()
    url = public(found[0].validated_by or found[0].url)  # links are relative to what polls read
    try:
        return parse_feed(body, url=url, content_type=content_type, seen_at=app.clock.now()).items
    except FeedError:
        return None


def _pushes(app: Installation) -> Pushes:
    if app.pushes is None:
        raise _unknown()
    return app.pushes


def _unknown() -> Problem:
    """Return problem 410, at which a hub ends what it sends to the address."""
    return Problem("unknown_callback", "nothing is expected at this address")
