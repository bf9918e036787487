"""Sites of the simulated network: servers of feeds, and receivers of webhooks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

from tests.simulation.model import Model
from tests.simulation.network import Answer, Request

HOOK = "hook.example"
FEED = "feed.example"
RSS = {"Content-Type": "application/rss+xml"}

ILL: tuple[Answer, ...] = (
    *(Answer(status=500), Answer(status=None), Answer(b"<rss", cut=2), Answer(b"no feed")),
    *(Answer(status=429, headers={"Retry-After": "60"}), Answer(status=401), Answer(status=404)),
    Answer(b'<rss version="2.0"><channel><item><title>cut', delay=10),
    Answer(b"<rss version='2.0'><channel>", headers={"Content-Length": "100000"}),
)
"""Answers that are no feed, after which nothing may be lost."""


def rss(items: Iterable[str]) -> bytes:
    """Return a feed of items."""
    return b'<rss version="2.0"><channel><title>t</title>%s</channel></rss>' % (
        "".join(items).encode()
    )


def item(name: str) -> str:
    """Return an item with an identity."""
    return f"<item><guid isPermaLink='false'>{name}</guid><title>{name}</title></item>"


class FeedServer:
    """Publishes the items of the model, or the answer of a fault."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.fault: Answer | None = None

    def __call__(self, request: Request) -> Answer:
        """Answer a poll."""
        if self.fault is not None:
            return self.fault
        published, tag = self._model.published, f'"{len(self._model.published)}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(status=304)
        return Answer(rss(item(name) for name in published[-200:]), headers={**RSS, "ETag": tag})


class Receiver:
    """Receives matches; while a fault lasts, it refuses them in one way or in several."""

    REFUSALS: tuple[Answer, ...] = (
        *(Answer(status=503), Answer(status=None), Answer(delay=40), Answer(status=500)),
        Answer(status=429, headers={"Retry-After": "20"}),
        Answer(status=302, headers={"Location": f"http://{FEED}/"}),
        Answer(status=410),
    )

    def __init__(self, model: Model, draw: random.Random) -> None:
        self._model = model
        self._draw = draw
        self.refusals: tuple[Answer, ...] = ()
        self.slow = 0.0

    def __call__(self, request: Request) -> Answer:
        """Answer a webhook."""
        id, stream = json.loads(request.body)["data"]["id"], self._model.streams[0]
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
