"""Clients that send documents, register queries and list matches."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from tests.simulation.host import Host
from tests.simulation.model import POSTERS, SHARED, Model, Pushed, Stream
from tests.simulation.service import Refused
from tests.soak.oracle import QUERY

Act: TypeAlias = tuple[str, float, Callable[[], None]]
"""The name of a client, its acts an hour, and one of them."""

POSTS = 25
"""Documents of each poster, an hour."""
BURSTS = 50
SIZES = (12, 2, 3, 4, 3)
"""Documents that come at the same time, in one burst after another."""
REGISTRATIONS = 20
EDITS = 20
READS = 30
AGAIN, HANGS_UP, HISTORIES = 0.04, 0.04, 0.15
"""The probabilities that a document is sent twice, that a client hangs up, and of a history."""

UNDONE = ("busy", "too_many_requests")
"""Codes of problems that say that nothing was done; after a failed write it may have been."""


@dataclass(eq=False)
class Part:
    """A part of a world: what it does to the host, by random numbers of its own."""

    _host: Host
    _model: Model
    _draw: random.Random


@dataclass(eq=False)
class Clients(Part):
    """Clients of one service; each act is one request, or some at the same time."""

    _registering: set[str] = field(default_factory=set)

    def acts(self) -> Sequence[Act]:
        """Return the clients."""
        posters = [partial(self._post, n) for n in range(POSTERS)]
        return [
            *((f"poster {n}", POSTS, post) for n, post in enumerate(posters)),
            ("burst", BURSTS, self._burst),
            ("registrar", REGISTRATIONS, self._register),
            ("editor", EDITS, self._edit),
            ("reader", READS, self._read),
        ]

    # Documents

    def _post(self, number: int) -> None:
        """Send the next document of a poster."""
        self.send(self._model.streams[number])

    def send(self, stream: Stream) -> None:
        """Send the next document of a stream; sometimes an earlier one again."""
        if stream.documents and self._draw.random() < AGAIN:
            again = self._draw.choice(list(stream.documents.values())[-10:])
            self.push(stream, again)
            return
        made = len(stream.documents) + len(stream.refused)
        key = f"{made // 8}-{self._draw.randrange(4)}"
        name = f"{stream.name}-{made}"
        patience = self._draw.uniform(0, 0.01) if self._draw.random() < HANGS_UP else None
        self.push(stream, Pushed(name=name, key=key, sent=time.monotonic()), patience)

    def push(self, stream: Stream, document: Pushed, patience: float | None = None) -> None:
        """Send a document, and record what is known of it: without an answer the store decides."""
        self._model.counts["pushes"] += 1
        is_new = stream.documents.setdefault(document.name, document) is document
        content = f"<a><k>{document.key}</k></a>".encode()
        path, query = f"/v1/documents/{stream.name}", {"id": document.name}
        answer = self._host.ask("POST", path, content, query, patience)
        if answer.status == 202:
            document.acknowledged = min(document.acknowledged, time.monotonic())
            self._model.acknowledged.set()
        elif answer.code in UNDONE and is_new:
            del stream.documents[document.name]
            stream.refused.add(document.name)
        elif answer.status < 500 and answer.status != 429:
            told = f"{answer.status} {answer.body[:200]!r}"
            self._host.journal.wrong(f"the service refuses {document.name}: {told}")

    def _burst(self) -> None:
        """Send documents to one stream at the same time; their order is the service's."""
        stream = next(one for one in self._model.streams if one.name == SHARED)
        burst = self._model.counts["bursts"]
        self._model.counts["bursts"] += 1
        spread = self._draw.choice([0.0, 0.001, 0.002, 0.004, 0.02])

        def post(number: int) -> None:
            time.sleep(random.Random(f"{burst} {number}").uniform(0, spread))
            name = f"{SHARED}-{burst}-{number}"
            key = f"{burst}-{number % 2}"
            self.push(stream, Pushed(name=name, key=key, sent=time.monotonic()))

        def register() -> None:
            time.sleep(self._draw.uniform(0, max(spread, 0.02)))
            self._register()

        works: list[Callable[[], None]] = [
            partial(post, number) for number in range(SIZES[burst % len(SIZES)])
        ]
        is_large = burst % len(SIZES) == 0  # has matches while queries are registered
        at_the_same_time([*works, register, register] if is_large else works)

    # Registrations

    def _register(self) -> None:
        """Subscribe or unsubscribe under one of some names, one request for each at a time."""
        name = f"s{self._draw.randrange(30)}"
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
        drawn = self._draw.random()
        if before and drawn < 0.3:
            purge = {"purge": self._draw.choice(["true", "false"])}
            if self._host.ask("DELETE", path, query=purge).status == 204:
                self._model.subscriptions[name] = False
            return
        busiest = self._model.streams[-1]
        stream = self._draw.choice([*self._model.streams, busiest, busiest]).name
        query = self._draw.choice(
            [
                QUERY.format(stream=stream),
                f"{stream}//a[./k->x] NEXT{{x=y}} {stream}//a[./k->y]",
                f"{stream}//a[./k->x] NOT FOLLOWED BY{{x=y, 10 min}} {stream}//a[./k->y]",
                f"{stream}//a->a",
                f"{stream}//a[./k->x] FOLLOWED BY{{x=y, 20 min}} F//item/title->y",
            ]
        )
        is_edit = bool(before) and drawn < 0.8
        self._model.counts["edits"] += is_edit
        told: dict[str, object] = {"query": query}
        if not is_edit:
            told["history"] = self._draw.random() < HISTORIES
        answer = self._host.ask("PATCH" if is_edit else "PUT", path, told)
        if answer.status < 300 or (answer.status == 409 and before is not False):
            self._model.subscriptions[name] = True
        elif answer.status < 500 and answer.status != 429:
            text = f"{answer.status} {answer.body[:200]!r}"
            self._host.journal.wrong(f"{query!r} is refused: {text}")

    def _edit(self) -> None:
        """Change only SELECT of a stream's subscription, whose matches are known.

        No match of it may be lost, listed, heard or delivered twice for that.
        """
        stream = self._draw.choice(self._model.streams)
        self._model.counts["edits"] += 1
        query = QUERY.format(stream=stream.name)
        rendered = f"SELECT <found by='{self._draw.randrange(9)}'>{{x}}</found> FROM {query}"
        told = {"query": self._draw.choice([query, rendered, rendered])}
        path = f"/v1/subscriptions/{stream.subscription}"
        answer = self._host.ask("PATCH", path, told)
        if 400 <= answer.status < 500 and answer.status != 429:
            text = f"{answer.status} {answer.body[:200]!r}"
            self._host.journal.wrong(f"it may not edit {path}: {text}")

    # Reading

    def _read(self) -> None:
        """List the next matches of a stream, oldest first."""
        self._model.counts["reads"] += 1
        stream = self._draw.choice(self._model.streams)
        path = f"/v1/subscriptions/{stream.subscription}/matches"
        query = {"after": str(stream.position), "limit": "30"}
        answer = self._host.ask("GET", path, query=query)
        if answer.status == 200:
            matches = json.loads(answer.body)["matches"]
            stream.listed += [match["id"] for match in matches]
            stream.position = max([stream.position, *(match["position"] for match in matches)])


def at_the_same_time(works: Sequence[Callable[[], None]]) -> None:
    """Run works in threads until all have ended; some may be refused."""

    def guarded(work: Callable[[], None]) -> None:
        with suppress(Refused):
            work()

    threads = [threading.Thread(target=guarded, args=(work,), name="client") for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
