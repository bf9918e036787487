"""Feeds on loopback that have one item more at each request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHOWN = 20
"""Items of an answer, at most."""


class Publisher(ThreadingHTTPServer):
    """A server of feeds by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._mutex = threading.Lock()
        self._items = Counter[str]()

    @property
    def address(self) -> str:
        """The host and port."""
        return f"127.0.0.1:{self.server_port}"

    def items(self, path: str) -> list[str]:
        """Return the identities of the items that a feed has had."""
        return [f"{path}{number}" for number in range(self._items[path])]

    def feed(self, path: str) -> bytes:
        """Return a feed with one item more than before."""
        with self._mutex:
            self._items[path] += 1
            shown = self.items(path)[-SHOWN:]
        items = "".join(f"<item><guid>{one}</guid><title>{one}</title></item>" for one in shown)
        return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


class _Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        body = self.server.feed(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def publishing() -> Iterator[Publisher]:
    """Publish while the block runs."""
    with Publisher() as publisher:
        threading.Thread(target=publisher.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield publisher
        finally:
            publisher.shutdown()
