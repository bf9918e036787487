"""The process that is killed while it delivers: an engine, an outbox, and items that come.

    python -m tests.kills.deliverer DIRECTORY URL ITEMS

It continues what is in DIRECTORY, has so many new items, posts their matches to URL (on loopback),
and ends when all of them were taken.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import xscl
from tests.xscl.delivery.receiver import EACH, item
from xscl.delivery.channels.webhook import Posting
from xscl.delivery.endpoint import Webhook
from xscl.delivery.outbox.deliveries import RetryPolicy
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.polling.credentials import Credentials

SECONDS = 60.0


def deliver(directory: Path, url: str, items: int) -> None:
    """Deliver what waits, and the matches of new items."""
    posting = Posting(frozenset({urlsplit(url).netloc}))
    ways = DeliverySettings(
        directory / "files", posting=posting, pace=RetryPolicy(schedule=(0.05,) * 20)
    )
    with xscl.Engine(directory / "state.sqlite") as engine:
        outbox = Outbox(engine, Credentials(directory / "secrets.json"), ways)
        outbox.start()
        if not engine.subscriptions:
            engine.subscribe("q", EACH)
        if not outbox.endpoints.all():
            outbox.deliver("q", Webhook(url), after=0)
        first = outbox.pages.position()
        for number in range(first, first + items):
            outbox.notify(engine.push([item(number)]).matches)
        (endpoint,) = outbox.endpoints.all()
        until = time.monotonic() + SECONDS
        while outbox.endpoints[endpoint.id].position < outbox.pages.position():
            assert time.monotonic() < until, outbox.endpoints[endpoint.id]
            time.sleep(0.01)
        outbox.close()


if __name__ == "__main__":
    deliver(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
