"""Webhooks: a POST for each message, signed by the Standard Webhooks scheme.

The address is checked anew for each message, as that of a feed is, and the connection goes to a
checked address; redirects are not followed, so the signature goes nowhere else.  A 2xx answer
within `SECONDS` means taken.  Of the body at most 64 kB are read and none of it is kept: it could
be anything, also what an inner host says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from feeds.addresses import Refused, Resolve, check, resolve
from feeds.body import Stop
from feeds.connection import ask
from feeds.fetch import CONTACT, retry_after, user_agent
from feeds.times import SECOND
from xscl.delivery.endpoint import Delivered, Failed, Gone, Hidden, Outcome
from xscl.delivery.message import Message
from xscl.delivery.signature import headers
from xscl.followed import ticks

SECONDS = 30.0
"""How long an endpoint may take to answer."""
LARGEST = 65_536
"""Bytes of an answer that are read, so that the sender can finish it."""


@dataclass(frozen=True, slots=True)
class Posting:
    """How to post; `allow_addresses` lists exact `host:port` that need not be public.

    `contact` is where receivers reach whoever posts.  `clock` tells the time in ticks; signatures
    have it.
    """

    allow_addresses: frozenset[str] = frozenset()
    seconds: float = SECONDS
    resolve: Resolve = resolve
    contact: str = CONTACT
    clock: Callable[[], int] = ticks


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Posts messages to one address; `hidden` gives it, and what signs, for a time in ticks."""

    hidden: Callable[[int], Hidden]
    posting: Posting
    most: int = 1
    every: float = 0.0

    @property
    def host(self) -> str:
        return urlsplit(self.hidden(self.posting.clock()).url).netloc.rpartition("@")[2].lower()

    async def send(self, messages: Sequence[Message]) -> Outcome:
        """Post messages until one is not taken."""
        for message in messages:
            outcome = await self._post(message)
            if not isinstance(outcome, Delivered):
                return outcome
        return Delivered()

    async def _post(self, message: Message) -> Outcome:
        hidden = self.hidden(self.posting.clock())
        if not hidden.secrets:  # the store was put back from a backup, which has no secrets
            return Failed("the secret of this endpoint is not on this machine: rotate it")
        if not hidden.url:
            return Failed("the address has a secret that is not on this machine: give it again")
        try:
            async with asyncio.timeout(self.posting.seconds):
                return await self._ask(hidden, message)
        except TimeoutError:
            return Failed(f"no answer within {self.posting.seconds:g} s")
        except Stop as stop:
            return Failed(stop.message)

    async def _ask(self, hidden: Hidden, message: Message) -> Outcome:
        target = await check(hidden.url, self.posting.allow_addresses, self.posting.resolve)
        if isinstance(target, Refused):
            return Failed(target.message)
        body = message.json()
        now = self.posting.clock()
        sent = {
            "Host": target.url.netloc.decode("ascii"),
            "User-Agent": user_agent(self.posting.contact),
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Accept-Encoding": "identity",
            "Connection": "close",
            **headers(hidden.secrets, message.id, now // SECOND, body),
        }
        encoded = [(name.encode("ascii"), value.encode("ascii")) for name, value in sent.items()]
        answer = await ask(target, "POST", encoded, content=body, seconds=self.posting.seconds)
        try:
            await _drain(answer)
        finally:
            await answer.aclose()
        return outcome_of(answer, now)


async def _drain(answer: httpx.Response) -> None:
    """Read what there is, up to a limit; that the rest does not come is no failure."""
    size = 0
    try:
        async for piece in answer.aiter_raw():
            size += len(piece)
            if size >= LARGEST:
                return
    except (httpx.HTTPError, OSError):
        return  # its status has come, which is the answer


def outcome_of(answer: httpx.Response, now: int) -> Outcome:
    """Return what the head of an answer means."""
    status = answer.status_code
    if 200 <= status < 300:
        return Delivered()
    if status == 410:
        return Gone("the receiver answered 410: it wants no messages any more")
    if 300 <= status < 400:
        return Failed(f"the receiver answered {status}: redirects are not followed", answered=True)
    wait = retry_after(answer, now)
    # of a receiver that is overloaded, the next message is not wanted either
    answered = status not in (408, 429, 502, 503, 504)
    return Failed(
        f"the receiver answered {status}", answered, None if wait is None else float(wait)
    )
