"""Connections that say nothing, or never come to the end of what they say, are closed.

The head of a request has to come within `SECONDS`, and in so many bytes; uvicorn bounds neither,
and every open connection is a file of the process.
"""

from __future__ import annotations

import asyncio
import resource

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SECONDS = 10.0
HEAD = 65_536
"""Bytes of a request's head."""

SPARE = 500
"""Files that are left for everything but connections."""

MOST = 2_000
"""Connections at one time."""


class Connection(HttpToolsProtocol):
    """A connection, as uvicorn serves it, with bounds on heads of requests."""

    _late: asyncio.TimerHandle | None = None
    _unfinished = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data in; a head that is too long ends the connection."""
        if self._late is not None:
            self._unfinished += len(data)
            if self._unfinished > HEAD + len(data):
                self.transport.abort()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to wait for the head of a request."""
        super().on_message_begin()
        if self._late is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Wait no more: the rest of the request has bounds of its own."""
        self._head_is_there()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._unfinished = 0
        self._late = self.loop.call_later(SECONDS, self.transport.abort)

    def _head_is_there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def connections() -> int:
    """Return how many connections there may be, after asking for as many files as may be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + SPARE if hard == resource.RLIM_INFINITY else min(hard, MOST + SPARE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(50, min(MOST, soft - SPARE))
