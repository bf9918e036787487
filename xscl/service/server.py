"""The HTTP server: uvicorn on the event loop, on a socket that is bound before it starts."""

from __future__ import annotations

from concurrent.futures import Future, wait

import uvicorn
from fastapi import FastAPI

from xscl.event_loop import EventLoop
from xscl.service.app import ServiceSettings
from xscl.service.connection import bounded
from xscl.service.connection_limit import ConnectionLimit
from xscl.service.listen_address import address_of, bound

GRACE = 3
"""Grace period in seconds of requests in progress at shutdown."""

KEEP_ALIVE = 30
"""Seconds after an answer until an idle connection is closed."""


class Server:
    """Serves an application on an event loop between `start` and `stop`."""

    def __init__(
        self, app: FastAPI, settings: ServiceSettings, limit: ConnectionLimit, loop: EventLoop
    ) -> None:
        self._socket = bound(settings.host, settings.port)
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
        self._server = uvicorn.Server(config)
        self._loop = loop
        self._serving: Future[None] | None = None

    @property
    def address(self) -> str:
        """Return the URL of the service."""
        return address_of(*self._socket.getsockname()[:2])

    def start(self) -> None:
        """Start serving; earlier connections wait in the backlog."""
        self._serving = self._loop.submit(self._server.serve([self._socket]))

    def stop(self) -> None:
        """Stop accepting requests; those in progress have `GRACE` seconds."""
        self._server.should_exit = True
        if self._serving is not None:
            wait([self._serving], GRACE + 1)
        self._socket.close()
