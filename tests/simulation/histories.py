"""Subscriptions that begin with what is kept, at any time, and their oracle.

The streams are young: a history goes back to their first document.  So whatever happens
while it is read, such a subscription has in the end what it would have had from the beginning.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import xscl
from tests.simulation.clients import Act, Part
from tests.simulation.model import POSTERS, Begun, Model
from tests.soak.oracle import (
    KINDS,
    TOLD_AS_STORIES,
    composites,
    differences_of_matches,
    sizes_of_stories,
    stories_of,
)

RATE = 3.0
"""Subscriptions an hour."""


class Histories(Part):
    """Subscribes to what is there, and to what follows."""

    def acts(self) -> Sequence[Act]:
        """Return the client."""
        return [("historian", RATE, self._subscribe)]

    def _subscribe(self) -> None:
        known = self._model.begun
        stream = self._model.streams[self._draw.randrange(POSTERS)]
        kind = self._draw.choice(list(KINDS))
        one = Begun(name=f"h{len(known)}", kind=kind, stream=stream, sent=time.monotonic())
        known.append(one)
        self._model.counts["registrations"] += 1
        query = {
            "query": KINDS[kind].format(stream=stream.name),
            "stories": kind == TOLD_AS_STORIES,
        }
        answer = self._host.ask("PUT", f"/v1/subscriptions/{one.name}", query)
        if answer.status == 201:
            one.acknowledged = time.monotonic()


def compare_histories(
    engine: xscl.Engine, model: Model, stored: Mapping[str, int]
) -> Iterator[str]:
    """Yield in what histories are not as the model; `stored` are documents with their times."""
    there = {one.name for one in engine.subscriptions}
    all_matches: dict[str, list[xscl.Match]] = defaultdict(list)  # read once, not for each name
    for match in engine.matches():
        all_matches[match.subscription].append(match)
    for one in model.begun:
        if one.name not in there:
            if one.is_acknowledged:
                yield f"the subscription {one.name} is lost"
            continue
        kept = [name for name in stored if name in one.stream.documents]
        keyed = [(name, one.stream.documents[name].key) for name in kept]
        expected = Counter(composites(one.kind, keyed, stored))
        matches = all_matches[one.name]
        found = Counter(match.documents for match in matches)
        told = differences_of_matches(expected, found)
        yield from (f"{one.name} ({one.kind}): {text}" for text in told)
        if one.kind == TOLD_AS_STORIES and stories_of(engine, one.name) != sizes_of_stories(keyed):
            yield f"{one.name}: the stories are {stories_of(engine, one.name)} by their sizes"
        model.counts["backfilled"] += sum(match.backfilled for match in matches)
        for match in matches:
            if one.kind != "not":
                yield from _wrong_flag(one, match)


def _wrong_flag(one: Begun, match: xscl.Match) -> Iterator[str]:
    """Yield whether a match is marked as backfilled although it is live, or the reverse."""
    last = one.stream.documents[match.documents[-1]]
    if match.backfilled and last.sent > one.acknowledged:
        yield f"{one.name}: {match.documents} came after it, and is marked as backfilled"
    if not match.backfilled and last.acknowledged < one.sent - 60:
        yield f"{one.name}: {match.documents} was there, and is not marked as backfilled"
