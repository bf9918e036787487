"""WebSub callbacks: `/websub/SECRET`, at which hubs confirm leases and send content of feeds.

Requests need no token, because only the hub knows the address.  Content must be signed.  It is not
read as items: it makes the next poll of the feed due.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from feeds.http.websub import is_signed
from xscl.limiter import TooManyConcurrent
from xscl.polling.feed_repository import FeedRepository, HubLease
from xscl.polling.hubs import PATH, TOKEN, HubCallbacks, confirm, delivered, deny, digest
from xscl.service.app import App
from xscl.service.dependencies import TheApp
from xscl.service.problems import Problem, not_found

router = APIRouter(prefix=PATH.rstrip("/"), tags=["feeds"])

T = TypeVar("T")

REQUESTS = 60
"""Maximum number of requests to one callback in a minute."""

AT_ONCE = 4
"""Maximum number of bodies that are read at the same time."""

PATIENCE = 30.0
"""Maximum time in seconds for which a request with content waits for one of `AT_ONCE` slots."""

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
    """Confirms a subscription to a hub, which asks if it is intended, or notes a hub's refusal."""
    _, lease = await _lease(app, secret)
    if topic != lease.topic or mode not in ("subscribe", "denied"):
        raise not_found("subscription", topic[:200])
    now = app.clock.now()
    if mode == "denied":
        await _with_feeds(app, lambda feeds: deny(feeds, lease, reason, now))
        return Response("", media_type="text/plain")
    await _with_feeds(app, lambda feeds: confirm(feeds, lease, seconds, now))
    return Response(challenge, media_type="text/plain")


@router.post("/{secret}", summary="Send what is new in a feed", status_code=HTTPStatus.ACCEPTED)
async def deliver(secret: Secret, app: TheApp, request: Request) -> Response:
    """Takes content of the topic, signed in `X-Hub-Signature`; the feed is then polled."""
    callbacks, lease = await _lease(app, secret)
    now = app.clock.now()
    if lease.until is None or lease.until <= now:
        raise _unknown()
    full = TooManyConcurrent("too many hubs send at the same time", hint="send it again later")
    async with app.accounts.limits.deliveries.hold_async(None, AT_ONCE, full, PATIENCE):
        signature = request.headers.get("x-hub-signature", "")
        if not is_signed(callbacks.secret(secret), signature, await request.body()):
            message = "the content is not signed with the secret of the callback"
            raise Problem("push_signature", message)
    await _with_feeds(app, lambda feeds: delivered(feeds, lease, now))
    return Response(status_code=HTTPStatus.ACCEPTED)


async def _lease(app: App, secret: str) -> tuple[HubCallbacks, HubLease]:
    """Return the lease of a callback, and count the request; raises Problem, RateExceeded."""
    if not TOKEN.fullmatch(secret):
        raise Problem("unknown_address", "this is no address of a callback")
    if app.feeds.callbacks is None:
        raise _unknown()
    lease = await _with_feeds(app, lambda feeds: feeds.lease_of(digest(secret)))
    if lease is None:
        raise _unknown()
    app.accounts.limits.callbacks.consume(lease.key, REQUESTS)
    return app.feeds.callbacks, lease


async def _with_feeds(app: App, work: Callable[[FeedRepository], T]) -> T:
    """Return the result of `work` with the repository of feeds, called in a thread."""

    def run() -> T:
        with app.feeds() as feeds:
            return work(feeds)

    return await run_in_threadpool(run)


def _unknown() -> Problem:
    """Return problem 410, after which a hub sends nothing more to the address."""
    return Problem("unknown_callback", "nothing is expected at this address")
