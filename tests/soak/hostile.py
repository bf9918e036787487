"""One client does its worst while others go on.

In turn it posts a document with 16,000 matching nodes, 20,000 attributes in 240 kB, and two small
documents with 2.5 million results, and holds 2,000 slow connections.  It comes from an address of
its own; bounds of one address do not concern the others.
"""

from __future__ import annotations

import resource
import socket

from tests.soak.clients import Client, Surroundings

SOURCE = "127.0.0.2"
LARGE = b"<r>" + b"<a>v</a>" * 16_000 + b"</r>"
ATTRIBUTES = b"<r " + b" ".join(b"a%05d='x'" % number for number in range(20_000)) + b"/>"
SMALL = b"<r>" + b"<a>v</a>" * 71 + b"</r>"  # 646 bytes
ATTACKED = (
    "H//r[./a->x1][./a->x2] FOLLOWED BY{x1 = y1 AND x2 = y2, 1 d} H//r[./a->y1][./a->y2]",
    "H//r//a->x JOIN{x = y, 1 d} H//r//a->y",
)
CONNECTIONS = 2_000


class Attacker(Client):
    """Posts hostile documents, and sends a byte more on each of many connections."""

    pause = 0.0

    def __init__(self, around: Surroundings, number: int) -> None:
        super().__init__(around, number, SOURCE)
        host, port = around.address.removeprefix("http://").split(":")
        self._at = host, int(port)
        self._open: list[socket.socket] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8_192)), hard))
        for at, query in enumerate(ATTACKED):
            self.expect("PUT", f"/v1/subscriptions/h{at}", {"query": query})

    def act(self) -> None:
        """Make a round; a document that is refused is no violation."""
        for at, body in enumerate((LARGE, ATTRIBUTES, SMALL, SMALL)):
            changed = body + f"<!-- {self._done} {at} -->".encode()
            self.ask(
                "POST", "/v1/documents/H", params={"id": f"h{self._done}-{at}"}, content=changed
            )
        for one in list(self._open):
            try:
                one.sendall(b"x")
            except OSError:
                one.close()
                self._open.remove(one)
        while len(self._open) < CONNECTIONS and not self.findings.quiet.is_set():
            one = socket.create_connection(self._at, 30, (SOURCE, 0))
            self._open.append(one)
            try:
                one.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            except OSError:
                continue  # refused before it said anything

    def run(self) -> None:
        """Attack until the senders end; then let all connections go."""
        super().run()
        for one in self._open:
            one.close()
