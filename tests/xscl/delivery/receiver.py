"""A receiver of webhooks on loopback, which does what each test wants; and an outbox to send."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import xscl
from feeds.http.addresses import resolve
from feeds.http.connection import RequestSettings
from tests.thread_server import Request, answering, listening
from tests.waiting import PATIENCE
from tests.waiting import eventually as eventually  # for the tests of deliveries
from xscl.delivery.channels.mail import MailServer
from xscl.delivery.channels.signature import sign
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox, RetryPolicy
from xscl.polling.credentials import Credentials

QUICK = RetryPolicy(schedule=(0.05, 0.05, 0.05), ending=2.0)

Does: TypeAlias = bytes | Literal["slow", "hang", "endless", "reset"]
"""What a receiver does: it answers with these bytes, or it misbehaves."""

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


def status(code: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} X", "Content-Length: 0", *headers, "", ""]
    return "\r\n".join(lines).encode()


@dataclass(frozen=True, slots=True)
class Got:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> Any:
        return json.loads(self.body)["data"]


@dataclass
class Receiver:
    """Takes requests, and does at each path what its script says; the last of it for ever."""

    scripts: dict[str, list[Does]] = field(default_factory=dict)
    choose: dict[str, Callable[[Got], Does]] = field(default_factory=dict)
    got: list[Got] = field(default_factory=list)
    sent: int = 0
    port: int = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def does(self, path: str, *script: Does) -> str:
        self.scripts[path] = list(script)
        return self.url(path)

    def at(self, path: str) -> list[Got]:
        return [got for got in list(self.got) if got.path == path]

    def ids(self, path: str) -> list[str]:
        return [got.id for got in self.at(path)]

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> bytes | None:
        got = Got(request.path, request.headers, request.body, time.monotonic())
        self.got.append(got)
        script = self.scripts.get(got.path, [OK])
        chosen = self.choose.get(got.path)
        does = chosen(got) if chosen else script.pop(0) if len(script) > 1 else script[0]
        match does:
            case "slow":
                await asyncio.sleep(0.5)
                return OK
            case "hang":
                await asyncio.sleep(PATIENCE)
            case "reset":
                writer.transport.abort()
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    writer.write(b"x" * 4096)
                    await writer.drain()
                    self.sent += 4096
            case bytes():
                return does
        return None


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A running receiver, in a thread of its own."""
    receiver = Receiver()
    with listening(answering(receiver.answer), ["127.0.0.1"]) as addresses:
        receiver.port = addresses[0][1]
        yield receiver


ITEM = "S//item->i[./tag->t] FOLLOWED BY{t=u, 1000} S//item->j[./tag->u]"
"""Each item matches all earlier ones with a tag in common."""
EACH = "S//item->i[./tag->t]"
"""Each item is a match for each of its tags."""


def item(number: int, *tags: str, history: bool = False) -> xscl.Document:
    inside = "".join(f"<tag>{tag}</tag>" for tag in tags or ("a",))
    title = f"<title>Item {number}</title><item_url>http://example.org/{number}</item_url>"
    xml = f"<item>{title}{inside}</item>".encode()
    return xscl.Document("S", f"d{number}", number, xml, history)


@dataclass
class Sending:
    """An engine and its outbox, which can be ended and begun again."""

    engine: xscl.Engine
    outbox: Outbox
    number: int = 0

    def push(self, *documents: xscl.Document) -> None:
        self.outbox.notify(self.engine.push(documents).matches)

    def items(self, count: int = 1, *tags: str) -> None:
        for _ in range(count):
            self.push(item(self.number, *tags))
            self.number += 1


@contextmanager
def sending(
    receiver: Receiver,
    secrets: Credentials,
    path: Path | None = None,
    *,
    pace: RetryPolicy = QUICK,
    files: Path | None = None,
    mail: MailServer | None = None,
    seconds: float = 5.0,
    names: Sequence[str] = (),
) -> Iterator[Sending]:
    """An outbox at work, over a new engine or that of a file; `names` are the receiver's, too."""

    async def named(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",) if host in names else await resolve(host, port)

    allowed = frozenset(f"{name}:{receiver.port}" for name in ("127.0.0.1", *names))
    requests = RequestSettings(allowed, seconds, named)
    ways = DeliverySettings(files or Path("nowhere"), mail, requests, pace)
    with xscl.Engine(path) as engine:
        outbox = Outbox(engine, secrets, ways)
        outbox.start()
        try:
            yield Sending(engine, outbox)
        finally:
            outbox.close()


def is_signed(secret: str, got: Got) -> bool:
    """Return True if a message was signed with a secret, within the last minutes."""
    at = int(got.headers["webhook-timestamp"])
    assert abs(time.time() - at) < 300
    return sign(secret, got.id, at, got.body) in got.headers["webhook-signature"].split()
