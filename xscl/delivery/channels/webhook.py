"""The webhook channels: a POST for each message, as the channel writes it (`endpoint.Webhook`).

Webhooks of programs are signed by the Standard Webhooks scheme.

The host is resolved and checked for each message, and the connection goes to the checked address
(against SSRF and DNS rebinding).  Redirects are not followed, so that signatures reach no other
host.  A 2xx response within `SECONDS` means delivered.  At most 64 kB of the body are read and none
of it is stored, as it could come from an internal host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from feeds.formats.times import SECOND
from feeds.http.addresses import RefusedAddress, Resolve, check, resolve
from feeds.http.body import ReadAborted, read_body
from feeds.http.connection import ask
from feeds.http.fetch import CONTACT, retry_after, user_agent
from xscl.delivery.channels.signature import headers
from xscl.delivery.endpoint import (
    NO_ADDRESS,
    NO_SECRET,
    Delivered,
    EndpointSecrets,
    Later,
    ReceiverGone,
    SendFailed,
    SendOutcome,
    Webhook,
)
from xscl.delivery.message import Message
from xscl.polling.feed_repository import ticks

SECONDS = 30.0
"""Timeout in seconds of a request."""
LARGEST = 65_536
"""Bytes of a response body that are read and discarded."""


@dataclass(frozen=True, slots=True)
class Posting:
    """Settings of webhooks; `allow_addresses` lists `host:port` that may be private.

    `contact` is the contact address in the User-Agent.  `clock` returns the time in ticks, which
    signatures contain.
    """

    allow_addresses: frozenset[str] = frozenset()
    seconds: float = SECONDS
    resolve: Resolve = resolve
    contact: str = CONTACT
    clock: Callable[[], int] = ticks


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Posts messages to one address; `hidden` returns it with its secrets at a time in ticks."""

    channel: Webhook
    hidden: Callable[[int], EndpointSecrets]
    posting: Posting
    most: int = 1
    every: float = 0.0

    @property
    def host(self) -> str:
        return urlsplit(self.hidden(self.posting.clock()).url).netloc.rpartition("@")[2].lower()

    async def send(self, messages: Sequence[Message]) -> SendOutcome:
        """Post messages until one is not accepted."""
        for message in messages:
            outcome = await self._post(message)
            if not isinstance(outcome, Delivered):
                return outcome
        return Delivered()

    async def _post(self, message: Message) -> SendOutcome:
        hidden = self.hidden(self.posting.clock())
        has_secret = bool(hidden.secrets) or not self.channel.is_signed
        if not has_secret or not hidden.url:  # lost since the endpoint was looked at
            return Later(0.0, NO_ADDRESS if has_secret else NO_SECRET)
        try:
            async with asyncio.timeout(self.posting.seconds):
                return await self._ask(hidden, message)
        except TimeoutError:
            return SendFailed(f"no answer within {self.posting.seconds:g} s")
        except ReadAborted as stop:
            return SendFailed(stop.message)

    async def _ask(self, hidden: EndpointSecrets, message: Message) -> SendOutcome:
        target = await check(hidden.url, self.posting.allow_addresses, self.posting.resolve)
        if isinstance(target, RefusedAddress):
            return SendFailed(target.message)
        body, own = self.channel.posted(message)
        now = self.posting.clock()
        sent = {
            "Host": target.url.netloc.decode("ascii"),
            "User-Agent": user_agent(self.posting.contact),
            **own,
            "Content-Length": str(len(body)),
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        if self.channel.is_signed:
            sent |= headers(hidden.secrets, message.id, now // SECOND, body)
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in sent.items()]
        answer = await ask(target, "POST", encoded, content=body, seconds=self.posting.seconds)
        try:
            with suppress(ReadAborted):  # the status decides the outcome, and it has arrived
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
