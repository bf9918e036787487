"""A limit on the connections that each client has at the same time.

A client is an address, or the /64 of an IPv6 address.  Behind a trusted proxy the requests in
progress are counted instead, by the address that the proxy names.  A stream of events of somebody
who has signed in counts among that account's listeners (`rates.Listeners`) and gives its place
here up: many users may share an address.

Everything here runs in the event loop of the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from xscl.service.client_address import bucket_of

CONNECTIONS = 64
"""Connections of one client at the same time, unless `serve --connections` says otherwise."""

_EXTENSION = "xscl.connection"


class ConnectionLimit:
    """Counts connections by client; `most` is for each."""

    def __init__(self, most: int = CONNECTIONS) -> None:
        self.most = most
        self._open: Counter[str] = Counter()

    def open(self, address: str) -> ConnectionPlace | None:
        """Return a place for one more connection of a client, None if it has as many as it may."""
        client = bucket_of(address)
        if self._open[client] >= self.most:
            return None
        return ConnectionPlace(self._open, client)


class ConnectionPlace:
    """One connection among those of its client."""

    def __init__(self, counts: Counter[str], client: str) -> None:
        self._counts = counts
        self._client = client
        self._is_counted = False
        self._is_closed = False
        self._count()

    def close(self) -> None:
        """Stop counting, for good."""
        self._is_closed = True
        self._uncount()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Do not count while the block runs; afterwards count again, over the limit if need be."""
        self._uncount()
        try:
            yield
        finally:
            if not self._is_closed:
                self._count()

    def _count(self) -> None:
        self._is_counted = True
        self._counts[self._client] += 1

    def _uncount(self) -> None:
        if not self._is_counted:
            return
        self._is_counted = False
        self._counts[self._client] -= 1
        if not self._counts[self._client]:
            del self._counts[self._client]


def attach(scope: MutableMapping[str, Any], place: ConnectionPlace) -> None:
    """Let whoever answers a request find its connection's place."""
    scope.setdefault("extensions", {})[_EXTENSION] = place


@contextmanager
def counted_elsewhere(scope: MutableMapping[str, Any]) -> Iterator[None]:
    """Give the place of a request's connection up while the block runs."""
    place = scope.get("extensions", {}).get(_EXTENSION)
    if not isinstance(place, ConnectionPlace):
        yield
        return
    with place.given_up():
        yield
