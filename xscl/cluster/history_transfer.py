"""Transfer of a subscription's history to another cell: its documents, and what prevents it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from templates.model.relations import INFINITE
from xscl.documents.results import Subscription
from xscl.engine.state import EngineState
from xscl.engine.twin import replayed_streams


class Obstacle(NamedTuple):
    """The reason why another cell cannot have the state of a subscription, and what helps."""

    reason: str
    hint: str


def in_order(state: EngineState, some: Iterable[Subscription]) -> list[Subscription]:
    """Return subscriptions in an order in which publishers come before their readers."""
    known = state.subscriptions
    return sorted(some, key=lambda one: (known.levels_above(one.reads), one.number))


def history_documents(
    state: EngineState, histories: Sequence[Subscription], coming: int
) -> pa.Table:
    """Return the kept documents of histories, those among them that subscriptions published."""
    store, known = state.store, state.subscriptions
    read = {name for one in histories for name in replayed_streams(known, one)}
    store.lend("read_streams", pa.table({"name": sorted(read)}))
    return store.arrow(
        "SELECT d.*, t.xml FROM state.document d JOIN state.text t USING (doc)"
        " WHERE list_has_any(d.streams, (SELECT list(name) FROM read_streams))"
        f" AND d.first >= {min(one.since for one in histories)} AND d.doc < {int(coming)}"
        " ORDER BY d.doc"
    )


def _oldest_needed(state: EngineState, one: Subscription) -> int:
    """Return a time before which no document can be joined by a subscription any more.

    A chain joins documents that are as far apart as its windows together.
    """
    pairs = state.dataflow.subscribed.pairs(one)
    keeps: list[int] = state.registry.retention.keeps[pairs].tolist()
    if one.ordered or max(keeps, default=0) >= INFINITE:
        return -INFINITE
    return state.documents.clock - sum(keeps)


def obstacles(state: EngineState) -> Callable[[Subscription], Obstacle | None]:
    """Return a function that says why another cell cannot have a subscription's state.

    Its documents have to be kept since its registration.  Without an operator over time, those that
    it can still join are enough.
    """
    ((first,),) = state.store.fetch("SELECT coalesce(min(doc), 0) FROM state.document")

    @cache
    def dropped(streams: tuple[str, ...]) -> tuple[int, int]:
        """Return the largest number and time of a document without text on some streams."""
        (found,) = state.store.fetch(
            "SELECT coalesce(max(doc), -1), coalesce(max(ts), ?)"
            " FROM state.document ANTI JOIN state.text USING (doc) WHERE list_has_any(streams, ?)",
            [-INFINITE, list(streams)],
        )
        return found

    def obstacle(one: Subscription) -> Obstacle | None:
        if one.is_paused:
            return Obstacle("it is paused", "resume it, or remove it")
        doc, time = dropped(replayed_streams(state.subscriptions, one))
        oldest = _oldest_needed(state, one)
        if (doc >= one.since and time >= oldest) or (one.ordered and one.since < first):
            hint = "keep more: 'xscl serve --history'"
            return Obstacle("documents that it depends on are not kept", hint)
        return None

    return obstacle
