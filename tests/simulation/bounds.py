"""Bounds that hold at any time, and what has to be empty when nothing happens any more."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.simulation.host import Host
from tests.simulation.model import Model
from tests.simulation.service import WAITING, Listening

TASKS = 90
"""Threads of a service: 40 of requests, those of its parts and of their executors."""
EXCHANGES = 40
"""Requests of the clients of a simulation at the same time."""
SEGMENTS = 2 * WAITING
"""Segments that wait to be consumed: of documents, of feeds, and beats."""


def exceeded(host: Host, model: Model) -> Iterator[str]:
    """Yield the bounds that a service exceeds now."""
    process, listening = host.process, Listening.current
    if process is None or listening is None:
        return
    app = listening.service
    found = {
        "threads": (len(host.scheduler.alive(process.group)), TASKS),
        "requests in progress": (process.exchanges, EXCHANGES),
        "waiting documents": (app.store.intake._waiting, WAITING),
        "waiting segments": (app.store.spool.latest() - app.engine.ingest.segment, SEGMENTS),
    }
    for what, (count, most) in found.items():
        model.counts[f"most {what}"] = max(model.counts[f"most {what}"], count)
        if count > most:
            yield f"{count} {what}, of at most {most}"


def unfinished(host: Host, model: Model) -> Iterator[str]:
    """Yield what is not finished although nothing happens any more."""
    process, listening = host.process, Listening.current
    if process is None or listening is None:
        yield "no service listens"
        return
    app = listening.service
    if process.exchanges:
        yield f"{process.exchanges} requests are in progress"
    consumed, latest = app.engine.ingest.segment, app.store.spool.latest()
    if consumed + 1 < latest:  # the last may be a beat of this moment
        yield f"segments {consumed + 1} to {latest} wait to be consumed"
    stream = model.streams[0]
    path = f"/v1/subscriptions/{stream.subscription}/endpoints/{stream.hook}"
    endpoint = json.loads(host.until("GET", path).body)
    if endpoint["failures"] or endpoint["letters"]:
        yield f"the endpoint has not delivered: {endpoint}"
