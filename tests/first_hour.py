"""The first hour of a new user on the command line: `python -m tests.first_hour`.

It begins in an empty directory and uses the commands of the README only.  Two feeds are published
on the loopback address.  Each step prints what the user typed, what was said, and how long it took.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
CASE = "The same story in two feeds"
"""The entry of the gallery that the user takes."""
PATIENCE = 120.0
"""Seconds of a watchdog, however busy the machine is."""


class Publisher(ThreadingHTTPServer):
    """Feeds on the loopback address, whose items are added while they are served."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"127.0.0.1:{self.server_port}"
        self.items: dict[str, list[tuple[str, datetime]]] = {}
        self.answered: dict[str, float] = {}
        """The monotonic time of the last answer, by feed."""

    def publish(self, feed: str, title: str, hours_ago: float = 0.0) -> None:
        """Add an item to a feed."""
        at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=hours_ago)
        self.items.setdefault(feed, []).append((title, at))

    def url(self, feed: str) -> str:
        return f"http://{self.address}/{feed}.rss"

    def body(self, feed: str) -> bytes:
        """Return a feed as RSS."""
        items = "".join(
            f"<item><title>{escape(title)}</title><link>http://{feed}.example/{number}</link>"
            f"<guid>http://{feed}.example/{number}</guid>"
            f"<pubDate>{format_datetime(at)}</pubDate></item>"
            for number, (title, at) in enumerate(self.items[feed], 1)
        )
        channel = f"<title>{feed}</title><link>http://{feed}.example/</link>"
        return (
            f'<rss version="2.0"><channel>{channel}<description>{feed}</description>{items}'
            "</channel></rss>"
        ).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        feed = self.path.strip("/").removesuffix(".rss")
        body = self.server.body(feed)
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.answered[feed] = time.monotonic()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@dataclass(frozen=True)
class Step:
    """A step: what was typed, the exit code, what was said, and the seconds that it took."""

    words: tuple[str, ...]
    code: int
    said: str
    complained: str
    seconds: float


@dataclass
class Hour:
    """The commands of one user in a directory, in their order."""

    directory: Path
    publisher: Publisher
    steps: list[Step] = field(default_factory=list)

    def xscl(self, *words: str, code: int = 0) -> str:
        """Run a command; return what it says.  It must end with this exit code."""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "xscl", *words],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        seconds = time.monotonic() - began
        self.steps.append(Step(words, done.returncode, done.stdout, done.stderr, seconds))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def matches(self, name: str) -> list[dict[str, Any]]:
        """Return the matches of a subscription."""
        return [json.loads(line) for line in self.xscl("matches", name, "--json").splitlines()]

    def titles(self, name: str) -> list[tuple[str, ...]]:
        """Return the titles of the documents of each match of a subscription."""
        return [tuple(one["title"] for one in match["sources"]) for match in self.matches(name)]

    @property
    def environment(self) -> dict[str, str]:
        allowed = {"XSCL_ALLOW_ADDRESS": self.publisher.address, "PYTHONPATH": str(ROOT)}
        return {**os.environ, **allowed}

    @contextmanager
    def served(self) -> Iterator[IO[str]]:
        """Run `xscl serve` while the block runs; yield what it prints."""
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "xscl", "serve", "--no-spark", "--port", "0"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as service:
            assert service.stdout is not None
            try:
                yield service.stdout
            finally:
                service.send_signal(signal.SIGINT)
                assert service.stderr is not None
                said = service.stderr.read()
        assert service.returncode == 0, said


def gallery_query(title: str) -> str:
    """Return the query of an entry of docs/gallery.md."""
    text = (ROOT / "docs/gallery.md").read_text("utf-8")
    found = re.search(rf"^## {re.escape(title)}$.*?^```xscl\n(.*?)^```$", text, re.S | re.M)
    assert found is not None
    return found[1]


@contextmanager
def begun(directory: Path) -> Iterator[Hour]:
    """Yield an hour in an empty directory, with two feeds to follow."""
    with Publisher() as publisher:
        threading.Thread(target=publisher.serve_forever, args=(0.05,), daemon=True).start()
        publisher.publish("harbour-post", "Ferry stops at noon", 30)
        publisher.publish("harbour-post", "Market day", 4)
        publisher.publish("port-times", "FERRY stops at noon", 28)
        try:
            yield Hour(directory, publisher)
        finally:
            publisher.shutdown()


def go_through(hour: Hour) -> None:
    """Take all steps; raises AssertionError at the first one that fails."""
    (hour.directory / "same.xscl").write_text(gallery_query(CASE))
    (hour.directory / "sooner.xscl").write_text(gallery_query(CASE).replace("3 d", "2 d"))
    with hour.served():
        _use(hour)
    hour.xscl("export", "mine.json")
    assert "same-story" in (hour.directory / "mine.json").read_text("utf-8")


def _use(hour: Hour) -> None:
    """Follow feeds, subscribe, see what is there and what comes, change, pause."""
    for feed in hour.publisher.items:
        assert "following" in hour.xscl("feeds", "add", hour.publisher.url(feed), "--tag", "news")
    old = ("Ferry stops at noon", "FERRY stops at noon")
    assert "harbour-post.example" in hour.xscl("try", "@same.xscl")
    hour.xscl("subscribe", "same-story", "@same.xscl")
    _until(lambda: hour.titles("same-story") == [old])
    hour.publisher.publish("port-times", "Market DAY")
    new = ("Market day", "Market DAY")
    answer = hour.xscl("feeds", "poll", "--all")
    assert all(title in answer for title in new), "the answer of the poll has the match"
    assert hour.titles("same-story") == [old, new]
    text = hour.xscl("matches", "same-story")
    assert all(word in text for word in ("Market DAY", "port-times.example/2", "harbour-post"))
    hour.xscl("edit", "same-story", "@sooner.xscl")
    assert hour.titles("same-story") == [old, new]
    hour.xscl("pause", "same-story")
    hour.publisher.publish("harbour-post", "Market day, again")
    hour.publisher.publish("port-times", "market day, AGAIN")
    hour.xscl("feeds", "poll", "--all")
    assert hour.titles("same-story") == [old, new]
    assert "kept" in hour.xscl("status")
    hour.xscl("feeds", "export", "mine.opml")


def _until(holds: Any) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it did not come true"


def main() -> None:
    """Print the steps of a first hour."""
    with (
        tempfile.TemporaryDirectory(prefix="xscl-hour-") as directory,
        begun(Path(directory)) as hour,
    ):
        try:
            go_through(hour)
        finally:
            for step in hour.steps:
                print(f"{step.seconds:5.1f} s  xscl {' '.join(step.words)}")
                for line in (step.said + step.complained).splitlines()[:6]:
                    print(f"         {line[:140]}")


if __name__ == "__main__":
    main()
