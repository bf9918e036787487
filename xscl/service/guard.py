"""Middleware that checks every request before routing and adds security headers to responses.

- *Host*: requests for unknown or ambiguous host names are refused, against DNS rebinding.
- *Origin*: unsafe methods from pages of other sites are refused, against request forgery (CSRF).
- *Tokens in URLs* are refused, because URLs end up in logs and histories.
- *Connections* of a client are limited (`connection_limit`); behind a trusted proxy its requests in
  progress are limited instead.
- *Bodies* have a size limit and a timeout.  The limit depends on the path, as a body is read before
  its route runs.  Without authentication it is small.
- *Responses* get `nosniff`, `no-store` and headers against framing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xscl.errors import Stopping
from xscl.polling.hubs import PATH, digest
from xscl.service.app import App, ServiceSettings
from xscl.service.client_address import (
    client_of,
    is_trusted,
    literal_address,
    peer_of,
    without_port,
)
from xscl.service.connection_limit import attach
from xscl.service.dependencies import may_ask
from xscl.service.problems import Problem, answer, of_error
from xscl.service.tokens import FORM

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+,;=-]+)(:[0-9]*)?", re.ASCII)
"""The syntax of a Host header (RFC 9110, 7.2)."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LONGEST = 16_384
"""Maximum size in bytes of a path with its query."""

STRANGER = 16_384
"""Maximum size in bytes of a body without authentication."""

LINGER = 5.0
"""Maximum time in seconds for reading and dropping the rest of a body over its limit."""

_TOO_LARGE = "body_too_large"

_BULK = frozenset({"/v1/subscriptions:import", "/v1/feeds:import", "/v1/documents:batch"})
_LARGE = ("/v1/documents/", "/feeds/import")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of every response unless its route sets them."""

_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """The middleware around all routes."""

    def __init__(self, app: ASGIApp, service: App) -> None:
        self._app = app
        self._service = service
        self._settings = service.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def dressed(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                there = {name for name, _ in message["headers"]}
                more = [one for one in _HEADERS if one[0] not in there]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        most = self._most(scope)
        body = _Body(receive, most, self._settings.patience)
        try:
            self._check(scope, most)
            with self._counted(scope):
                await self._app(scope, body, dressed)
        except Problem as problem:
            if began:
                raise
            if problem.code == _TOO_LARGE:
                await _discard(receive, most)
            await answer(problem)(scope, receive, dressed)
        except asyncio.CancelledError:  # the grace period of the shutdown is over
            if not self._service.delivery.is_ending:
                raise
            if not began:
                await answer(of_error(Stopping()))(scope, receive, dressed)

    @contextmanager
    def _counted(self, scope: Scope) -> Iterator[None]:
        """Count a request that came through a trusted proxy while it runs; raises Problem 429."""
        proxies = self._settings.trusted_proxies
        if not is_trusted(peer_of(scope), proxies):
            yield  # the server counts its connection
            return
        place = self._service.accounts.connections.open(client_of(scope, proxies))
        if place is None:
            raise Problem(
                "too_many_connections",
                "your address has as many connections as it may",
                headers={"Retry-After": "1"},
            )
        attach(scope, place)
        try:
            yield
        finally:
            place.close()

    def _most(self, scope: Scope) -> int:
        """Return the body size limit of a request in bytes."""
        path, settings = scope["path"], self._settings
        callbacks = self._service.feeds.callbacks
        if callbacks is not None and scope["method"] == "POST" and path.startswith(PATH):
            is_known = digest(path.removeprefix(PATH)) in callbacks.known
            return self._service.feeds.fetching.largest if is_known else STRANGER
        if scope["method"] in SAFE or not may_ask(HTTPConnection(scope), self._service):
            return STRANGER
        if path in _BULK:
            return settings.bulk
        return settings.body if path.startswith(_LARGE) else settings.form

    def _check(self, scope: Scope, most: int) -> None:
        headers = Headers(scope=scope)
        _check_host(headers, self._settings)
        if scope["method"] not in SAFE:
            _check_origin(headers)
        query = scope["query_string"]
        if len(scope["path"]) + len(query) > LONGEST:
            raise Problem("address_too_long", "the address is too long")
        if FORM.search(unquote(query.decode("latin-1"))) or FORM.search(scope["path"]):
            raise Problem(
                "token_in_address",
                "a token must not stand in an address, which ends up in logs",
                hint="send it as 'Authorization: Bearer TOKEN', and revoke this one",
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise too_large(most)


def too_large(most: int) -> Problem:
    """Return problem 413 for a body over its limit of `most` bytes."""
    return Problem(
        _TOO_LARGE,
        f"the body of the request has more than {most:,} bytes",
        headers={"Connection": "close"},
    )


async def _discard(receive: Receive, most: int) -> None:
    """Read and drop the rest of a body over its limit `most`, unless its sender is not known.

    A connection that is closed while its client sends is reset, and the answer may be lost.
    """
    if most != STRANGER:
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await receive()).get("more_body"):
                    continue


class _Body:
    """An ASGI `receive` that enforces a size limit and a timeout."""

    def __init__(self, receive: Receive, most: int, patience: float) -> None:
        self._receive = receive
        self._most = most
        self._patience = patience
        self._seen = 0
        self._whole = False
        self._until: float | None = None

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()  # only `http.disconnect` can follow
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._patience
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Problem(
                "body_too_slow",
                f"the body did not come within {self._patience:.0f} s",
                headers={"Connection": "close"},
            ) from None
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._seen > self._most:
                if not self._whole:
                    await _discard(self._receive, self._most)
                raise too_large(self._most)
        return message


def _check_host(headers: Headers, settings: ServiceSettings) -> None:
    hosts = headers.getlist("host")
    if len(hosts) > 1 or (hosts and hosts[0] and _HOST.fullmatch(hosts[0]) is None):
        raise Problem(
            "bad_host", "the header Host is not one name or address with an optional port"
        )
    name = without_port(hosts[0] if hosts else "").rstrip(".").lower()
    if name == "localhost" or name in settings.names or name == settings.host:
        return
    address = literal_address(name)
    # A literal address is not resolved, so DNS rebinding cannot affect it.
    if address is None or (settings.is_loopback and not address.is_loopback):
        raise Problem(
            "unknown_host",
            "the request is for another host",
            hint="the operator names further hosts with 'xscl serve --name HOST'",
        )


def _check_origin(headers: Headers) -> None:
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    foreign = site not in ("none", "same-origin")
    if origin is not None:
        _, _, named = origin.partition("://")
        foreign = foreign or named != headers.get("host", "")
    if foreign:
        raise Problem("cross_site", "the request comes from a page of another site")
