"""The webhook channels: a POST for each message, as the channel writes it (`endpoint.Webhook`).

Webhooks of programs are signed by the Standard Webhooks scheme.

The host is resolved and checked for each message, and the connection goes to the checked address
(against SSRF and DNS rebinding).  Redirects are not followed, so that signatures reach no other
host.  A 2xx response within 30 s means delivered.  At most 64 kB of the body are read and none
of it is stored, as it could come from an internal host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import httpx

from feeds.formats.times import SECOND
from feeds.http.addresses import RequestFailed, check
from feeds.http.body import read_body
from feeds.http.connection import RequestSettings, ask
from feeds.http.fetch import retry_after
from xscl.delivery.channels.signature import headers
from xscl.delivery.endpoint import (
    NO_ADDRESS,
    NO_SECRET,
    Delivered,
    EndpointSecrets,
    Later,
    ReceiverGone,
    Sender,
    SendFailed,
    SendOutcome,
    Webhook,
)
from xscl.delivery.message import Message
from xscl.polling.feed_repository import ticks

LARGEST = 65_536
"""Most bytes of a response body that are read and discarded."""


def webhook_sender(
    channel: Webhook,
    hidden: Callable[[int], EndpointSecrets],
    settings: RequestSettings,
    clock: Callable[[], int] = ticks,
) -> Sender:
    """Return the sender to a webhook; `hidden` returns its address and secrets at a time in ticks.

    `clock` returns the time in ticks, which signatures contain.
    """
    host = urlsplit(hidden(clock()).url).netloc.rpartition("@")[2].lower()

    async def send(messages: Sequence[Message]) -> SendOutcome:
        (message,), now = messages, clock()
        try:
            async with asyncio.timeout(settings.seconds):
                return await _post(channel, hidden(now), settings, message, now)
        except TimeoutError:
            return SendFailed(f"no answer within {settings.seconds:g} s")
        except RequestFailed as failure:
            return SendFailed(failure.message)

    return Sender(send, host)


async def _post(
    channel: Webhook, hidden: EndpointSecrets, settings: RequestSettings, message: Message, now: int
) -> SendOutcome:
    has_secret = bool(hidden.secrets) or not channel.is_signed
    if not has_secret or not hidden.url:  # lost since the endpoint was found complete
        return Later(0.0, NO_ADDRESS if has_secret else NO_SECRET)
    target = await check(hidden.url, settings.allow_addresses, settings.resolve)
    body, sent = channel.posted(message)
    sent = {**sent, "Accept-Encoding": "identity"}
    if channel.is_signed:
        sent |= headers(hidden.secrets, message.id, now // SECOND, body)
    encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in sent.items()]
    answer = await ask(target, "POST", settings, encoded, body)
    try:
        with suppress(RequestFailed):  # the status decides the outcome, and it has arrived
            await read_body(answer, LARGEST)
    finally:
        await answer.aclose()
    return outcome_of(answer, now)


def outcome_of(answer: httpx.Response, now: int) -> SendOutcome:
    """Map the status and headers of a response to an outcome."""
    status = answer.status_code
    if 200 <= status < 300:
        return Delivered()
    if status == 410:
        return ReceiverGone("the receiver answered 410: it wants no messages any more")
    if 300 <= status < 400:
        return SendFailed(f"the receiver answered {status}: redirects are not followed")
    wait = retry_after(answer, now)
    return SendFailed(f"the receiver answered {status}", None if wait is None else float(wait))
