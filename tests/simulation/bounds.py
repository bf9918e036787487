"""Bounds that hold at any time, and what has to be empty when nothing happens any more."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.simulation.host import Host
from tests.simulation.model import Model
from tests.simulation.service import WAITING

TASKS = 90
"""Threads of a service: 40 of requests, those of its parts and of their executors."""
EXCHANGES = 40
"""Requests of the clients of a simulation at the same time."""
SEGMENTS = 2 * WAITING
"""Segments that wait to be consumed: documents at the most, and beats."""


def exceeded(host: Host, model: Model) -> Iterator[str]:
    """Yield the bounds that a service exceeds."""
    process = host.process
    if process is None:
        return
    tasks = len(host.scheduler.alive(process.group))
    figures = json.loads(host.until(model.operator, "GET", "/v1/status").body)["service"] or {}
    waiting = figures.get("spool", 0) - figures.get("position", 0)
    found = {
        "threads": (tasks, TASKS),
        "requests in progress": (process.exchanges, EXCHANGES),
        "documents that wait": (figures.get("waiting", 0), 2 * WAITING),
        "segments that wait": (waiting, SEGMENTS),
    }
    for what, (count, most) in found.items():
        model.counts[f"most {what}"] = max(model.counts[f"most {what}"], count)
        if count > most:
            yield f"{count} {what}, of at most {most}"


def unfinished(host: Host, model: Model) -> Iterator[str]:
    """Yield what is not finished although nothing happens any more."""
    figures = json.loads(host.until(model.operator, "GET", "/v1/status").body)["service"]
    if figures["waiting"] or figures["position"] != figures["spool"]:
        yield f"documents wait to be consumed: {figures['position']} of {figures['spool']}"
    if host.process is not None and host.process.exchanges:
        yield f"{host.process.exchanges} requests are in progress"
    for account in [model.operator, *model.active_users]:
        used = json.loads(host.until(account, "GET", "/v1/me").body)["used"]
        if used["listeners"]:
            yield f"{account.mark} has {used['listeners']} listeners"
