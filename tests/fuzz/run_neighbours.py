"""One client registers drawn queries and posts documents to them, while another waits for matches.

`python -m tests.fuzz.run_neighbours SEED SECONDS` starts a service and prints a line of JSON: the
queries that were accepted, the pairs of the other client, and how long their matches took, in
seconds from the post of the second document.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.fuzz.expressions import DOCUMENTS, case
from tests.stress.service import SERVE, Serving

HOSTILE, OTHER = "127.0.0.1", "127.0.0.2"
DELAYED = 2.0
"""Seconds that a match of the other client may take."""
ENDS = 60.0
"""Seconds after which a match is given up."""
KEPT = 20
"""Queries of the hostile client that stand at a time."""
_QUERY = "U//a[./k->x] FOLLOWED BY{x = y, 1 h} U//a[./k->y]"


class Neighbours:
    """Two clients of one service, and what they have seen."""

    def __init__(self, address: str, seed: int) -> None:
        self._address = address
        self._random = Random(seed)
        self._stop = threading.Event()
        self.accepted = self.refused = self.posted = 0
        self.delays: list[float] = []
        self.wrong: list[str] = []

    def run(self, seconds: float) -> dict[str, Any]:
        """Return the figures after some seconds."""
        other = threading.Thread(target=self._wait_for_matches)
        other.start()
        until = time.monotonic() + seconds
        with self._client(HOSTILE) as client:
            client.put("/v1/streams/S", json={"attributes": {"k": "str", "n": "int", "f": "float"}})
            while time.monotonic() < until and other.is_alive():
                self._attack(client)
        self._stop.set()
        other.join()
        ordered = sorted(self.delays)
        return {
            "accepted": self.accepted,
            "refused": self.refused,
            "posted": self.posted,
            "pairs": len(ordered),
            "median": round(ordered[len(ordered) // 2], 3) if ordered else None,
            "longest": round(ordered[-1], 3) if ordered else None,
            "wrong": self.wrong,
        }

    def _client(self, source: str) -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=source)
        return httpx.Client(base_url=self._address, transport=transport, timeout=ENDS)

    def _attack(self, client: httpx.Client) -> None:
        """Register a drawn query in place of an old one; post all documents if it is accepted."""
        drawn = case(self._random)
        name = f"h{self.accepted % KEPT}"
        client.delete(f"/v1/subscriptions/{name}", params={"purge": "true"})
        given = {"query": drawn.text, "language": drawn.language}
        answer = client.put(f"/v1/subscriptions/{name}", json=given)
        if answer.status_code >= 400:
            self.refused += 1
            if answer.status_code >= 500 and "retry-after" not in answer.headers:
                self.wrong.append(f"{answer.status_code} {answer.text[:200]} {drawn.text[:500]}")
            return
        self.accepted += 1
        for number, text in enumerate(DOCUMENTS):
            identity = {"id": f"{self.accepted}-{number}"}
            sent = client.post("/v1/documents/S", params=identity, content=text.encode())
            self.posted += sent.status_code < 400

    def _wait_for_matches(self) -> None:
        """Post pairs, and note how long each match takes."""
        with self._client(OTHER) as client:
            client.put("/v1/subscriptions/u", json={"query": _QUERY})
            number = 0
            while not self._stop.is_set() and not self.wrong:
                for half in range(2):
                    began = time.monotonic()
                    identity = {"id": f"u-{number}-{half}"}
                    body = f"<a><k>{number}</k></a>".encode()
                    client.post("/v1/documents/U", params=identity, content=body)
                self._await(client, f"u-{number}-1", began)
                number += 1

    def _await(self, client: httpx.Client, newest: str, began: float) -> None:
        while (waited := time.monotonic() - began) < ENDS:
            found = client.get("/v1/subscriptions/u/matches", params={"limit": 1})
            if found.status_code == 200 and newest in found.text:
                self.delays.append(waited)
                return
            time.sleep(0.02)
        self.wrong.append(f"the match of {newest} did not come")


def run(seed: int, seconds: float) -> dict[str, Any]:
    """Return the figures of two clients of a new service."""
    with tempfile.TemporaryDirectory(prefix="xscl-neighbours-") as directory:
        service = Serving(Path(directory) / "data", SERVE, ())
        try:
            return Neighbours(service.wait_until_there(), seed).run(seconds)
        finally:
            service.kill()


if __name__ == "__main__":
    found = run(int(sys.argv[1]), float(sys.argv[2]))
    print(json.dumps(found), flush=True)
    sys.exit(bool(found["wrong"]) or found["longest"] is None or found["longest"] > DELAYED)
