"""The comparison of a service, and then of its store, with the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import xscl
from tests.simulation.host import Host
from tests.simulation.model import Model
from tests.simulation.sites import FEED
from tests.stress.oracle import Sent, matches_of


def compare_service(host: Host, model: Model) -> Iterator[str]:
    """Yield in what a running service is not healthy, or not as the model."""
    health = host.until("GET", "/v1/health")
    if health.status != 200:
        yield f"the service is not healthy: {health.body[:200]!r}"
    listed = json.loads(host.until("GET", "/v1/subscriptions").body)
    names = {one["name"] for one in listed["items"]}
    for name, there in model.subscriptions.items():
        if there is not None and there != (name in names):
            yield f"the subscription {name} should be {'' if there else 'not '}there"


def compare_store(database: Path, model: Model) -> Iterator[str]:
    """Yield in what a store is not as the model."""
    with xscl.Engine(database) as engine:
        kept = Counter[str](engine.sql("SELECT id FROM documents")["id"].to_pylist())
        for sent in model.sent:
            yield from _compare_sent(engine, model, sent, kept)
        items = sum(times for name, times in kept.items() if name.startswith(FEED))
        model.counts["items"] = items
        if items != len(model.published):
            yield f"{len(model.published)} items were published, {items} are stored"
        if lost := model.shared - kept.keys():
            yield f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}"
        late = engine.sql("SELECT * FROM late").to_pylist()
        if stamped := [row for row in late if FEED not in str(row)]:
            yield f"documents that the service dated were late: {stamped[:2]}"
        if doubled := [name for name, times in kept.items() if times > 1]:
            yield f"{len(doubled)} documents are stored twice: {doubled[:3]}"


def _compare_sent(
    engine: xscl.Engine, model: Model, sent: Sent, kept: Counter[str]
) -> Iterator[str]:
    """Compare the documents of a poster, their matches, and the deliveries of these."""
    lost = {name for name, _ in sent.acknowledged if name not in kept} - model.unknown
    if lost:
        yield f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}"
    if taken := sent.refused & kept.keys():
        yield f"refused documents were stored: {sorted(taken)[:3]}"
    stored = [(name, key) for name, key in sent.acknowledged if name in kept]
    expected = Sent(sent.stream, sent.subscription, stored).pairs()
    matches = matches_of(engine, sent.subscription)
    found = Counter(documents for _, documents in matches)
    for what, those in (("lost", expected - found), ("too many", found - expected)):
        if those:
            yield f"{sent.subscription}: {those.total()} matches {what}: {list(those)[:3]}"
    model.counts["matches"] += len(matches)
    if sent is model.sent[0]:
        ids = {id for id, _ in matches}
        if missing := ids - model.received.keys():
            yield f"{len(missing)} of {len(ids)} matches were not delivered"
        if strange := model.received.keys() - ids:
            yield f"{len(strange)} deliveries of matches that are not there"
