"""Those who share a node of the plan, and the size of its state."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from templates.model.join_graph import INFINITE
from templates.registry.registry import Registry
from xscl.documents.results import Subscription
from xscl.planning.dataflow import Dataflow
from xscl.planning.plan_graph import STREAM, TEMPLATE, PlanNode, template_name
from xscl.plurals import counted
from xscl.store.queries.stream_documents import count_texts
from xscl.store.queries.witnesses import kept_witnesses
from xscl.store.store import Store
from xscl.subscriptions.subscriptions import Subscriptions

MOST_PAIRS = 10_000
"""Maximum number of pairs of variables whose witnesses are counted."""


class PlanUsers(NamedTuple):
    """The number of subscriptions that share a node, the first names, and what the node keeps."""

    total: int
    names: list[str]
    keeps: str


def plan_users(
    store: Store,
    registry: Registry,
    subscriptions: Subscriptions,
    dataflow: Dataflow,
    node: PlanNode,
    most: int,
) -> PlanUsers:
    """Return who shares a node, with at most some names.

    It looks at all subscriptions: some 100 ms for 100,000 of them.
    """
    uses = _user_test(dataflow, node)
    names = [one.name for one in subscriptions if uses(one)]
    keeps = _keeps(store, registry, dataflow, node)
    return PlanUsers(len(names), heapq.nsmallest(most, names), keeps)


def _user_test(dataflow: Dataflow, node: PlanNode) -> Callable[[Subscription], bool]:
    """Return the test if a subscription uses a node."""
    subscribed = dataflow.subscribed
    if node.kind == STREAM:
        return lambda one: node.name in one.reads
    if node.kind == TEMPLATE:
        return lambda one: node.name in map(template_name, subscribed.templates(one))
    mops = {id(mop) for mop in dataflow.core.plan.mops if mop.label == node.name}
    return lambda one: any(id(operator.mop) in mops for operator in subscribed.operators(one))


def _keeps(store: Store, registry: Registry, dataflow: Dataflow, node: PlanNode) -> str:
    """Return the size of a node's state in words."""
    if node.kind == STREAM:
        return counted(count_texts(store, node.name), "document")
    if node.kind == TEMPLATE:
        members = next(m for n, m in registry.members.items() if template_name(n) == node.name)
        pairs = list({pair for column in members.columns for pair in column})
        if len(pairs) > MOST_PAIRS:
            return f"the witnesses of {len(pairs):,} pairs of variables"
        kept = kept_witnesses(store, pairs, since=INFINITE)
        return f"{counted(kept.rows, 'witness row')} of {counted(kept.documents, 'document')}"
    for mop in dataflow.core.plan.mops:
        if mop.label == node.name:
            entries = mop.entries()
            more = f", {entries:,} index entries" if entries else ""
            return f"{counted(mop.instances(), 'instance')}{more}"
    return "nothing"
