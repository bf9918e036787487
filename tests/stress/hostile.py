"""One client does its worst while others go on: `python -m tests.stress.hostile --rounds 10`.

In turn it posts a document with 16,000 matching nodes, 20,000 attributes in 240 kB, and two small
documents with 2.5 million results, and holds 2,000 slow connections. The figures that are promised:
the 95th percentile of the others' requests, how long their matches take, the growth of the
service's memory, and the time that SIGTERM takes.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.stress.service import SERVE, Serving

HOSTILE, OTHERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3", "127.0.0.4")
LARGE = b"<r>" + b"<a>v</a>" * 16_000 + b"</r>"
ATTRIBUTES = b"<r " + b" ".join(b"a%05d='x'" % number for number in range(20_000)) + b"/>"
SMALL = b"<r>" + b"<a>v</a>" * 71 + b"</r>"  # 646 bytes
ATTACKED = (
    "H//r[./a->x1][./a->x2] FOLLOWED BY{x1 = y1 AND x2 = y2, 1 d} H//r[./a->y1][./a->y2]",
    "H//r//a->x JOIN{x = y, 1 d} H//r//a->y",
)
PAIRS = "{stream}//a[./k->x] FOLLOWED BY{{x = y, 1 h}} {stream}//a[./k->y]"
PAGES = ("/", "/feeds", "/v1/subscriptions", "/v1/status", "/v1/health")
CONNECTIONS = 2_000
ARRIVES = 60.0
"""Seconds in which a match has to come on a busy machine."""


@dataclass(slots=True)
class Figures:
    """The latency of the others, in seconds, and the cost of the service, in bytes and seconds."""

    requests: list[float] = field(default_factory=list)
    matches: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    rounds: int = 0
    growth: int = 0
    stopped: float = 0.0

    def __str__(self) -> str:
        def late(times: list[float]) -> str:
            if len(times) < 2:
                return "none"
            p95 = statistics.quantiles(times, n=20)[-1]
            return f"p50 {statistics.median(times):.3f} s, p95 {p95:.3f} s of {len(times)}"

        return "\n".join(
            (
                f"rounds {self.rounds}",
                f"requests of others: {late(self.requests)}",
                f"matches of others: {late(self.matches)}",
                f"memory: {self.growth / 1e6:+.0f} MB",
                f"SIGTERM: {self.stopped:.2f} s",
                *(self.wrong or ("nothing wrong",)),
            )
        )


class Drill:
    """One service, its attacker and the others."""

    def __init__(self, service: Serving, address: str) -> None:
        self.figures = Figures()
        self._service = service
        self._address = address
        self._stop = threading.Event()

    def run(self, rounds: int) -> Figures:
        """Attack for some rounds, and return the figures; the service is running then."""
        with ExitStack() as stack:
            attacker = stack.enter_context(self._client(HOSTILE))
            for number, query in enumerate(ATTACKED):
                attacker.put(f"/v1/subscriptions/h{number}", json={"query": query})
            others = [
                threading.Thread(target=self._use, args=(number, source))
                for number, source in enumerate(OTHERS)
            ]
            for other in others:
                other.start()
            time.sleep(2)
            self._attack(attacker, 0)
            self._settle(attacker)
            before = self._memory()
            held = stack.enter_context(Held(self._address))
            for number in range(1, rounds + 1):
                self._attack(attacker, number)
                held.drip()
                self.figures.rounds += 1
            self._settle(attacker)
            self.figures.growth = self._memory() - before
            self._stop.set()
            for other in others:
                other.join()
        return self.figures

    def _client(self, source: str) -> httpx.Client:
        transport = httpx.HTTPTransport(local_address=source)
        return httpx.Client(base_url=self._address, transport=transport, timeout=60)

    def _attack(self, client: httpx.Client, number: int) -> None:
        """Post each of the hostile documents once; one that is refused is no violation."""
        bodies = (LARGE, ATTRIBUTES, SMALL, SMALL)
        for at, body in enumerate(bodies):
            changed = body + f"<!-- {number} {at} -->".encode()
            name = f"h{number}-{at}"
            answer = client.post("/v1/documents/H", params={"id": name}, content=changed)
            if answer.status_code >= 500 and "retry-after" not in answer.headers:
                self.figures.wrong.append(f"{answer.status_code} {answer.text[:200]}")

    def _use(self, number: int, source: str) -> None:
        """Post pairs of documents, wait for their matches, and look at pages."""
        stream, done = f"U{number}", 0
        with self._client(source) as client:
            query = PAIRS.format(stream=stream)
            client.put(f"/v1/subscriptions/u{number}", json={"query": query})
            while not self._stop.is_set():
                for half in range(2):
                    key = {"id": f"{stream}-{done}-{half}"}
                    body = f"<a><k>{number}-{done}</k></a>".encode()
                    self._ask(client, "POST", f"/v1/documents/{stream}", params=key, content=body)
                began, done = time.monotonic(), done + 1
                self._await(client, number, done, began)
                for page in PAGES:
                    self._ask(client, "GET", page)
                self._stop.wait(0.2)

    def _await(self, client: httpx.Client, number: int, matches: int, began: float) -> None:
        """Note how long the match of a pair takes."""
        path = f"/v1/subscriptions/u{number}/matches"
        while time.monotonic() - began < ARRIVES:
            found = self._ask(client, "GET", path, params={"limit": 1})
            newest = f"U{number}-{matches - 1}-1"
            if found.status_code == 200 and newest in found.text:
                self.figures.matches.append(time.monotonic() - began)
                return
            time.sleep(0.02)
        self.figures.wrong.append(f"the match {matches} of u{number} did not come")

    def _ask(
        self, client: httpx.Client, method: str, path: str, **options: object
    ) -> httpx.Response:
        began = time.monotonic()
        answer = client.request(method, path, **options)  # type: ignore[arg-type]
        self.figures.requests.append(time.monotonic() - began)
        if answer.status_code >= 400:
            self.figures.wrong.append(f"{path}: {answer.status_code} {answer.text[:200]}")
        return answer

    def _settle(self, client: httpx.Client) -> None:
        """Wait until all that was posted is consumed."""
        until = time.monotonic() + 10 * ARRIVES
        while time.monotonic() < until:
            if client.get("/v1/status").json()["service"]["waiting"] <= len(OTHERS):
                return
            time.sleep(0.1)
        self.figures.wrong.append("what was posted is not consumed")

    def _memory(self) -> int:
        pages = Path(f"/proc/{self._service.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Held:
    """Slow connections of one address; those that are refused are opened again."""

    def __init__(self, address: str) -> None:
        host, port = address.removeprefix("http://").split(":")
        self._at = host, int(port)
        self._open: list[socket.socket] = []

    def __enter__(self) -> Held:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8_192)), hard))
        self._fill()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            one.close()

    def drip(self) -> None:
        """Send a byte more on each connection."""
        for one in list(self._open):
            try:
                one.sendall(b"x")
            except OSError:
                one.close()
                self._open.remove(one)
        self._fill()

    def _fill(self) -> None:
        while len(self._open) < CONNECTIONS:
            one = socket.create_connection(self._at, 30, (HOSTILE, 0))
            self._open.append(one)
            try:
                one.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            except OSError:
                continue  # refused before it said anything


def drill(rounds: int, *, stops_within: float = 5.0) -> Figures:
    """Return the figures of a drill against a new service."""
    with tempfile.TemporaryDirectory(prefix="xscl-hostile-") as directory:
        service = Serving(Path(directory) / "data", SERVE, ())
        try:
            figures = Drill(service, service.wait_until_there()).run(rounds)
            began = time.monotonic()
            if (wrong := service.stop(stops_within)) is not None:
                figures.wrong.append(wrong)
            figures.stopped = time.monotonic() - began
            return figures
        finally:
            service.kill()


def main() -> int:
    """Return 1 if a figure is not held."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress.hostile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    figures = drill(parser.parse_args().rounds)
    print(figures, flush=True)
    p95 = statistics.quantiles(figures.requests, n=20)[-1]
    return int(bool(figures.wrong) or p95 > 1 or figures.growth > 200e6)


if __name__ == "__main__":
    sys.exit(main())
