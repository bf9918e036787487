"""The limit on concurrent connections of each client.

A client is an address, or the /64 of an IPv6 address.  Behind a trusted proxy the requests in
progress are counted instead, by the address that the proxy names.  An event stream of a signed-in
user counts against the account's listener quota (`RequestLimits.listeners`) and releases its slot
here, because many users may share an address.

Everything here runs in the event loop of the server.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from xscl.limiter import KeyedLimiter
from xscl.service.client_address import bucket_of

CONNECTIONS = 64
"""Default of `serve --connections`: concurrent connections of one client."""

_EXTENSION = "xscl.connection"


class ConnectionLimit:
    """Counts connections by client; `most` is the limit of each.

    `refused` counts the connections that the server refused, for this limit or the service's.
    """

    def __init__(self, most: int = CONNECTIONS) -> None:
        self.refused = 0
        self._most = most
        self._open = KeyedLimiter[str]()

    def open(self, address: str) -> ConnectionPlace | None:
        """Return a slot for a new connection of a client, or None at the limit."""
        client = bucket_of(address)
        is_open = self._open.try_acquire(client, self._most)
        return ConnectionPlace(self._open, client) if is_open else None


class ConnectionPlace:
    """The slot of one connection."""

    def __init__(self, limiter: KeyedLimiter[str], client: str) -> None:
        self._limiter = limiter
        self._client = client
        self._is_counted = True
        self._is_closed = False

    def close(self) -> None:
        """Release the slot for good."""
        self._is_closed = True
        self._uncount()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Release the slot during the block, then take it again, even if the limit is reached."""
        self._uncount()
        try:
            yield
        finally:
            if not self._is_closed:
                self._is_counted = self._limiter.try_acquire(self._client, None)

    def _uncount(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._limiter.release(self._client)


def attach(scope: MutableMapping[str, Any], place: ConnectionPlace) -> None:
    """Store the slot of a connection in the scope of its request."""
    scope.setdefault("extensions", {})[_EXTENSION] = place


@contextmanager
def counted_elsewhere(scope: MutableMapping[str, Any]) -> Iterator[None]:
    """Release the slot of a request's connection while the block runs."""
    place = scope.get("extensions", {}).get(_EXTENSION)
    if not isinstance(place, ConnectionPlace):
        yield
        return
    with place.given_up():
        yield
