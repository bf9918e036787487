"""The client for programs without asyncio; the command line uses it, too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Self, TypeVar

import httpx

from xscl.client.calls import Call, Listing
from xscl.client.events import AGAIN, EventReader, LiveEvent
from xscl.client.exchange import PATIENCE, TRIES, base_of, settings, wait_of
from xscl.client.failures import failure, unreachable
from xscl.client.methods import Methods
from xscl.errors import XsclError

T = TypeVar("T")


class Client(Methods):
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
        self.address = base_of(address)
        self.has_token = token is not None
        self._http = httpx.Client(**settings(self.address, token, patience), transport=transport)

    def __repr__(self) -> str:
        return f"<xscl.client.Client {self.address}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, and return the value of its answer."""
        answer = self.ask(call.method, call.path, source=call.source, **call.request)
        return call.value(answer)

    def items(self, listing: Listing[T]) -> Iterator[T]:
        """Yield the items of a list."""
        parameters = listing.parameters
        while True:
            page = self.ask("GET", listing.path, params=parameters).json()
            yield from listing.items(page)
            following = listing.following(page)
            if following is None:
                return
            parameters = following

    def ask(
        self, method: str, path: str, *, source: str | None = None, **request: Any
    ) -> httpx.Response:
        """Return a successful answer.

        Raises the error of the problem document, at its place in `source` if that is a query;
        Unreachable without an answer.
        """
        for _ in range(TRIES):
            try:
                answer = self._http.request(method, path, **request)
            except httpx.HTTPError as error:
                raise unreachable(self.address, error, self._http.timeout) from error
            wait = wait_of(answer)
            if wait is None:
                break
            time.sleep(wait)
        if answer.is_success:
            return answer
        raise self.failure(answer, source)

    def listen(
        self, subscription: str | None = None, *, after: str | None = None
    ) -> Iterator[LiveEvent]:
        """Yield live matches of a subscription, or of all, as they come; it does not end.

        They begin now, or after the event with the id `after`.  A lost connection is made again:
        after the last event nothing is missed, before the first one it begins anew.  Raises
        Refused if the subscription or the token is removed, and Unreachable if there is no
        connection at first.
        """
        reader = EventReader(after)
        while True:
            try:
                with self._http.stream(**reader.request(subscription)) as answer:
                    if not answer.is_success:
                        answer.read()
                        raise self.failure(answer, None)
                    for line in answer.iter_lines():
                        yield from reader.events(line)
            except httpx.HTTPError as error:
                if not reader.began:
                    raise unreachable(self.address, error, self._http.timeout) from error
            time.sleep(AGAIN)

    def fetch(self, method: str, path: str) -> Iterator[bytes]:
        """Yield the body of an answer, piece by piece."""
        try:
            with self._http.stream(method, path) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self.failure(answer, None)
                yield from answer.iter_raw()
        except httpx.HTTPError as error:
            raise unreachable(self.address, error, self._http.timeout) from error

    def failure(self, answer: httpx.Response, source: str | None) -> XsclError:
        """Return the error of a problem document."""
        return failure(answer, source)
