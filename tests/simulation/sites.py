"""Sites of the simulated network: servers of feeds, and receivers of webhooks."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable
from itertools import count

from tests.simulation.journal import Journal
from tests.simulation.model import Model, Stream
from tests.simulation.network import Answer, Request
from tests.simulation.visibility import foreign

HOOK = "hook.example"
FEED = "feed.example"
ODD = "odd.test"
RSS = {"Content-Type": "application/rss+xml"}

_BOMB = gzip.compress(bytes(20_000_000), 1)
"""Twenty megabytes in some kilobytes."""

ILL: tuple[Answer, ...] = (
    *(Answer(status=500), Answer(status=None), Answer(b"<rss", cut=2), Answer(b"no feed")),
    *(Answer(status=429, headers={"Retry-After": "60"}), Answer(status=401), Answer(status=404)),
    Answer(b'<rss version="2.0"><channel><item><title>cut', delay=10),
    Answer(b"<rss version='2.0'><channel>", headers={"Content-Length": "100000"}),
    Answer(b"\x1f\x8bno gzip", headers={**RSS, "Content-Encoding": "gzip"}),
    Answer(
        b"<html><body><form>sign in</form></body></html>", headers={"Content-Type": "text/html"}
    ),
    Answer(b"x" * 16_384, endless=True),
    Answer(b"", headers={f"X-{number}": "y" * 300 for number in range(900)}),
    Answer(status=302, headers={"Location": f"http://{FEED}/"}),
    Answer(status=302, headers={"Location": "http://10.0.0.1/"}),
    Answer(status=301, headers={"Location": "file:///etc/passwd"}),
)
"""Answers that are no feed, after which nothing may be lost."""


def rss(items: Iterable[str]) -> bytes:
    """Return a feed of items."""
    return b'<rss version="2.0"><channel><title>t</title>%s</channel></rss>' % (
        "".join(items).encode()
    )


def item(name: str, *more: str) -> str:
    """Return an item with an identity."""
    told = "".join(more) or f"<title>{name}</title>"
    return f"<item><guid isPermaLink='false'>{name}</guid>{told}</item>"


class FeedServer:
    """Publishes the items of the model, or the answer of a fault.

    `habit` is what a server may do: validators that change or are wrong, items that are left out
    or reversed.
    """

    HABITS = ("new validators", "unchanged", "in the future", "empty", "reversed", "moved")

    def __init__(self, model: Model) -> None:
        self._model = model
        self._polls = count()
        self.fault: Answer | None = None
        self.habit: str | None = None

    def __call__(self, request: Request) -> Answer:
        """Answer a poll."""
        if self.fault is not None:
            return self.fault
        published, tag = self._model.published, f'"{len(self._model.published)}"'
        headers = {**RSS, "ETag": tag}
        items = [item(name) for name in published[-200:]]
        match self.habit:
            case "new validators":
                headers["ETag"] = f'"{next(self._polls)}-new"'
            case "unchanged" if request.headers.get("if-none-match"):
                return Answer(status=304)
            case "in the future":
                headers = {**RSS, "Last-Modified": "Fri, 31 Dec 2100 00:00:00 GMT"}
            case "empty":
                items = []
            case "reversed":
                items.reverse()
            case "moved" if request.path != "/moved":
                return Answer(status=301, headers={"Location": f"http://{FEED}/moved"})
        if self.habit is None and request.headers.get("if-none-match") == tag:
            return Answer(status=304)
        return Answer(rss(items), headers=headers)


class OddFeedServer:
    """Answers each poll in another odd way; what it publishes is of no importance."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._polls = count()
        self._ways: tuple[Callable[[int], Answer], ...] = (
            *(self._edited, self._without_identity, self._twice, self._dated, self._many),
            *(self._linked, self._bomb, self._gone, self._put_off, self._ill, self._ill),
        )

    def __call__(self, request: Request) -> Answer:
        """Answer a poll."""
        return self._draw.choice(self._ways)(next(self._polls))

    def _ill(self, poll: int) -> Answer:
        return self._draw.choice(ILL)

    def _edited(self, poll: int) -> Answer:
        return Answer(rss([item("same", f"<title>edit {poll}</title>")]), headers=RSS)

    def _without_identity(self, poll: int) -> Answer:
        items = [f"<item><title>no guid {poll % 3}</title></item>" for _ in range(3)]
        return Answer(rss([*items, item("g" * 50_000)]), headers=RSS)

    def _twice(self, poll: int) -> Answer:
        items = [item("twice", f"<title>{title} {poll}</title>") for title in ("one", "other")]
        return Answer(rss(items), headers=RSS)

    def _dated(self, poll: int) -> Answer:
        dates = (
            *("Mon, 01 Jan 0001 00:00:00 +1400", "Fri, 31 Dec 9999 23:59:59 -1200", "yesterday"),
            *("Sat, 31 Dec 2016 23:59:60 GMT", "Wed, 01 Mar 2028 00:00:00 GMT", ""),
        )
        items = [
            item(f"dated {n} {poll}", f"<title>t</title><pubDate>{date}</pubDate>")
            for n, date in enumerate(dates)
        ]
        return Answer(rss(items), headers=RSS)

    def _many(self, poll: int) -> Answer:
        return Answer(rss(item(f"many {n}") for n in range(400)), headers=RSS)

    def _linked(self, poll: int) -> Answer:
        links = ("javascript:alert(1)", "data:text/html,x", "../up", "http://me:secret@odd.test/")
        items = [item(f"linked {link}", f"<link>{link}</link>") for link in links]
        return Answer(rss(items), headers=RSS)

    def _bomb(self, poll: int) -> Answer:
        return Answer(_BOMB, headers={**RSS, "Content-Encoding": "gzip"})

    def _gone(self, poll: int) -> Answer:
        return Answer(status=410)

    def _put_off(self, poll: int) -> Answer:
        wishes = ("garbage", "-5", "30", "600")
        return Answer(status=429, headers={"Retry-After": self._draw.choice(wishes)})


class Receiver:
    """Receives matches; while a fault lasts, it refuses them in one way or in several."""

    REFUSALS: tuple[Answer, ...] = (
        *(Answer(status=503), Answer(status=None), Answer(delay=40), Answer(status=500)),
        Answer(status=429, headers={"Retry-After": "20"}),
        Answer(status=302, headers={"Location": f"http://{FEED}/"}),
        Answer(status=410),
    )

    def __init__(self, model: Model, journal: Journal, draw: random.Random) -> None:
        self._model = model
        self._journal = journal
        self._draw = draw
        self.refusals: tuple[Answer, ...] = ()
        self.slow = 0.0

    def __call__(self, request: Request) -> Answer:
        """Answer a webhook."""
        mark, id = request.path.strip("/"), json.loads(request.body)["data"]["id"]
        account = next(one for one in self._model.accounts if one.mark == mark)
        if seen := foreign(account, request.body.decode()):
            self._journal.wrong(f"the webhook of {mark} gets {seen}")
        stream: Stream = account.streams[0]
        if self.refusals:
            refusal = self._draw.choice(self.refusals)
            if refusal.status in (500, 302):
                stream.put_aside.add(id)
            if refusal.status is not None and refusal.status >= 300:
                return refusal
            # It has processed the message, and its answer comes too late or never.
            stream.received.setdefault(id)
            return refusal
        stream.received.setdefault(id)
        return Answer(status=204, delay=self.slow)
