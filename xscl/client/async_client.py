"""The client for asyncio: the methods of `Client`, to be awaited or iterated with `async for`."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator
from typing import Any, Self, TypeVar

import httpx

from xscl.client.calls import Call, Listing
from xscl.client.events import AGAIN, CONNECT, EventReader, LiveEvent
from xscl.client.failures import failure, reading, unreachable
from xscl.client.methods import AsyncMethods

T = TypeVar("T")


PATIENCE = 600.0
"""Seconds until an answer has to begin; a trial or a backup takes long."""
TRIES = 60
"""Attempts at a busy service, a second or more apart."""
LONGEST_WAIT = 10
"""The most seconds in `Retry-After` for which a client waits and tries again."""

_LATER = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


def settings(address: str, token: str | None, patience: float) -> dict[str, Any]:
    """Return the settings of a connection to the service at an address.

    Proxies and passwords of the environment are not used: the token goes to this address only.
    """
    return {
        "base_url": address,
        "headers": {} if token is None else {"Authorization": f"Bearer {token}"},
        "timeout": httpx.Timeout(patience, connect=CONNECT),
        "trust_env": False,
        "verify": _trusted(address.startswith("https:")),
    }


@functools.cache
def _trusted(encrypted: bool) -> ssl.SSLContext:
    """Return the certificates to trust: none for plain HTTP, as loading them takes 15 ms."""
    if encrypted:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def base_of(address: str) -> str:
    """Return the address of a service without `/v1`; raises ValueError for no HTTP address."""
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{address!r} is no address of a service, such as http://127.0.0.1:8425")
    return address.rstrip("/").removesuffix("/v1")


def wait_of(answer: httpx.Response) -> int | None:
    """Return the seconds after which to send a request again, None to take the answer."""
    wait = answer.headers.get("retry-after", "")
    if answer.status_code not in _LATER or not wait.isdecimal() or int(wait) > LONGEST_WAIT:
        return None
    return int(wait)


class AsyncClient(AsyncMethods):
    """Connection to the service at an address; a token authenticates the requests.

    A busy service is asked again after the time that it names.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        patience: float = PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Make a client; it connects when it is used.

        `patience` is the number of seconds until an answer has to begin.  `transport` takes the
        requests in place of connections.
        """
        self.address = base_of(address)
        self._http = httpx.AsyncClient(
            **settings(self.address, token, patience), transport=transport
        )

    def __repr__(self) -> str:
        return f"<xscl.client.AsyncClient {self.address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def send(self, call: Call[T]) -> T:
        """Send a call, and return the value of its answer."""
        answer = await self.ask(call.method, call.path, source=call.source, **call.request)
        with reading(answer):
            return call.value(answer)

    async def items(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Yield the items of a list."""
        parameters = listing.parameters
        while True:
            answer = await self.ask("GET", listing.path, params=parameters)
            with reading(answer):
                page = answer.json()
                found, following = listing.items(page), listing.following(page)
            for item in found:
                yield item
            if following is None:
                return
            parameters = following

    async def ask(
        self, method: str, path: str, *, source: str | None = None, **request: Any
    ) -> httpx.Response:
        """Return a successful answer.

        Raises the error of the problem document, at its place in `source` if that is a query;
        Unreachable without an answer.
        """
        for _ in range(TRIES):
            try:
                answer = await self._http.request(method, path, **request)
            except httpx.HTTPError as error:
                raise unreachable(self.address, error, self._http.timeout) from error
            wait = wait_of(answer)
            if wait is None:
                break
            await self._sleep(wait)
        if answer.is_success:
            return answer
        raise failure(answer, source)

    async def listen(
        self, subscription: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[LiveEvent]:
        """Yield live matches of a subscription, or of all, as they come; it does not end.

        They begin now, or after the event with the id `after`.  A lost connection is made again:
        after the last event nothing is missed, before the first one it begins anew.  Raises
        Refused if the subscription or the token is removed, and Unreachable if there is no
        connection at first.
        """
        reader = EventReader(after)
        while True:
            try:
                async with self._http.stream(**reader.request(subscription)) as answer:
                    await _expect_success(answer)
                    async for line in answer.aiter_lines():
                        for event in reader.events(line):
                            yield event
            except httpx.HTTPError as error:
                if not reader.began:
                    raise unreachable(self.address, error, self._http.timeout) from error
            await self._sleep(AGAIN)

    async def fetch(self, method: str, path: str) -> AsyncIterator[bytes]:
        """Yield the body of an answer, piece by piece."""
        try:
            async with self._http.stream(method, path) as answer:
                await _expect_success(answer)
                async for piece in answer.aiter_raw():
                    yield piece
        except httpx.HTTPError as error:
            raise unreachable(self.address, error, self._http.timeout) from error


async def _expect_success(answer: httpx.Response) -> None:
    if not answer.is_success:
        await answer.aread()
        raise failure(answer)
