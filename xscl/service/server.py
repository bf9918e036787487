"""The HTTP server: uvicorn on the event loop, on a socket that is bound before it starts."""

from __future__ import annotations

import errno
import socket
from concurrent.futures import Future, wait
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from xscl.errors import XsclError
from xscl.event_loop import EventLoop
from xscl.service.app import ServiceSettings
from xscl.service.connection import bounded
from xscl.service.connection_limit import ConnectionLimit

GRACE = 3
"""Grace period in seconds of requests in progress at shutdown."""

KEEP_ALIVE = 30
"""Seconds after an answer until an idle connection is closed."""

_BACKLOG = 1024
_ELSEWHERE = "--host names an address of this machine; 0.0.0.0 or :: are all of them"
_OTHER_PORT = "choose another port with --port; 0 takes any that is free"
_UNREAD = 120_000
"""Milliseconds after which a connection with unacknowledged data is closed."""


class CannotListen(XsclError):
    """The port is in use, or the address does not belong to this machine."""

    code = "cannot_listen"


class Server:
    """Serves an application on an event loop between `start` and `stop`."""

    def __init__(
        self, app: FastAPI, settings: ServiceSettings, limit: ConnectionLimit, loop: EventLoop
    ) -> None:
        self._socket = _bound(settings.host, settings.port)
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


def address_of(host: str, port: int) -> str:
    """Return the URL of a service; loopback if it listens on all addresses."""
    number = ip_address(host)
    if number.is_unspecified:
        host = "127.0.0.1" if number.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def expect_free(host: str, port: int) -> None:
    """Raise CannotListen for an address at which no server can listen."""
    _bound(host, port).close()


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises CannotListen."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise CannotListen(
            f"{host!r} is no address to listen on: {error}", hint="name one with --host"
        ) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it; Linux has it
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        made.bind(place)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise CannotListen(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint=_ELSEWHERE if error.errno == errno.EADDRNOTAVAIL else _OTHER_PORT,
        ) from error
    return made
