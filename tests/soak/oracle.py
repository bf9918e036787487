"""The oracle: documents, matches and deliveries, computed from acknowledged requests.

A poster has a stream of its own and sends one document after another, so the order of acceptance is
known.  Over each stream there are subscriptions of several kinds; those that begin with a history
have in the end the matches that they would have had from the beginning.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xscl

SKIPPED = "skipped"
"""Key of the count of matches that the printer skipped because it was too far behind."""
QUERY = "{stream}//a[./k->x] FOLLOWED BY{{x=y, 30 d}} {stream}//a[./k->y]"
MINUTES = 10
"""The deadline of a document that waits for another one."""
HITS = "hits"
KINDS: Mapping[str, str] = {
    "pairs": QUERY,
    "next": "{stream}//a[./k->x] NEXT{{x=y}} {stream}//a[./k->y]",
    "not": f"{{stream}}//a[./k->x] NOT FOLLOWED BY{{{{x=y, {MINUTES} min}}}} {{stream}}//a[./k->y]",
}
"""The queries over one stream; `hits` reads the documents that `pairs` publishes."""
TOLD_AS_STORIES = "next"
"""The kind whose matches are grouped into stories: one for each key."""


def composites(
    kind: str, keys: Sequence[tuple[str, str]], times: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield the documents of each match: `keys` of documents by name, in order of acceptance."""
    earlier: dict[str, list[str]] = {}
    for name, key in keys:
        same = earlier.setdefault(key, [])
        if kind == "pairs":
            yield from ((other, name) for other in same)
        elif kind == "next" and same:
            yield (same[-1], name)
        same.append(name)
    if kind == "not":
        for same in earlier.values():
            for name, following in zip(same, [*same[1:], None], strict=True):
                if following is None or times[following] - times[name] > MINUTES * 60_000_000:
                    yield (name,)


def sizes_of_stories(keys: Sequence[tuple[str, str]]) -> Counter[int]:
    """Return the number of stories by their number of documents, given the documents with keys."""
    return Counter(size for size in Counter(key for _, key in keys).values() if size > 1)


def stories_of(engine: xscl.Engine, subscription: str) -> Counter[int]:
    """Return the number of stories of a subscription by their number of documents."""
    query = "SELECT documents FROM stories WHERE merged_into IS NULL AND subscription = "
    return Counter(engine.sql(f"{query}'{subscription}'")["documents"].to_pylist())


def differences_of_matches(
    wanted: Counter[tuple[str, ...]], there: Counter[tuple[str, ...]]
) -> Iterator[str]:
    """Yield how many matches are lost, and how many are too many, given by their documents."""
    for what, those in (("lost", wanted - there), ("too many", there - wanted)):
        if those:
            yield f"{those.total()} {what}: {list(those)[:3]}"


def differences_of_deliveries(
    ids: Sequence[str], received: Collection[str], put_aside: Collection[str] = ()
) -> Iterator[str]:
    """Yield the errors in deliveries, in order of arrival; those put aside may come later."""
    if missing := set(ids) - set(received):
        yield f"{len(missing)} of {len(ids)} matches were not delivered"
    if strange := set(received) - set(ids):
        yield f"{len(strange)} deliveries of matches that are not there"
    places = {id: place for place, id in enumerate(ids)}
    order = [places[id] for id in received if id in places and id not in put_aside]
    if order != sorted(order):
        yield "matches were not delivered in their order"


@dataclass
class Seen:
    """The deliveries of one channel: the documents of each match by id, in order of arrival."""

    is_once: bool
    matches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    messages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note(self, data: Any, message: str = "", body: bytes = b"") -> bool:
        """Note a message; return True if it is the first of its match."""
        id, is_first = data["id"], data["id"] not in self.matches
        if self.is_once and not is_first:
            self.wrong.append(f"the match {id} came twice")
        if self.messages.setdefault(id, (message, body)) != (message, body):
            self.wrong.append(f"the match {id} came in two messages")
        self.matches.setdefault(id, tuple(data["matches"][0]["documents"]))
        return is_first

    def differences(self, ids: Sequence[str]) -> Iterator[str]:
        """Yield the errors in the deliveries of a subscription's matches, which are in order."""
        yield from self.wrong[:3]
        yield from differences_of_deliveries(ids, self.matches)


@dataclass
class Sent:
    """The documents of a stream: acknowledged in order, or refused; and how matches were seen.

    Those without an answer are among the acknowledged ones, and `unknown`: the store decides.
    """

    stream: str
    subscription: str
    acknowledged: list[tuple[str, str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    moments: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When a document was sent, and when that was acknowledged."""
    kinds: dict[str, str] = field(default_factory=dict)
    """The kinds of subscriptions that were acknowledged, by name."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """Return the deliveries of the matches of `subscription`, by channel."""

    def begin(self, name: str, key: str, now: float) -> None:
        """Note a document before it is sent."""
        self.acknowledged.append((name, key))
        self.unknown.add(name)
        self.moments[name] = now, math.inf

    def acknowledge(self, name: str, now: float) -> None:
        """Note that a document was taken."""
        self.unknown.discard(name)
        self.moments[name] = self.moments[name][0], min(now, self.moments[name][1])

    def refuse(self, name: str) -> None:
        """Note that the last document was refused."""
        self.acknowledged.pop()
        self.unknown.discard(name)
        self.refused.add(name)

    def settle(self, kept: Collection[str]) -> None:
        """Decide by a store which of the unknown documents were taken."""
        self.acknowledged = [
            one for one in self.acknowledged if one[0] in kept or one[0] not in self.unknown
        ]
        self.unknown.clear()

    def pairs(self, apart: float = math.inf) -> Counter[tuple[str, ...]]:
        """Return the documents of each match, of those sent within `apart` seconds."""
        return Counter(
            (one, other)
            for one, other in composites("pairs", self.acknowledged, {})
            if apart == math.inf or self.moments[other][1] - self.moments[one][0] < apart
        )

    def undelivered(self, apart: float = math.inf) -> Iterator[str]:
        """Yield what certainly has to be delivered, and is not."""
        due = set(self.pairs(apart))
        for way, seen in self.seen.items():
            if missing := due - set(seen.matches.values()):
                yield f"{len(missing)} of {len(due)} are not delivered by {way}: {min(missing)}"


@dataclass(frozen=True)
class Printed:
    """Number of times that each match was printed, by id; a kill may repeat some."""

    times: Counter[str]
    was_killed: bool = False

    def differences(self, ids: Sequence[str]) -> Iterator[str]:
        """Yield the errors in the output on a subscription's matches."""
        times = Counter(self.times[id] for id in ids)
        least, most = 0 if self.times[SKIPPED] else 1, math.inf if self.was_killed else 1
        if any(not least <= number <= most for number in times):
            yield f"printed so many times: {dict(times)}"


def differences(
    database: Path,
    sent: Sequence[Sent],
    items: Collection[str] = (),
    printed: Printed | None = None,
) -> list[str]:
    """Return in what a store is not as it must be; `items` are documents of feeds."""
    wrong: list[str] = []
    with xscl.Engine(database) as engine:
        engine.flush()
        rows = engine.sql("SELECT id, timestamp, published FROM documents").to_pylist()
        times = {row["id"]: row["timestamp"] for row in rows}
        if doubled := len(rows) - len(times):
            wrong.append(f"{doubled} documents are there twice")
        if lost := set(items) - times.keys():
            wrong.append(f"{len(lost)} of {len(items)} items are lost: {sorted(lost)[:3]}")
        published = {row["id"] for row in rows if row["published"]}
        for one in sent:
            one.settle(times)
            found = _differences(engine, one, times, published, printed)
            wrong += [f"{one.subscription}: {text}" for text in found]
    return wrong


def _differences(
    engine: xscl.Engine,
    one: Sent,
    times: Mapping[str, int],
    published: Collection[str],
    printed: Printed | None,
) -> Iterator[str]:
    """Yield what is wrong with a stream, its subscriptions and their matches."""
    if lost := {name for name, _ in one.acknowledged} - times.keys():
        yield f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}"
    if taken := one.refused & times.keys():
        yield f"{len(taken)} refused documents were taken: {sorted(taken)[:3]}"
    pairs = [id for id, _ in matches_of(engine, one.subscription)]
    kept = [(name, key) for name, key in one.acknowledged if name in times]
    for name, kind in one.kinds.items():
        if engine.subscription(name) is None:
            yield f"the subscription {name} is lost"
            continue
        matches = matches_of(engine, name)
        own = [(id,) for id in pairs]
        wanted = Counter(own if kind == HITS else composites(kind, kept, times))
        there = Counter(documents for _, documents in matches)
        yield from (f"{name}: {text}" for text in differences_of_matches(wanted, there))
        if len({id for id, _ in matches}) < len(matches):
            yield f"{name}: two matches have one id"
        if kind == TOLD_AS_STORIES and stories_of(engine, name) != sizes_of_stories(kept):
            yield f"{name}: the stories are {stories_of(engine, name)} by their sizes"
    if HITS in one.kinds.values() and (lost := set(pairs) - set(published)):
        yield f"{len(lost)} published documents are lost"
    for way, seen in one.seen.items():
        yield from (f"{way}: {text}" for text in seen.differences(pairs))
    if printed is not None:
        yield from printed.differences(pairs)


def matches_of(engine: xscl.Engine, subscription: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the id and the documents of each match of a subscription, in order."""
    found: list[tuple[str, tuple[str, ...]]] = []
    after, more = 0, True
    while more:
        page = engine.matches_of(subscription, after=after, limit=1_000)
        found += [(match.id, match.documents) for match in page.matches]
        after, more = page.end, page.more
    return found
