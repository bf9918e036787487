"""A receiver of webhooks on loopback, which counts deliveries by match."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MESSAGE = "webhook-id"


class Receiver(ThreadingHTTPServer):
    """Answers every delivery with success."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deliveries = Counter[str]()  # by the id of a match
        self.messages: dict[str, set[str]] = {}  # the ids of messages by that of their match

    @property
    def address(self) -> str:
        """The host and port."""
        return f"127.0.0.1:{self.server_port}"

    def note(self, match: str, message: str) -> None:
        """Count a delivery."""
        self.deliveries[match] += 1
        self.messages.setdefault(match, set()).add(message)

    def differences(self, matches: set[str]) -> list[str]:
        """Return the errors in the deliveries of some matches."""
        wrong = []
        if missing := matches - self.deliveries.keys():
            wrong.append(f"{len(missing)} of {len(matches)} matches were not delivered")
        if strange := self.deliveries.keys() - matches:
            wrong.append(f"{len(strange)} deliveries of matches that are not there")
        if several := [match for match, ids in self.messages.items() if len(ids) > 1]:
            wrong.append(f"{len(several)} matches were delivered under several ids")
        return wrong


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.note(body["data"]["id"], self.headers[MESSAGE])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Receive while the block runs."""
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
