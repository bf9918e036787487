"""The client for programs without asyncio: a wrapper around `AsyncClient`.

Its transport and its sleep block, so a coroutine of the client never waits for an event loop and
ends with its first step.  Thus it also works where a loop runs, as in a notebook.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from typing import Any, Self, TypeVar, cast

import httpx

from xscl.client.async_client import PATIENCE, AsyncClient, base_of, settings
from xscl.client.calls import Call, Listing
from xscl.client.events import LiveEvent
from xscl.client.methods import BlockingMethods

T = TypeVar("T")


class Client(BlockingMethods):
    """Connection to the service at an address; a token authenticates the requests.

    A busy service is asked again after the time that it names.  Use it in one thread at a time.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        patience: float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Make a client; it connects when it is used.

        `patience` is the number of seconds until an answer has to begin.  `transport` takes the
        requests in place of connections.
        """
        self.has_token = token is not None
        verify = settings(base_of(address), token, patience)["verify"]
        blocking = _BlockingTransport(
            transport or httpx.HTTPTransport(verify=verify, trust_env=False)
        )
        self._client = _BlockingClient(address, token, patience=patience, transport=blocking)
        self.address = self._client.address

    def __repr__(self) -> str:
        return f"<xscl.client.Client {self.address}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        _result(self._client.close())

    def send(self, call: Call[T]) -> T:
        """Send a call, and return the value of its answer."""
        return _result(self._client.send(call))

    def items(self, listing: Listing[T]) -> Iterator[T]:
        """Yield the items of a list."""
        return _each(self._client.items(listing))

    def ask(
        self, method: str, path: str, *, source: str | None = None, **request: Any
    ) -> httpx.Response:
        """Return a successful answer; raises as `AsyncClient.ask` does."""
        return _result(self._client.ask(method, path, source=source, **request))

    def listen(
        self, subscription: str | None = None, *, after: str | None = None
    ) -> Iterator[LiveEvent]:
        """Yield live matches as `AsyncClient.listen` does."""
        return _each(self._client.listen(subscription, after=after))

    def fetch(self, method: str, path: str) -> Iterator[bytes]:
        """Yield the body of an answer, piece by piece."""
        return _each(self._client.fetch(method, path))


class _BlockingClient(AsyncClient):
    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _BlockingTransport(httpx.AsyncBaseTransport):
    """A transport that blocks, in the form that an asynchronous client asks for."""

    def __init__(self, transport: httpx.BaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._transport.handle_request(request)
        answer.stream = _BlockingStream(cast(httpx.SyncByteStream, answer.stream))
        return answer

    async def aclose(self) -> None:
        self._transport.close()


class _BlockingStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        self._stream.close()


def _result(step: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        step.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("a blocking transport waits for nothing")


def _each(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous generator that waits for nothing."""
    found = cast(AsyncGenerator[T, None], items)
    try:
        while True:
            try:
                item = _result(found.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        _result(found.aclose())
