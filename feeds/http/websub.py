"""WebSub, the subscriber's part (W3C Recommendation): requests to a hub, and signatures.

A hub is an address that a feed names.  So it passes the checks of every address that a feed names
(`addresses`), at each redirect, and no answer of it is shown but its status.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from urllib.parse import urlencode

from feeds.http.addresses import RefusedAddress, check
from feeds.http.body import ReadAborted
from feeds.http.connection import ask
from feeds.http.domains import domain_of
from feeds.http.fetch import DomainBlocked, FetchSettings, redirect_of, user_agent

REDIRECTS = 3
"""Redirects of a request to a hub that are followed: 307 and 308 only, as the method is POST."""

METHODS = ("sha1", "sha256", "sha384", "sha512")
"""The hashes of `X-Hub-Signature` that the Recommendation lists."""


async def post(hub: str, form: Mapping[str, str], settings: FetchSettings) -> str | None:
    """Send a form to a hub; return what went wrong, None if the hub has accepted it."""
    try:
        async with asyncio.timeout(settings.seconds):
            return await _post(hub, urlencode(form).encode(), settings)
    except TimeoutError:
        return f"the hub did not answer within {settings.seconds:g} s"
    except ReadAborted as stop:
        return f"the hub: {stop.message}"
    except DomainBlocked:
        return "the hub is not to be asked now"


async def _post(hub: str, body: bytes, settings: FetchSettings) -> str | None:
    url = hub
    for _ in range(REDIRECTS + 1):
        target = await check(url, settings.allow_addresses, settings.resolve)
        if isinstance(target, RefusedAddress):
            return f"the hub: {target.message}"
        headers = [
            (b"Host", target.url.netloc),
            (b"User-Agent", user_agent(settings.contact).encode()),
            (b"Content-Type", b"application/x-www-form-urlencoded"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Connection", b"close"),
        ]
        async with settings.turn(domain_of(url)):
            answer = await ask(target, "POST", headers, content=body, seconds=settings.seconds)
            await answer.aclose()
        if 200 <= answer.status_code < 300:
            return None
        if answer.status_code not in (307, 308):
            return f"the hub answered {answer.status_code}"
        url = redirect_of(answer, url) or url
    return f"the hub answered with more than {REDIRECTS} redirects"


def is_signed(secret: str, header: str, body: bytes) -> bool:
    """Compare the header `X-Hub-Signature` with the signature of a body, in constant time."""
    method, _, given = header.strip().partition("=")
    if method not in METHODS or not given.isascii():
        return False
    expected = hmac.new(secret.encode(), body, method).hexdigest()
    return hmac.compare_digest(expected, given.lower())
