"""A scripted HTTP server on loopback, and a place that polls it by a clock of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from feeds.documents import Document
from feeds.spool import Spool
from tests.thread_server import Request, answering, listening
from tests.waiting import beside
from xscl.engine.facade import Engine
from xscl.polling.feed import Feed
from xscl.polling.feed_commands import follow
from xscl.polling.feed_poller import PolledFeed, PollSettings, keep_polling, poll_now
from xscl.polling.feed_repository import FeedRepository, FeedRequest, ItemCounts, feed_row

HOUR = 3_600_000_000
DAY = 24 * HOUR
START = 1_700_000_000_000_000

Talk: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]
Answer: TypeAlias = bytes | Talk
"""The bytes of an answer, head included, or a function that writes them."""


def rss(*titles: str, head: str = "", encoding: str = "utf-8", declared: str = "") -> bytes:
    """A feed whose items have the first word of their titles as guid."""
    items = "".join(f"<item><guid>{t.split()[0]}</guid><title>{t}</title></item>" for t in titles)
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    channel = f"<title>Sample</title>{head}{items}"
    return f'{declaration}<rss version="2.0"><channel>{channel}</channel></rss>'.encode(encoding)


def reply(
    body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None
) -> bytes:
    """An answer with a body and its length, or a length that is a lie."""
    size = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def moved(to: str, status: str = "301 Moved Permanently") -> bytes:
    return reply(b"", f"Location: {to}", status=status)


def slowly(answer: bytes, wait: float | threading.Event = 0.02) -> Talk:
    """An answer after some seconds, or after an event."""

    async def talk(writer: asyncio.StreamWriter) -> None:
        if isinstance(wait, float):
            await asyncio.sleep(wait)
        else:
            while not wait.is_set():
                await asyncio.sleep(0.01)
        writer.write(answer)
        await writer.drain()

    return talk


@dataclass
class Server:
    """Answers each path by its script, whose last answer is repeated; remembers who asked.

    Whoever sends the ETag of the answer gets 304 instead.
    """

    scripts: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    at_once: Counter[str] = field(default_factory=Counter)
    most_at_once: Counter[str] = field(default_factory=Counter)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def says(self, path: str, *answers: Answer) -> None:
        self.scripts[path] = list(answers)

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> bytes | None:
        path, host = request.path, request.headers["host"].partition(":")[0]
        self.asked.append((path, request.headers))
        self.at_once[host] += 1
        self.most_at_once[host] = max(self.most_at_once[host], self.at_once[host])
        try:
            script = self.scripts[path]
            answer = script.pop(0) if len(script) > 1 else script[0]
            if callable(answer):
                await answer(writer)
                return None
            tag = request.headers.get("if-none-match", "").lower()
            if tag and f"\r\netag: {tag}\r\n".encode("latin-1") in answer.lower():
                return b"HTTP/1.1 304 Not Modified\r\n\r\n"
            return answer
        finally:
            self.at_once[host] -= 1


@contextmanager
def serving(server: Server | None = None) -> Iterator[Server]:
    """A running server, in a thread of its own."""
    server = server or Server()
    with listening(answering(server.answer), ["127.0.0.1"]) as addresses:
        server.port = addresses[0][1]
        yield server


@dataclass
class Clock:
    """A clock that advances on request."""

    now: int = START

    def __call__(self) -> int:
        return self.now


@dataclass
class Place:
    """An engine with its feeds and a spool, and a clock."""

    engine: Engine
    feeds: FeedRepository
    spool: Spool
    server: Server
    clock: Clock
    fetching: PollSettings

    def follow(self, url: str, **more: Any) -> Feed:
        feed, _ = follow(self.engine, self.feeds, FeedRequest(url, **more))
        due = replace(feed, next_poll=self.clock.now)  # it was added by the real clock
        self.feeds.record([due])
        return due

    def poll(self, *feeds: Feed) -> list[PolledFeed]:
        """Poll some feeds, else all of them, due or not."""
        chosen = [self.feeds[feed.key] for feed in feeds or self.feeds]
        return poll_now(self.feeds, self.spool, chosen, self.fetching)

    def wait(self, ticks: int) -> None:
        """Advance the time, and poll the feeds that become due."""
        end = self.clock.now + ticks
        while coming := [f.next_poll for f in self.feeds if not f.gone and f.next_poll <= end]:
            self.clock.now = max(self.clock.now, min(coming))
            poll_now(self.feeds, self.spool, self.feeds.due(self.clock.now), self.fetching)
        self.clock.now = end

    def listed(self, feed: Feed) -> dict[str, Any]:
        """The feed as `feeds list --json` shows it, its times in ticks."""
        return feed_row(self.feeds[feed.key], self.feeds.counts().get(feed.key, ItemCounts()))

    def spooled(self, feed: Feed) -> list[Document]:
        return [document for document in self.documents() if document.origin == feed.key]

    def documents(self) -> list[Document]:
        """All that the spool holds, in the order in which it came."""
        return [document for n in self.spool.numbers(0) for document in self.spool.read(n)]

    def titles(self, feed: Feed) -> list[str]:
        """The titles of the items in the order in which they came."""
        return [
            document.xml.decode().partition("<title>")[2].partition("</title>")[0]
            for document in self.spooled(feed)
        ]


@contextmanager
def placed(directory: Path, server: Server, **fetching: Any) -> Iterator[Place]:
    """A place whose names `*.example` all lead to the server."""

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        if host.endswith(".broken"):
            raise LookupError(host)
        if host.endswith(".example"):
            return ("127.0.0.1",)
        return (host,) if host[0].isdigit() else ()

    names = ("127.0.0.1", "a.example", "x.a.example", "b.example", "slow.example")
    allowed = tuple(f"{name}:{server.port}" for name in names)
    clock = Clock()
    with (
        Engine(directory / "state.db") as engine,
        FeedRepository(engine, directory / "spool") as feeds,
        Spool(directory / "spool") as spool,
    ):
        how = PollSettings(allowed, resolve=resolve, clock=clock)
        yield Place(engine, feeds, spool, server, clock, replace(how, **fetching))


@contextmanager
def polling(place: Place) -> Iterator[None]:
    """Poll what is due in a thread while the block runs."""
    stopping = threading.Event()
    work = keep_polling(place.feeds, place.spool, place.fetching, stopping)
    with beside(lambda: asyncio.run(work), until=stopping):
        yield
