"""Clients of the operator: documents, registrations, reads."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tests.simulation.host import Host
from tests.simulation.model import POSTERS, SHARED, Model
from tests.simulation.service import Refused
from tests.simulation.sites import FEED, HOOK
from tests.stress.oracle import QUERY

PUSHES = 330
"""Documents an hour, without those of bursts."""
BURSTS = 20
REGISTRATIONS = 34
READS = 14
ITEMS = 6
PAGES = (
    *("/v1/status", "/v1/matches", "/v1/subscriptions/pairs-1/matches", "/v1/feeds"),
    "/status",
)


class Clients:
    """Clients of one service; each act is one request, or some at the same time."""

    def __init__(self, host: Host, model: Model, draw: random.Random) -> None:
        self._host = host
        self._model = model
        self._draw = draw
        self._registering: set[str] = set()

    def acts(self) -> Sequence[tuple[str, float, Callable[[], None]]]:
        """Return the name of each client, its acts an hour, and the act."""
        return [
            *((f"poster {n}", PUSHES / POSTERS, partial(self._post, n)) for n in range(POSTERS)),
            ("burst", BURSTS, self._burst),
            ("registrar", REGISTRATIONS, self._register),
            ("reader", READS, self._read),
            ("publisher", ITEMS, self._publish),
        ]

    def prepare(self) -> None:
        """Make the subscriptions, the endpoint and the feed whose results the model knows."""
        until = self._host.until
        for sent in self._model.sent:
            query = {"query": QUERY.format(stream=sent.stream)}
            until("PUT", f"/v1/subscriptions/{sent.subscription}", query)
        until("PUT", "/v1/subscriptions/shared", {"query": QUERY.format(stream=SHARED)})
        query = {"query": "F//item[./title->x] FOLLOWED BY{x=y, 1 d} F//item[./title->y]"}
        until("PUT", "/v1/subscriptions/items", query)
        hook = {"kind": "webhook", "url": f"http://{HOOK}/pairs-0"}
        until("POST", "/v1/subscriptions/pairs-0/endpoints", hook)
        until("POST", "/v1/feeds", {"url": f"http://{FEED}/", "stream": "F", "every": "5 min"})

    def _post(self, number: int) -> None:
        """Post the next document of a poster."""
        sent, unknown = self._model.sent[number], self._model.unknown
        made = len(sent.acknowledged) + len(sent.refused)
        name, key = f"{number}-{made}", f"{number}-{made // 8}-{self._draw.randrange(4)}"
        self._model.counts["pushes"] += 1
        sent.acknowledged.append((name, key))
        unknown.add(name)  # until there is an answer; else the store decides
        content = f"<a><k>{key}</k></a>".encode()
        answer = self._host.ask("POST", f"/v1/documents/{sent.stream}", content, {"id": name})
        if answer.status == 202:
            unknown.discard(name)
        elif answer.status in (429, 503):
            unknown.discard(name)
            sent.acknowledged.pop()
            sent.refused.add(name)

    def _burst(self) -> None:
        """Post documents to one stream at the same time; their order is the service's."""
        burst = self._model.counts["bursts"]
        self._model.counts["bursts"] += 1

        def post(name: str) -> None:
            time.sleep(random.Random(name).random())
            self._model.counts["pushes"] += 1
            path, content = f"/v1/documents/{SHARED}", f"<a><k>{burst}</k></a>".encode()
            with suppress(Refused):  # the store decides
                if self._host.ask("POST", path, content, {"id": name}).status == 202:
                    self._model.shared.add(name)

        names = [f"burst-{burst}-{n}" for n in range(12)]
        threads = [threading.Thread(target=post, args=(name,), name=name) for name in names]
        threads += [threading.Thread(target=self._register_soon) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _register_soon(self) -> None:
        time.sleep(self._draw.random())
        with suppress(Refused):
            self._register()

    def _register(self) -> None:
        """Subscribe or unsubscribe under one of some names, one request for each at a time."""
        name = f"s{self._draw.randrange(40)}"
        if name in self._registering:
            return
        self._registering.add(name)
        try:
            self._register_as(name)
        finally:
            self._registering.discard(name)

    def _register_as(self, name: str) -> None:
        path = f"/v1/subscriptions/{name}"
        self._model.counts["registrations"] += 1
        before = self._model.subscriptions.get(name, False)
        self._model.subscriptions[name] = None
        if before and self._draw.random() < 0.5:
            answer = self._host.ask("DELETE", path)
            if answer.status == 204:
                self._model.subscriptions[name] = False
            return
        stream = f"P{self._draw.randrange(POSTERS)}"
        query = self._draw.choice(
            [
                QUERY.format(stream=stream),
                f"{stream}//a[./k->x] NEXT{{x=y}} {stream}//a[./k->y]",
                f"{stream}//a[./k->x] NOT FOLLOWED BY{{x=y, 10 min}} {stream}//a[./k->y]",
                f"{stream}//a->a",
                f"{stream}//a[./k->x] FOLLOWED BY{{x=y, 20 min}} F//item/title->y",
            ]
        )
        answer = self._host.ask("PUT", path, {"query": query})
        if answer.status < 300 or (answer.status == 409 and before is not False):
            self._model.subscriptions[name] = True
        elif answer.status < 500:
            told = f"{answer.status} {answer.body[:200]!r}"
            self._host.journal.wrong(f"{query!r} is refused: {told}")

    def _read(self) -> None:
        """Read a page."""
        self._model.counts["reads"] += 1
        path = self._draw.choice(PAGES)
        answer = self._host.ask("GET", path)
        if answer.status == 200 and path.endswith("/matches"):
            ids = [match["id"] for match in json.loads(answer.body)["matches"]]
            if len(ids) != len(set(ids)):
                self._host.journal.wrong(f"a page of {path} has a match twice")

    def _publish(self) -> None:
        """Add an item to the feed."""
        self._model.published.append(f"item-{len(self._model.published)}")
