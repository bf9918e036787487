"""The comparison of a service, and then of its store, with the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import xscl
from tests.simulation.histories import compare_histories
from tests.simulation.host import Host
from tests.simulation.model import Model, Stream
from tests.simulation.sites import FEED
from tests.soak.oracle import (
    composites,
    differences_of_deliveries,
    differences_of_matches,
    matches_of,
)


def compare_service(host: Host, model: Model) -> Iterator[str]:
    """Yield in what a running service is not healthy, or not as the model."""
    health = json.loads(host.until("GET", "/v1/health").body)
    if {health["status"], health["consumer"], health["clock"]} != {"ok"}:
        yield f"the service is not healthy: {health}"
    listed = host.until("GET", "/v1/subscriptions", query={"limit": "1000"}).body
    names = {one["name"] for one in json.loads(listed)["items"]}
    for name, there in model.subscriptions.items():
        if there is not None and there != (name in names):
            yield f"the subscription {name} should be {'' if there else 'not '}there"


def compare_store(database: Path, model: Model) -> Iterator[str]:
    """Yield in what a store is not as the model."""
    with xscl.Engine(database) as engine:
        rows = engine.sql(
            "SELECT stream, timestamp, CASE version WHEN 1 THEN id ELSE id || '@' || version END"
            " AS name FROM documents WHERE NOT published ORDER BY timestamp"
        ).to_pylist()
        kept = [row["name"] for row in rows]
        yield from compare_histories(engine, model, {row["name"]: row["timestamp"] for row in rows})
        for stream in model.streams:
            own = [row["name"] for row in rows if row["stream"] == stream.name]
            mine = [name for name in own if name in stream.documents]
            if taken := stream.refused & set(own):
                yield f"refused documents were stored: {sorted(taken)[:3]}"
            matches = matches_of(engine, stream.subscription)
            model.counts["matches"] += len(matches)
            for text in compare_stream(stream, mine, matches):
                yield f"{stream.subscription}: {text}"
        items = sum(name.startswith(FEED) for name in kept)
        model.counts["items"] = items
        if items != len(model.published):
            yield f"{len(model.published)} items were published, {items} are stored"
        late = engine.sql("SELECT * FROM late").to_pylist()
        if stamped := [row for row in late if FEED not in str(row)]:
            yield f"documents that the service dated were late: {stamped[:2]}"
        if doubled := [name for name, count in Counter(kept).items() if count > 1]:
            yield f"{len(doubled)} documents are stored twice: {doubled[:3]}"


def compare_stream(
    stream: Stream,
    stored: Sequence[str],
    matches: Sequence[tuple[str, tuple[str, ...]]],
) -> Iterator[str]:
    """Compare the documents of a stream, their matches, and how these were seen."""
    there = set(stored)
    acknowledged = {one.name for one in stream.documents.values() if one.is_acknowledged}
    if lost := acknowledged - there:
        yield f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}"
    if wrong := stream.wrongly_ordered(stored):
        yield f"documents come before acknowledged ones: {wrong[:3]}"
    keyed = [(name, stream.documents[name].key) for name in stored]
    expected = Counter(composites("pairs", keyed, {}))
    found = Counter(documents for _, documents in matches)
    yield from differences_of_matches(expected, found)
    places = {name: place for place, name in enumerate(stored)}
    ends = [places.get(documents[-1], -1) for _, documents in matches]
    if ends != sorted(ends):
        yield "matches are not in the order of their last documents"
    ids = [id for id, _ in matches]
    if stream.listed != ids[: len(stream.listed)]:
        yield "the matches were listed in another order, twice, or with a gap"
    if stream.hook is not None:
        yield from differences_of_deliveries(ids, stream.received, stream.put_aside)
