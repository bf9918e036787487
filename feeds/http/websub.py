"""WebSub, the subscriber's part (W3C Recommendation): requests to a hub, and signatures.

A hub is an address that a feed names.  So it passes the checks of every address that a feed names
(`addresses`), at each redirect, and no answer of it is shown but its status.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from urllib.parse import urlencode

from feeds.http.addresses import RequestFailed, check
from feeds.http.connection import DomainBlocked, RequestSettings, ask
from feeds.http.domains import domain_of
from feeds.http.fetch import redirect_of

REDIRECTS = 3
"""Redirects of a request to a hub that are followed: 307 and 308 only, as the method is POST."""

_FORM = (b"Content-Type", b"application/x-www-form-urlencoded")

METHODS = ("sha1", "sha256", "sha384", "sha512")
"""The hashes of `X-Hub-Signature` that the Recommendation lists."""


async def post(hub: str, form: Mapping[str, str], settings: RequestSettings) -> str | None:
    """Send a form to a hub; return what went wrong, None if the hub has accepted it."""
    try:
        async with asyncio.timeout(settings.seconds):
            return await _post(hub, urlencode(form).encode(), settings)
    except TimeoutError:
        return f"the hub did not answer within {settings.seconds:g} s"
    except RequestFailed as failure:
        return f"the hub: {failure.message}"
    except DomainBlocked:
        return "the hub is not to be asked now"


async def _post(hub: str, body: bytes, settings: RequestSettings) -> str | None:
    url = hub
    for _ in range(REDIRECTS + 1):
        target = await check(url, settings.allow_addresses, settings.resolve)
        async with settings.turn(domain_of(url)):
            answer = await ask(target, "POST", settings, [_FORM], body)
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
