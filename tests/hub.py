"""A WebSub hub with a feed on loopback, in a few lines."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import httpx

from tests.plain_http import plain_client
from tests.thread_server import Request, answering, listening
from tests.xscl.polling.scripted import reply, rss

PUBLIC = "http://push.example/xscl"
"""The public address of a service; its hub knows where that is."""


@dataclass
class Hub:
    """A hub and the feed that names it; `status` answers requests for a lease."""

    address: str = ""
    service: str = ""
    titles: list[str] = field(default_factory=lambda: ["one"])
    names_hub: bool = True
    status: int = 202
    lease_seconds: int = 864_000
    polls: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    confirmed: list[httpx.Response] = field(default_factory=list)
    confirms: bool = True

    @property
    def feed(self) -> str:
        return f"{self.address}/feed"

    @property
    def form(self) -> dict[str, str]:
        """The last request for a lease."""
        return self.asked[-1]

    def callback(self) -> str:
        """The callback at the service itself, behind its public address."""
        named = self.form["hub.callback"]
        assert named.startswith(f"{PUBLIC}/websub/")
        return self.service + named.removeprefix(PUBLIC)

    def tell(self, mode: str = "subscribe", **more: str) -> httpx.Response:
        """Ask the callback whether a lease is intended, or tell it something else."""
        query = {"hub.mode": mode, "hub.topic": self.form["hub.topic"], **more}
        with plain_client() as client:
            return client.get(self.callback(), params=query)

    def confirm(self) -> httpx.Response:
        seconds = {"hub.challenge": "a<b", "hub.lease_seconds": str(self.lease_seconds)}
        self.confirmed.append(self.tell(**seconds))
        return self.confirmed[-1]

    def send(
        self, body: bytes, method: str = "sha256", secret: str | None = None
    ) -> httpx.Response:
        """Send content to the callback, signed."""
        key = (self.form["hub.secret"] if secret is None else secret).encode()
        signature = hmac.new(key, body, getattr(hashlib, method)).hexdigest()
        headers = {
            "X-Hub-Signature": f"{method}={signature}",
            "Content-Type": "application/rss+xml",
        }
        with plain_client() as client:
            return client.post(self.callback(), content=body, headers=headers)

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> bytes | None:
        """Return the feed, or take a request for a lease, and then confirm it."""
        if request.method == "GET":
            self.polls += 1
            links = (f'Link: <{self.address}/hub>; rel="hub"', f"Link: <{self.feed}>; rel=self")
            return reply(rss(*self.titles), *(links if self.names_hub else ()))
        form = parse_qs(request.body.decode(), strict_parsing=True)
        self.asked.append({name: values[0] for name, values in form.items()})
        writer.write(reply(status=f"{self.status} X"))
        await writer.drain()
        if self.confirms and self.status == 202:
            await asyncio.to_thread(self.confirm)
        return None


@contextmanager
def hub_running() -> Iterator[Hub]:
    """A running hub."""
    hub = Hub()
    with listening(answering(hub.answer), ["127.0.0.1"]) as [(host, port)]:
        hub.address = f"http://{host}:{port}"
        yield hub
