"""The operator of the service: initial subscriptions and feeds, and repairs after faults."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from tests.simulation.clients import Act
from tests.simulation.host import Host
from tests.simulation.model import Model, Stream
from tests.simulation.sites import FEED, HOOK, ODD
from tests.soak.oracle import QUERY

ITEMS, POLLS = 6, 6
"""Items of the feed, and polls of the odd one, an hour."""


class Operation:
    """The operator of the service."""

    def __init__(self, host: Host, model: Model, draw: random.Random) -> None:
        self._host = host
        self._model = model
        self._draw = draw

    def acts(self) -> Sequence[Act]:
        """Return the operator's clients."""
        return [("publisher", ITEMS, self._publish), ("poller", POLLS, self._poll)]

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
        for host, name in ((FEED, "F"), (ODD, "O")):
            feed = {"url": f"http://{host}/", "stream": name, "every": "5 min"}
            until(operator, "POST", "/v1/feeds", feed)

    def _publish(self) -> None:
        """Add an item to the feed."""
        self._model.published.append(f"item-{len(self._model.published)}")

    def _poll(self) -> None:
        """Poll the odd feed, also if its server said that it is gone, and enable an endpoint."""
        operator = self._model.operator
        for feed in self._feeds():
            if ODD in feed["url"]:
                key = feed["key"]
                self._host.ask(operator, "PATCH", f"/v1/feeds/{key}", {"revive": True})
                self._host.ask(operator, "POST", f"/v1/feeds/{key}:poll")
        account = self._draw.choice([operator, *self._model.active_users])
        stream = account.streams[0]
        self._host.ask(account, "PATCH", _endpoint(stream), {"state": "active"})

    def repair(self) -> None:
        """Poll all feeds, and have all that waits delivered at once."""
        operator, until = self._model.operator, self._host.until
        for feed in self._feeds():
            until(operator, "PATCH", f"/v1/feeds/{feed['key']}", {"revive": True})
        for account in [operator, *self._model.active_users]:
            path = _endpoint(account.streams[0])
            until(account, "PATCH", path, {"state": "active"})
            until(account, "POST", f"{path}:replay", {})

    def _feeds(self) -> list[dict[str, str]]:
        answer = self._host.until(self._model.operator, "GET", "/v1/feeds")
        return list(json.loads(answer.body)["items"])


def _endpoint(stream: Stream) -> str:
    """Return the address of the endpoint of a stream's subscription."""
    return f"/v1/subscriptions/{stream.subscription}/endpoints/{stream.hook}"
