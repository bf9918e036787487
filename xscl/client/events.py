"""Live matches: server-sent events, read line by line, and where to go on after a disconnection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import httpx

from xscl.client.answers import Match
from xscl.client.calls import read, resource
from xscl.client.failures import Refused

CONNECT = 5.0
"""Seconds until a connection has to be there."""
SILENCE = 60.0
"""Seconds without an event or a heartbeat after which a connection counts as lost."""
AGAIN = 2.0
"""Seconds until a client connects again."""
Name = Literal["match", "gap", "restored"]
_FINAL = ("removed", "unauthorized")  # reasons of a disconnection that lasts


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """New matches of one subscription, or a notice why some may be missing or come again.

    `name` is `match`; `gap` if earlier matches are no longer kept; `restored` if the service was
    put back from a backup.  `id` is the `after` with which `listen` continues.
    """

    id: str
    name: Name
    matches: tuple[Match, ...] = ()
    reason: str | None = None


@dataclass(slots=True)
class EventReader:
    """Reads the lines of event streams; `last` is the id of the last event.

    `began` is True once a line was read.
    """

    last: str | None = None
    began: bool = False
    _fields: dict[str, str] = field(default_factory=dict)

    def request(self, subscription: str | None) -> dict[str, Any]:
        """Return the arguments of the httpx request for the events after the last one."""
        self._fields.clear()
        path = ("events",) if subscription is None else ("subscriptions", subscription, "events")
        return {
            "method": "GET",
            "url": resource(*path),
            "headers": {} if self.last is None else {"Last-Event-ID": self.last},
            "timeout": httpx.Timeout(SILENCE, connect=CONNECT),
        }

    def events(self, line: str) -> Iterator[LiveEvent]:
        """Yield the event that `line` completes; raises Refused at the final end of a stream."""
        self.began = True
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return
        fields, self._fields = self._fields, {}
        name = fields.get("event", "")
        if name == "closed":
            away = json.loads(fields["data"])
            if away["code"] in _FINAL:
                raise Refused(httpx.codes.GONE, away["code"], away["reason"])
        elif name in get_args(Name):
            yield self._event(name, fields)

    def _event(self, name: Any, fields: dict[str, str]) -> LiveEvent:
        data = json.loads(fields["data"])
        self.last = fields["id"]
        if name != "match":
            return LiveEvent(self.last, name, reason=data["reason"])
        found = tuple(read(Match, one) for one in data["data"]["matches"])
        return LiveEvent(self.last, name, found)
