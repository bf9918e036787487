"""The model: what the service has acknowledged.

A request that got no answer may or may not have been done; the store at the end says which.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.stress.oracle import Sent

POSTERS = 3
SHARED = "S"
"""A stream to which requests come at the same time."""


def _posters() -> list[Sent]:
    return [Sent(f"P{number}", f"pairs-{number}") for number in range(POSTERS)]


@dataclass
class Model:
    """The acknowledged requests, and counts, to check the service against.

    `sent` are the documents of each poster, and `unknown` those without an answer.  Of
    `subscriptions`, None says that the last request got no answer.  `shared` are documents of
    bursts, `published` the items of the feed, `received` the ids of matches at the receiver.
    """

    sent: list[Sent] = field(default_factory=_posters)
    unknown: set[str] = field(default_factory=set)
    subscriptions: dict[str, bool | None] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    published: list[str] = field(default_factory=list)
    received: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
