"""The operator of the service: initial subscriptions and feeds, and repairs after faults."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.simulation.clients import Act, Part
from tests.simulation.sites import FEED, HOOK
from tests.soak.oracle import QUERY

ITEMS, ENABLES = 6, 6
"""Items of the feed, and endpoints that are enabled, an hour."""


class Operation(Part):
    """The operator of the service."""

    def acts(self) -> Sequence[Act]:
        """Return the operator's clients."""
        return [("publisher", ITEMS, self._publish), ("enabler", ENABLES, self._enable)]

    def prepare(self) -> None:
        """Make the subscriptions, the endpoint and the feeds whose results the model knows."""
        until = self._host.until
        for stream in self._model.streams:
            query = {"query": QUERY.format(stream=stream.name)}
            until("PUT", f"/v1/subscriptions/{stream.subscription}", query)
        query = {"query": "F//item[./title->x] FOLLOWED BY{x=y, 1 d} F//item[./title->y]"}
        until("PUT", "/v1/subscriptions/items", query)
        first = self._model.streams[0]
        hook = {"kind": "webhook", "url": f"http://{HOOK}/"}
        path = f"/v1/subscriptions/{first.subscription}/endpoints"
        first.hook = json.loads(until("POST", path, hook).body)["id"]
        feed = {"url": f"http://{FEED}/", "stream": "F", "every": "5 min", "keep": True}
        until("POST", "/v1/feeds", feed)

    def _publish(self) -> None:
        """Add an item to the feed."""
        self._model.published.append(f"item-{len(self._model.published)}")

    def _enable(self) -> None:
        """Enable an endpoint that may have been disabled."""
        self._host.ask("PATCH", self._endpoint(), {"state": "active"})

    def repair(self) -> None:
        """Poll all feeds, and have all that waits delivered at once."""
        until = self._host.until
        for feed in json.loads(until("GET", "/v1/feeds").body)["items"]:
            until("PATCH", f"/v1/feeds/{feed['key']}", {"revive": True})
        until("PATCH", self._endpoint(), {"state": "active"})
        until("POST", f"{self._endpoint()}:replay", {})

    def _endpoint(self) -> str:
        """Return the address of the endpoint of the first stream's subscription."""
        stream = self._model.streams[0]
        return f"/v1/subscriptions/{stream.subscription}/endpoints/{stream.hook}"
