"""A WebSub hub with a feed on loopback, in a few lines."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx

from tests.plain_http import NO_CERTIFICATES

PUBLIC = "http://push.example/xscl"
"""The public address of a service; its hub knows where that is."""


def rss(*titles: str, head: str = "") -> bytes:
    """A feed whose items have the first word of their titles as guid."""
    items = "".join(f"<item><guid>{t.split()[0]}</guid><title>{t}</title></item>" for t in titles)
    channel = f"<title>Sample</title>{head}{items}"
    return f'<rss version="2.0"><channel>{channel}</channel></rss>'.encode()


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
        return httpx.get(
            self.callback(), params=query, timeout=30, trust_env=False, verify=NO_CERTIFICATES
        )

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
        return httpx.post(
            self.callback(),
            content=body,
            headers=headers,
            timeout=60,
            trust_env=False,
            verify=NO_CERTIFICATES,
        )


@contextmanager
def hub_running() -> Iterator[Hub]:
    """A running hub."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.polls += 1
            links = [f'<{hub.address}/hub>; rel="hub"', f"<{hub.feed}>; rel=self"]
            body = rss(*hub.titles)
            self.send_response(200)
            for link in links if hub.names_hub else ():
                self.send_header("Link", link)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            form = parse_qs(self.rfile.read(size).decode(), strict_parsing=True)
            hub.asked.append({name: values[0] for name, values in form.items()})
            self.send_response(hub.status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if hub.confirms and hub.status == 202:
                hub.confirm()

        def log_message(self, format: str, *args: Any) -> None:
            """Tests have no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
