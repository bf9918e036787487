"""A replay of feeds on loopback: real entries, endlessly, at the times of the service's clock.

A source is a well-formed feed, or a series of snapshots of one feed.  Its entries are published one
after another, in cycles; each cycle gives them new ids.  An answer has as many entries as the feed
had, with current dates; every seventh entry is corrected later.  Feeds differ in how often they
publish.  Every tenth feed misbehaves in some answers.

Without real data (`tests.corpus`) the feeds of the project are replayed.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from pathlib import Path

from lxml import etree

from tests.corpus import SHARED, Corpus
from tests.waiting import PATIENCE
from xscl.polling.arrival_clock import SECOND

FEEDS = 201
HOSTS = tuple(f"127.0.1.{number}" for number in range(1, 33))
"""Addresses of loopback, each a domain of its own."""
LARGEST = 400_000
"""Bytes of a source, at most."""
QUICKEST, SLOWEST = 600.0, 18_000.0
"""Seconds of the service's clock between two entries of a feed."""
MOST = 30
"""Entries of an answer, at most."""
MISBEHAVES, CORRECTED = 10, 7
"""One feed of so many misbehaves, one entry of so many is corrected."""

_ITEMS = ("item", "entry")
_IDS = ("guid", "id")
_RFC822, _ISO = ("pubDate",), ("published", "updated", "issued", "modified", "created", "date")
_WORD = re.compile(r"[A-Za-z]{5,12}")


@dataclass(frozen=True)
class Source:
    """The entries of a feed in the order of publication, and the feed around them."""

    frame: etree._Element
    items: tuple[etree._Element, ...]
    shown: int
    """Entries of an answer."""

    def text(self, newest: int, moment: Callable[[int], float]) -> bytes:
        """Return the feed when an entry is the newest; `moment` is the time of an entry."""
        root = deepcopy(self.frame)
        parent = next(one for one in root.iter() if one.get("xscl-here"))
        del parent.attrib["xscl-here"]
        for number in range(newest, newest - self.shown, -1):
            item = deepcopy(self.items[number % len(self.items)])
            self._renew(item, number, moment(number))
            if number % CORRECTED == 0 and newest - number >= 2:
                for title in _named(item, ("title",)):
                    title.text = f"{title.text or ''} (corrected)"
            parent.append(item)
        return etree.tostring(root, xml_declaration=True, encoding="utf-8")

    def _renew(self, item: etree._Element, number: int, moment: float) -> None:
        """Give an entry its date, and an id of its cycle."""
        cycle = f"#{number // len(self.items)}"
        for one in _named(item, _IDS):
            one.text = f"{one.text or ''}{cycle}"
        for one in _named(item, ("link",)):
            if one.text and one.text.strip():
                one.text = one.text.strip() + cycle
            if "href" in one.attrib:
                one.set("href", one.get("href", "") + cycle)
        when = datetime.fromtimestamp(moment, UTC)
        for one in _named(item, _RFC822):
            one.text = format_datetime(when)
        for one in _named(item, _ISO):
            one.text = when.isoformat()

    def words(self) -> Iterator[str]:
        """Yield the words of the titles."""
        for item in self.items:
            for title in _named(item, ("title",)):
                yield from _WORD.findall(title.text or "")


def _named(item: etree._Element, names: tuple[str, ...]) -> list[etree._Element]:
    """Return the children with one of these local names."""
    return [one for one in item if isinstance(one.tag, str) and etree.QName(one).localname in names]


def _source(files: list[Path]) -> Source | None:
    """Return the feed of some snapshots, None for one without entries that lxml can read."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    frame, items, shown = None, dict[str, etree._Element](), 0
    for file in files:
        try:
            root = etree.fromstring(file.read_bytes(), parser)
        except etree.XMLSyntaxError:
            return None
        found = [
            one
            for one in root.iter()
            if isinstance(one.tag, str) and etree.QName(one).localname in _ITEMS
        ]
        for item in reversed(found):
            named = [one.text or "" for one in _named(item, _IDS)]
            key = named[0] if named else etree.tostring(item, encoding="unicode")
            item.tail = None
            items.setdefault(key, deepcopy(item))
        if frame is None and found:
            parent = found[0].getparent()
            assert parent is not None
            for item in found:
                item.getparent().remove(item)  # type: ignore[union-attr]
            parent.set("xscl-here", "1")
            frame, shown = root, min(len(found), MOST)
    return None if frame is None else Source(frame, tuple(items.values()), shown)


@lru_cache(1)
def sources() -> tuple[Source, ...]:
    """Return all sources: series of snapshots, then single feeds."""
    data = Corpus(SHARED.is_dir())
    series = sorted(one for one in data.folder("rss-sync-open").iterdir() if one.is_dir())
    single = sorted(
        one
        for one in data.folder("real-feeds").rglob("*")
        if one.suffix in (".xml", ".rdf", ".atom", ".rss") and one.stat().st_size < LARGEST
    )
    files = [*(sorted(one.glob("*.xml")) for one in series), *([one] for one in single)]
    return tuple(found for one in files if (found := _source(one)) is not None)


def words(count: int) -> list[str]:
    """Return the most frequent words of titles."""
    seen = Counter(word for source in sources() for word in set(source.words()))
    return [word for word, _ in seen.most_common(count)]


# -- The server ----------------------------------------------------------------------------


@dataclass
class Replay:
    """The feeds, by number; `now` returns seconds since the epoch by the service's clock."""

    now: Callable[[], float]
    feeds: int = FEEDS
    answers: Counter[str] = field(default_factory=Counter)
    ports: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = self.now()
        self._asked = frozenset[int]()
        self._every = [
            QUICKEST * (SLOWEST / QUICKEST) ** random.Random(number).random()
            for number in range(self.feeds)
        ]

    def urls(self) -> list[str]:
        """Return the addresses of the feeds."""
        places = [self.ports[number % len(self.ports)] for number in range(self.feeds)]
        return [f"http://{host}:{port}/{n}.xml" for n, (host, port) in enumerate(places)]

    def body(self, number: int) -> bytes:
        """Return the current text of a feed."""
        source, every = sources()[number % len(sources())], self._every[number]
        newest = int((self.now() - self._began) // every) + source.shown
        return source.text(newest, lambda n: self._began + (n - source.shown) * every)

    def does(self, number: int) -> str:
        """Return the kind of the next answer: `feed`, or a kind of misbehaviour, but at first."""
        is_first, self._asked = number not in self._asked, self._asked | {number}
        if is_first or number % MISBEHAVES or random.random() < 0.5:
            return "feed"
        return random.choice(
            ("500", "503", "404", "loop", "cut", "reset", "page", "empty", "slow", "noise")
        )

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            asked = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            path = head[0].split()[1]
            number = int(path.strip("/").partition(".")[0])
            does = self.does(number)
            if does == "slow":
                await asyncio.sleep(3)
            body = self.body(number)
            tag = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
            if does == "feed" and asked.get("if-none-match") == tag:
                does = "unchanged"
            self.answers[does] += 1
            if does == "reset":
                writer.transport.abort()
                return
            writer.write(_answer(does, path, body, tag))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        except asyncio.CancelledError:  # the server ends, and so does this task
            writer.transport.abort()
        finally:
            writer.close()


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
def replaying(now: Callable[[], float], feeds: int = FEEDS) -> Iterator[Replay]:
    """A running server of feeds, in a thread of its own."""
    replay, ready, stopping = Replay(now, feeds), threading.Event(), asyncio.Event()
    sources()

    async def run() -> None:
        listener = await asyncio.start_server(replay.handle, HOSTS, 0)
        replay.ports = [one.getsockname()[:2] for one in listener.sockets]
        ready.set()
        await stopping.wait()
        listener.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield replay
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE)
        loop.close()


def seconds_of(clock: Callable[[], int]) -> Callable[[], float]:
    """Return a clock in seconds for one in ticks."""
    return lambda: clock() / SECOND
