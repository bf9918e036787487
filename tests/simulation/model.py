"""The model: what the service has acknowledged.

A request that got no answer may or may not have been done; the store at the end says which.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

POSTERS = 3
SHARED = "S"
"""A stream to which requests come at the same time."""


@dataclass(kw_only=True)
class Sent:
    """A request for what has a name: when it was sent, and acknowledged, in virtual seconds."""

    name: str
    sent: float
    acknowledged: float = math.inf

    @property
    def is_acknowledged(self) -> bool:
        """Return True if the service has acknowledged it."""
        return self.acknowledged < math.inf


@dataclass(kw_only=True)
class Pushed(Sent):
    """A document."""

    key: str


@dataclass
class Stream:
    """The documents of a stream, its subscription, and how its matches were seen.

    `listed` are the ids that were listed, up to `position`, `received` those at the webhook in the
    order of their first arrival.  The webhook refused those in `put_aside` once.
    """

    name: str
    subscription: str
    documents: dict[str, Pushed] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    listed: list[str] = field(default_factory=list)
    position: int = 0
    received: dict[str, None] = field(default_factory=dict)
    put_aside: set[str] = field(default_factory=set)
    hook: str | None = None
    """The id of its endpoint."""

    def wrongly_ordered(self, stored: Sequence[str]) -> list[str]:
        """Return stored documents that come before one that was acknowledged before they came."""
        earliest, wrong = math.inf, []
        for document in reversed([self.documents[name] for name in stored]):
            if earliest < document.sent:
                wrong.append(document.name)
            earliest = min(earliest, document.acknowledged)
        return wrong


@dataclass(kw_only=True)
class Begun(Sent):
    """A subscription that begins with what is kept.

    `kind` is that of its query, over the documents of a stream.
    """

    kind: str
    stream: Stream


def _streams() -> list[Stream]:
    streams = [Stream(f"P{number}", f"pairs-{number}") for number in range(POSTERS)]
    return [*streams, Stream(SHARED, "shared")]


@dataclass
class Model:
    """The streams, the items that the feed has published, and counts.

    Of `subscriptions`, None says that the last request got no answer.  `acknowledged` is set with
    each acknowledged document.
    """

    streams: list[Stream] = field(default_factory=_streams)
    subscriptions: dict[str, bool | None] = field(default_factory=dict)
    published: list[str] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    acknowledged: threading.Event = field(default_factory=threading.Event)
