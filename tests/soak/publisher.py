"""Feeds on loopback, which grow with each poll, or by the service's clock.

A feed `/N.xml` publishes at the times of that clock, each feed at a pace of its own, without end.
Every seventh item is corrected later.  Every tenth feed misbehaves in some answers.  Any other path
is a feed that has one item more at each request, so that its items are known.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime

from tests.thread_server import Request, answering, listening

FEEDS = 201
HOSTS = tuple(f"127.0.1.{number}" for number in range(1, 33))
"""Addresses of loopback, each a domain of its own."""
QUICKEST, SLOWEST = 600.0, 18_000.0
"""Seconds of the service's clock between two items of a feed."""
SHOWN = 20
"""Items of an answer, at most."""
MISBEHAVES, CORRECTED = 10, 7
"""One feed of so many misbehaves, one item of so many is corrected."""
_TITLES = (
    "about after again water world state years house power north south market record river bridge"
    " school people report budget winter summer release version library engine weather ferry museum"
    " council election harbour island forest mountain railway station hospital science garden"
)
WORDS = tuple(_TITLES.split())
"""The words of titles, of which each has four."""


@dataclass
class Publisher:
    """A server of feeds by path; `now` returns seconds since the epoch by the service's clock."""

    now: Callable[[], float]
    feeds: int = 0
    """The number of feeds that publish by the clock."""
    answers: Counter[str] = field(default_factory=Counter)
    ports: list[tuple[str, int]] = field(default_factory=list)
    titles: dict[str, list[str]] = field(default_factory=dict)
    """By path, the titles of all items of feeds that publish what a test says."""
    _polled: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._began = self.now()

    @property
    def address(self) -> str:
        """The host and port of feeds that grow with each poll."""
        host, port = self.ports[0]
        return f"{host}:{port}"

    def urls(self) -> list[str]:
        """Return the addresses of the feeds that publish by the clock."""
        places = [self.ports[number % len(self.ports)] for number in range(self.feeds)]
        return [f"http://{host}:{port}/{n}.xml" for n, (host, port) in enumerate(places)]

    def items(self, path: str) -> list[str]:
        """Return the identities of the items that a feed without a clock has had."""
        return [f"{path}{number}" for number in range(self._polled[path])]

    def body(self, path: str) -> bytes:
        """Return the current text of a feed."""
        number, count, every = _numbered(path), self._polled[path], 0.0
        if number is not None:
            every = QUICKEST * (SLOWEST / QUICKEST) ** random.Random(number).random()
            count = int((self.now() - self._began) // every) + SHOWN
        shown = range(max(0, count - SHOWN), count)
        items = "".join(self._item(path, one, count - one > 2, every) for one in shown)
        if path in self.titles:
            named = enumerate(self.titles[path])
            items = "".join(_titled(f"{path}{number}", title) for number, title in named)
        return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()

    def _item(self, path: str, number: int, is_old: bool, every: float) -> str:
        """Return an item; it has a date if its feed publishes by the clock."""
        name = f"{path}{number}"
        title = " ".join(random.Random(name).choices(WORDS, k=4)) if every else name
        if every and is_old and number % CORRECTED == 0:
            title += " (corrected)"
        when = datetime.fromtimestamp(self._began + (number - SHOWN) * every, UTC)
        date = f"<pubDate>{format_datetime(when)}</pubDate>" if every else ""
        return _titled(name, title, date)

    def does(self, path: str) -> str:
        """Return the kind of the next answer: `feed`, or a kind of misbehaviour, but at first."""
        is_first, number = not self._polled[path], _numbered(path)
        self._polled[path] += 1
        if is_first or number is None or number % MISBEHAVES or random.random() < 0.5:
            return "feed"
        return random.choice(
            ("500", "503", "404", "loop", "cut", "reset", "page", "empty", "slow", "noise")
        )

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> bytes | None:
        """Return the answer to a request, None if the connection is reset."""
        does = self.does(request.path)
        if does == "slow":
            await asyncio.sleep(3)
        body = self.body(request.path)
        tag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
        if does == "feed" and request.headers.get("if-none-match") == tag:
            does = "unchanged"
        self.answers[does] += 1
        if does == "reset":
            writer.transport.abort()
            return None
        return _answer(does, request.path, body, tag)


def _titled(name: str, title: str, more: str = "") -> str:
    return f"<item><guid>{name}</guid><title>{title}</title>{more}</item>"


def _numbered(path: str) -> int | None:
    """Return the number of a feed that publishes by the clock."""
    name = path.strip("/")
    return int(name.removesuffix(".xml")) if name.endswith(".xml") else None


def _answer(does: str, path: str, body: bytes, tag: str) -> bytes:
    """Return the bytes of an answer."""
    match does:
        case "unchanged":
            return b"HTTP/1.1 304 Not Modified\r\n\r\n"
        case "500" | "404":
            return _bytes(f"{does} Wrong", b"wrong")
        case "503":
            return _bytes("503 Busy", b"", "Retry-After: 1200")
        case "loop":
            return _bytes("302 Found", b"", f"Location: {path}")
        case "cut":
            return _bytes("200 OK", body)[: -len(body) // 2]
        case "page":
            return _bytes("200 OK", b"<html><body>Please log in</body></html>")
        case "empty":
            return _bytes("200 OK", b"")
        case "noise":
            return _bytes("200 OK", body.replace(b"</title>", b"&nbsp;\x0b</title>"))
        case _:
            return _bytes("200 OK", body, f"ETag: {tag}", "Content-Type: application/xml")


def _bytes(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def publishing(now: Callable[[], float], feeds: int) -> Iterator[Publisher]:
    """A running server of feeds, in a thread of its own."""
    publisher = Publisher(now, feeds)
    with listening(answering(publisher.answer), HOSTS) as publisher.ports:
        yield publisher
