"""A service that follows two feeds and posts a match to a webhook.

    python examples/feeds_and_webhook.py

Feeds and webhook are servers on the loopback address.  The service runs as its own process, as
`xscl serve` does, and ends with the program.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from xscl.client import Client

QUERY = """
feeds//item->one[./title->t1][./channel_url->c1]
  SYMMETRIC JOIN{lower-case(t1) = lower-case(t2) AND c1 != c2, 3 d}
feeds//item->other[./title->t2][./channel_url->c2]
"""
ITEM = "<item><title>{title}</title><guid>{title}</guid><pubDate>{date}</pubDate></item>"
FEED = '<rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'
PATIENCE = 60.0
"""Seconds after which the program gives up, however busy the machine is."""


class World(ThreadingHTTPServer):
    """The rest of the world: two feeds, whose items change, and a receiver of webhooks."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items: dict[str, str] = {"/town": "", "/harbour": ""}
        self.secret = ""
        self.received: queue.Queue[Any] = queue.Queue()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: World

    def do_GET(self) -> None:
        """Answer with a feed."""
        body = FEED.format(name=self.path[1:], items=self.server.items.get(self.path, "")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Take a message if its signature is right."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = (
            f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        )
        key = base64.b64decode(self.server.secret.removeprefix("whsec_"))
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        known = f"v1,{wanted}" in self.headers["webhook-signature"].split()
        self.send_response(204 if known else 401)
        self.end_headers()
        if known:
            self.server.received.put(json.loads(body)["data"])

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def service(allowed: str, folder: Path) -> Iterator[str]:
    """Run `xscl serve` on a free port; yield its address."""
    options = ["--data", str(folder), "--port", "0", "--no-spark", "--allow-address", allowed]
    command = [sys.executable, "-m", "xscl", "serve", *options]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"the page is at (http://\S+)/,", line):
                    yield found[1]
                    break
        finally:
            process.terminate()
            process.stderr.read()


def found() -> tuple[str, ...]:
    """Return the titles of the documents of the first match that the webhook receives."""
    with ExitStack() as stack:
        world = World()
        threading.Thread(target=world.serve_forever, daemon=True).start()
        stack.callback(world.server_close)
        stack.callback(world.shutdown)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        client = stack.enter_context(
            Client(stack.enter_context(service(world.place, Path(folder) / "data")))
        )
        feeds = [client.follow(f"http://{world.place}{path}") for path in world.items]
        for feed in feeds:  # what a feed has at its first poll is history
            while not client.feed(feed.key).polls:
                time.sleep(0.05)
        client.subscribe("same-story", QUERY)
        hook = {"kind": "webhook", "url": f"http://{world.place}/hook"}
        made = client.ask("POST", "/v1/subscriptions/same-story/endpoints", json=hook)
        world.secret = made.json()["secret"]
        world.items["/town"] = ITEM.format(
            title="Ferry stops", date="Mon, 02 Mar 2026 08:00:00 GMT"
        )
        client.poll(feeds[0].key)
        world.items["/harbour"] = ITEM.format(
            title="FERRY STOPS", date="Mon, 02 Mar 2026 09:00:00 GMT"
        )
        client.poll(feeds[1].key)
        message = world.received.get(timeout=PATIENCE)
        return tuple(one["title"] for one in message["sources"])


if __name__ == "__main__":
    print(*found(), sep="\n")
