"""Readers of events that hang up, and go on after the last event that they have heard."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence

from tests.simulation.clients import Act
from tests.simulation.host import Host, bearer
from tests.simulation.model import Account, Model, Stream
from tests.simulation.service import Refused

LISTENING = 6.0
"""Connections an hour."""
SLEEPS = 0.1
"""The probability that a reader reads nothing for a while."""


class Listeners:
    """Readers of the events of streams' subscriptions."""

    def __init__(self, host: Host, model: Model, draw: random.Random) -> None:
        self._host = host
        self._model = model
        self._draw = draw
        self._connected: set[str] = set()

    def acts(self) -> Sequence[Act]:
        """Return the clients."""
        return [("listener", LISTENING, self._listen)]

    def _listen(self) -> None:
        """Hear the events of a subscription for a while."""
        accounts = [self._model.operator, *self._model.active_users]
        account = self._draw.choice(accounts)
        stream = self._draw.choice(account.streams)
        place = f"{account.mark} {stream.name}"
        if place in self._connected:
            return
        self._connected.add(place)
        try:
            self.hear(account, stream, self._draw.uniform(1, 60))
        finally:
            self._connected.discard(place)

    def hear(self, account: Account, stream: Stream, seconds: float) -> None:
        """Connect, and hear events for some seconds."""
        process = self._host.process
        if process is None:
            raise Refused
        self._model.counts["listeners"] += 1
        headers = bearer(account)
        if stream.last_event:
            headers["last-event-id"] = stream.last_event
        path = f"/v1/subscriptions/{stream.subscription}/events"
        until, rest = time.monotonic() + seconds, b""
        with process.stream(path, {"after": "0"}, headers) as exchange:
            if self._draw.random() < SLEEPS:
                time.sleep(90)
            while (left := until - time.monotonic()) > 0:
                arrived = exchange.next(left)
                if arrived is None:
                    break
                *events, rest = (rest + arrived).split(b"\n\n")
                for event in events:
                    self._hear(stream, event.decode())
        if exchange.status not in (None, 200) and not account.is_revoked:
            told = f"{exchange.status} {b''.join(exchange.chunks)[:200]!r}"
            if exchange.status < 500 and exchange.status != 429:
                self._host.journal.wrong(f"{account.mark} may not hear {path}: {told}")

    def _hear(self, stream: Stream, event: str) -> None:
        fields = dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
        match fields.get("event"):
            case "match":
                stream.heard.append(json.loads(fields["data"])["data"]["id"])
                stream.last_event = fields["id"]
            case "gap" | "restored" as notice:
                self._host.journal.wrong(f"a listener of {stream.subscription} gets a {notice}")
            case _:  # a comment, or the reason of the end
                return
