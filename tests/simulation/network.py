"""Servers of a simulated network: feeds and receivers of webhooks, without sockets.

`Loop.create_connection` connects a client of the product to a `Site` in memory.  The client speaks
HTTP/1.1 with one request a connection, as `feeds.http.connection` does.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.loops import Loop


@dataclass(frozen=True)
class Request:
    """A request as a site receives it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """The response of a site, after `delay` seconds.

    The connection is lost after `cut` bytes of the body; None: the answer is whole.  An answer
    without a status never comes.
    """

    body: bytes = b""
    status: int | None = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut: int | None = None


PUBLIC = "93.184.216"
"""The network of all sites."""

Site = Callable[[Request], Answer]


@dataclass
class Network:
    """Sites by host name.

    `lost` is the probability that a connection is refused, `latency` the largest delay of an
    answer in seconds.
    """

    draw: random.Random
    sites: dict[str, Site] = field(default_factory=dict)
    lost: float = 0.0
    latency: float = 0.05

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """Return the address of a host: a public one, made from its place in the table."""
        if host not in self.sites:
            raise OSError("name or service not known")
        return (f"{PUBLIC}.{1 + list(self.sites).index(host)}",)

    def connect(self, loop: asyncio.AbstractEventLoop, protocol: Any, host: str) -> Connection:
        """Return a connection to an address; raises ConnectionRefusedError."""
        number = int(host.rpartition(".")[2]) - 1
        if self.draw.random() < self.lost:
            raise ConnectionRefusedError("connection refused")
        site = list(self.sites.values())[number]
        return Connection(loop, protocol, site, self.draw.random() * self.latency)

    def install(self) -> None:
        """Connect all loops of the simulation to this network."""

        async def create_connection(
            loop: asyncio.AbstractEventLoop,
            factory: Callable[[], Any],
            host: str,
            *_: Any,
            **__: Any,
        ) -> tuple[Connection, Any]:
            await asyncio.sleep(self.draw.random() * self.latency)
            protocol = factory()
            connection = self.connect(loop, protocol, host)
            protocol.connection_made(connection)
            return connection, protocol

        Loop.create_connection = create_connection  # type: ignore[method-assign,assignment]


class Connection(asyncio.Transport):
    """One request to a site, and its answer, which waits while the client reads nothing."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: Any, site: Site, latency: float
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._site = site
        self._latency = latency
        self._request = b""
        self._asked = False
        self._paused = False
        self._closed = False
        self._unread: list[bytes | None] = []  # None: the end

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a socket that takes options, nothing else."""
        return _Socket() if name == "socket" else default

    def write(self, data: Any) -> None:
        """Send a part of the request; the whole request is answered."""
        self._request += bytes(data)
        head, found, body = self._request.partition(b"\r\n\r\n")
        if self._asked or not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        if len(body) < int(headers.get("content-length", "0")):
            return
        self._asked = True
        method, path, _ = first.split(" ")
        answer = self._site(Request(method, path, headers, body))
        if answer.status is None:
            return
        self._loop.call_later(self._latency + answer.delay, self._answer, answer)

    def _answer(self, answer: Answer) -> None:
        headers = {"Content-Length": str(len(answer.body)), "Connection": "close", **answer.headers}
        lines = [f"HTTP/1.1 {answer.status} Told", *(f"{k}: {v}" for k, v in headers.items())]
        self._receive("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self._receive(answer.body if answer.cut is None else answer.body[: answer.cut])
        self._receive(None)

    def _receive(self, data: bytes | None) -> None:
        self._unread.append(data)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._unread and not self._paused and not self._closed:
            data = self._unread.pop(0)
            if data is None:
                self._protocol.eof_received()
            elif data:
                self._protocol.data_received(data)

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._paused = True

    def resume_reading(self) -> None:
        """Pass on what has arrived."""
        self._paused = False
        self._loop.call_soon(self._pass_on)

    def is_closing(self) -> bool:
        """Return True if the client has closed the connection."""
        return self._closed

    def can_write_eof(self) -> bool:
        """Return False: a request has a length."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore limits: nothing waits to be sent."""

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing waits to be sent."""
        return 0

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """Close the connection."""
        self.close()


class _Socket:
    family = socket.AF_INET

    def getpeername(self) -> tuple[str, int]:
        """Return an address."""
        return "93.184.216.1", 80

    def getsockname(self) -> tuple[str, int]:
        """Return an address."""
        return "127.0.0.1", 50_000

    def setsockopt(self, *_: object) -> None:
        """Take an option."""
