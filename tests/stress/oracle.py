"""The expected store: documents and matches, computed from acknowledged requests.

Each poster has a stream and a subscription of its own, which joins documents of equal key. It sends
one document after another, so the order of acceptance in its stream is known. Each match is printed
once, unless the service says that it has skipped some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

import xscl

SKIPPED = "skipped"
"""Where what was printed counts matches that the printer was too far behind to print."""

QUERY = "{stream}//a[./k->x] FOLLOWED BY{{x=y, 30 d}} {stream}//a[./k->y]"


@dataclass
class Sent:
    """Documents that a poster sent to its stream: acknowledged in order, or refused.

    Those without an answer are among the acknowledged ones, and `unknown`: the store decides.
    """

    stream: str
    subscription: str
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def begin(self, name: str, key: str) -> None:
        """Note a document before it is sent."""
        self.acknowledged.append((name, key))
        self.unknown.add(name)

    def refuse(self, name: str) -> None:
        """Note that the last document was refused."""
        self.acknowledged.pop()
        self.unknown.discard(name)
        self.refused.add(name)

    def settle(self, kept: Container[str]) -> None:
        """Decide by a store which of the unknown documents were taken."""
        self.acknowledged = [
            one for one in self.acknowledged if one[0] in kept or one[0] not in self.unknown
        ]
        self.unknown.clear()

    def pairs(self) -> Counter[tuple[str, ...]]:
        """Return the documents of each match: all earlier ones of the same key with each."""
        found = Counter[tuple[str, ...]]()
        earlier: dict[str, list[str]] = {}
        for name, key in self.acknowledged:
            found.update((one, name) for one in earlier.get(key, ()))
            earlier.setdefault(key, []).append(name)
        return found


def differences(
    database: Path, sent: list[Sent], printed: Counter[str], *, was_killed: bool = False
) -> list[str]:
    """Return in what a store, and what was printed of its matches, is not as it must be.

    After a kill matches may be printed again.
    """
    wrong: list[str] = []
    with xscl.Engine(database) as engine:
        kept = Counter(engine.sql("SELECT id FROM documents")["id"].to_pylist())
        for one in sent:
            one.settle(kept)
            named = {name for name, _ in one.acknowledged}
            if lost := named - kept.keys():
                wrong.append(f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}")
            if there := one.refused & kept.keys():
                wrong.append(f"{len(there)} refused documents were taken: {sorted(there)[:3]}")
            matches = matches_of(engine, one.subscription)
            found, expected = Counter(documents for _, documents in matches), one.pairs()
            for what, those in (("lost", expected - found), ("too many", found - expected)):
                if those:
                    wrong.append(f"{one.subscription}: {those.total()} {what}: {list(those)[:3]}")
            times = Counter(printed[id] for id, _ in matches)
            least, most = 0 if printed[SKIPPED] else 1, len(matches) if was_killed else 1
            if any(not least <= number <= most for number in times):
                wrong.append(f"{one.subscription}: printed so many times: {dict(times)}")
        if doubled := [name for name, times in kept.items() if times > 1]:
            wrong.append(f"{len(doubled)} documents are there twice: {doubled[:3]}")
    return wrong


def ids_of(database: Path, subscription: str) -> set[str]:
    """Return the ids of all matches of a subscription."""
    with xscl.Engine(database) as engine:
        return {id for id, _ in matches_of(engine, subscription)}


def matches_of(engine: xscl.Engine, subscription: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the id and the documents of each match of a subscription, in order."""
    found: list[tuple[str, tuple[str, ...]]] = []
    after, more = 0, True
    while more:
        page = engine.matches_of(subscription, after=after, limit=1_000)
        found += [(match.id, match.documents) for match in page.matches]
        after, more = page.end, page.more
    return found
