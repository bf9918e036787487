"""The HTTP server: uvicorn on the event loop, with timeouts and limits that it lacks.

The socket is bound before the server starts.  The head of a request must arrive within `SECONDS`
and have at most `HEAD` bytes.  A body that the route left unread must arrive within `SECONDS` after
the response.
Without these limits slow clients would exhaust file descriptors.  A connection over the limit of
its client gets 429, one over the limit of the service 503; both are closed at once.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing, contextmanager
from http import HTTPStatus

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from xscl.event_loop import EventLoop
from xscl.service.app import ServiceSettings
from xscl.service.client_address import Network, is_trusted
from xscl.service.connection_limit import ConnectionLimit, ConnectionPlace, attach
from xscl.service.listen_address import address_of, bound
from xscl.service.problems import Problem, answer

GRACE = 3
"""Grace period in seconds of requests in progress at shutdown."""

KEEP_ALIVE = 30
"""Seconds after an answer until an idle connection is closed."""


@contextmanager
def serving(
    app: FastAPI, settings: ServiceSettings, limit: ConnectionLimit, loop: EventLoop
) -> Iterator[str]:
    """Serve an application on an event loop during the block; yield its URL.

    Requests in progress at the end have `GRACE` seconds.  Raises CannotListen.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        http=bounded(limit, settings.trusted_proxies),
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)
    with closing(bound(settings.host, settings.port)) as listening:
        done = loop.submit(server.serve([listening]))
        try:
            yield address_of(*listening.getsockname()[:2])
        finally:
            server.should_exit = True
            wait([done], GRACE + 1)


SECONDS = 10.0
HEAD = 65_536
"""Maximum size in bytes of a request head."""

SPARE = 500
"""File descriptors reserved for everything but connections."""

MOST = 2_000
"""Maximum number of open connections."""

RETRY = 1
"""Retry-After in seconds of a refused connection."""


class Connection(HttpToolsProtocol):
    """An HTTP/1.1 connection with limits on request heads and connections for each client."""

    most = MOST
    limit = ConnectionLimit()
    proxies: Sequence[Network] = ()
    _late: asyncio.TimerHandle | None = None
    _awaits_head = False
    _unfinished = 0
    _head = 0
    _place: ConnectionPlace | None = None
    _is_refused = False
    _is_within_message = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a TCP server passes these only
        """Start the head timeout, unless a connection limit is exceeded."""
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        if len(self.connections) > self.most:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "the service has as many as it may")
            return
        if not is_trusted(peer, self.proxies):
            self._place = self.limit.open(peer)
            if self._place is None:
                self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "your address has as many as it may")
                return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout and release the client's slot."""
        self._stop_waiting()
        if self._place is not None:
            self._place.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data; abort the connection if the head is too long."""
        if self._is_refused:
            return
        if self._late is not None and self._awaits_head:
            self._unfinished += len(data)
            if self._unfinished > HEAD + len(data):
                self.transport.abort()
                return
        super().data_received(data)
        if self._is_idle() and self._late is None and self.timeout_keep_alive_task is None:
            self._await_head()  # empty lines start no request, but cancel the timeout

    def on_message_begin(self) -> None:
        """Start the timeout of a request head."""
        super().on_message_begin()
        self._is_within_message = True
        self._head = 0
        if self._place is not None:
            attach(self.scope, self._place)  # type: ignore[arg-type]  # uvicorn's scope is a union of TypedDicts
        if self._late is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of a part of the request line."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header."""
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        """Count bytes of the head; above `HEAD` raise ValueError, answered by uvicorn with 400."""
        self._head += size
        if self._head > HEAD:
            raise ValueError(f"the head of a request has over {HEAD:,} bytes")

    def on_headers_complete(self) -> None:
        """Cancel the head timeout; the body has limits of its own (`guard`)."""
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Cancel the timeout of an unread body."""
        self._is_within_message = False
        if self.cycle.response_complete:
            self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the timeout of an unread body."""
        super().on_response_complete()
        if self._is_within_message and self.cycle.response_complete:
            self._wait()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Send a problem without waiting for a request, and close the connection."""
        self._is_refused = True
        self.connections.discard(self)  # until it is closed it does not count as open
        self.limit.refused += 1
        detail = f"there are too many connections: {reason}"
        headers = {"Retry-After": str(RETRY), "Connection": "close"}
        refusal = answer(Problem("too_many_connections", detail, status=status, headers=headers))
        head = [b"HTTP/1.1 %d %s" % (status.value, status.phrase.encode())]
        head += [b"%s: %s" % header for header in refusal.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(refusal.body)]))
        self.transport.close()

    def _is_idle(self) -> bool:
        """Return True if no request is in progress."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered and not self._is_within_message and not self.transport.is_closing()

    def _await_head(self) -> None:
        self._awaits_head = True
        self._unfinished = 0
        self._wait()

    def _wait(self) -> None:
        self._late = self.loop.call_later(SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        self._awaits_head = False


def bounded(limit: ConnectionLimit, proxies: Sequence[Network]) -> type[Connection]:
    """Return a subclass of `Connection` whose connections share limits."""
    shared = {"most": connections(), "limit": limit, "proxies": proxies}
    return type("BoundedConnection", (Connection,), shared)


def connections() -> int:
    """Raise the soft limit of file descriptors and return the number of connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + SPARE if hard == resource.RLIM_INFINITY else min(hard, MOST + SPARE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(50, min(MOST, soft - SPARE))
