"""Sites of the simulated network: the server of a feed, and a receiver of webhooks."""

from __future__ import annotations

import json
import random

from tests.simulation.model import Model
from tests.simulation.network import Answer, Request

HOOK = "hook.example"
FEED = "feed.example"


class FeedServer:
    """Publishes the items of the model, or the answer of a fault."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.fault: Answer | None = None

    def __call__(self, request: Request) -> Answer:
        """Answer a poll."""
        if self.fault is not None:
            return self.fault
        items = "".join(
            f"<item><guid isPermaLink='false'>{name}</guid><title>{name}</title></item>"
            for name in self._model.published[-200:]
        )
        body = f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()
        return Answer(body, headers={"Content-Type": "application/rss+xml"})


class Receiver:
    """Receives matches, unless a fault lasts."""

    def __init__(self, model: Model, draw: random.Random) -> None:
        self._model = model
        self._draw = draw
        self.is_broken = False

    def __call__(self, request: Request) -> Answer:
        """Answer a webhook."""
        if self.is_broken:
            return self._draw.choice([Answer(status=503), Answer(status=None), Answer(delay=40)])
        self._model.received[json.loads(request.body)["data"]["id"]] += 1
        return Answer(status=204)
