"""The operator of the service: initial subscriptions and feeds, and repairs after faults."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from tests.simulation.clients import Act
from tests.simulation.host import Host
from tests.simulation.model import Model, Stream
from tests.simulation.sites import FEED, HOOK
from tests.soak.oracle import QUERY

ITEMS, ENABLES = 6, 6
"""Items of the feed, and endpoints that are enabled, an hour."""


class Operation:
    """The operator of the service."""

    def __init__(self, host: Host, model: Model, draw: random.Random) -> None:
        self._host = host
        self._model = model
        self._draw = draw

    def acts(self) -> Sequence[Act]:
        """Return the operator's clients."""
        return [("publisher", ITEMS, self._publish), ("enabler", ENABLES, self._enable)]

    def prepare(self) -> None:
        """Make the subscriptions, the endpoint and the feeds whose results the model knows."""
        operator, until = self._model.operator, self._host.until
        for stream in operator.streams:
            query = {"query": QUERY.format(stream=stream.name)}
            until(operator, "PUT", f"/v1/subscriptions/{stream.subscription}", query)
        query = {"query": "F//item[./title->x] FOLLOWED BY{x=y, 1 d} F//item[./title->y]"}
        until(operator, "PUT", "/v1/subscriptions/items", query)
        first = operator.streams[0]
        hook = {"kind": "webhook", "url": f"http://{HOOK}/{operator.mark}"}
        path = f"/v1/subscriptions/{first.subscription}/endpoints"
        first.hook = json.loads(until(operator, "POST", path, hook).body)["id"]
        feed = {"url": f"http://{FEED}/", "stream": "F", "every": "5 min"}
        until(operator, "POST", "/v1/feeds", feed)

    def _publish(self) -> None:
        """Add an item to the feed."""
        self._model.published.append(f"item-{len(self._model.published)}")

    def _enable(self) -> None:
        """Enable an endpoint that may have been disabled."""
        account = self._draw.choice([self._model.operator, *self._model.active_users])
        self._host.ask(account, "PATCH", _endpoint(account.streams[0]), {"state": "active"})

    def repair(self) -> None:
        """Poll all feeds, and have all that waits delivered at once."""
        operator, until = self._model.operator, self._host.until
        for feed in json.loads(until(operator, "GET", "/v1/feeds").body)["items"]:
            until(operator, "PATCH", f"/v1/feeds/{feed['key']}", {"revive": True})
        for account in [operator, *self._model.active_users]:
            path = _endpoint(account.streams[0])
            until(account, "PATCH", path, {"state": "active"})
            until(account, "POST", f"{path}:replay", {})


def _endpoint(stream: Stream) -> str:
    """Return the address of the endpoint of a stream's subscription."""
    return f"/v1/subscriptions/{stream.subscription}/endpoints/{stream.hook}"
