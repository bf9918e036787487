"""The plan as a graph for display: streams, scans, templates and m-ops with row counts and rates.

A join over blocks is a row of its template's R_T, not an operator.  So templates are nodes
between the scans and the readers of their results.  The edges of an m-op are those of its first
`LOOKED_AT` operators, which bounds the cost of a graph.

The share of a subscription in the time of the plan: that of a node is divided equally among those
who share it, that of an m-op among its operators, and that of an operator among the subscriptions
that use it.  A scan has one operator for each stream; its time is divided by their documents first.
So the shares of all subscriptions add up to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from cep_core.plan import MOp, Operator, Plan
from templates.model.join_graph import JoinGraph
from templates.registry import Registry
from xscl.documents.results import Subscription
from xscl.planning.operators.joins import JoinDefinition
from xscl.planning.planned_subscriptions import PlannedSubscriptions

LOOKED_AT = 500
"""Maximum number of operators of an m-op whose inputs become edges."""
STREAM, TEMPLATE = "stream", "template"
SCAN = "xpath_scan"

Link: TypeAlias = "tuple[str, str]"


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of the plan graph: a stream, a template or an m-op.

    `kind` is "stream", "template" or the kind of the m-op; `note` is a remark for display.
    `operators` counts an m-op's operators, or the joins of subscriptions that a template has.
    `rows` counts the rows emitted since the start (of a stream and a scan: documents); `rate` is
    their mean number per second over the last minute, `seconds` is the time that the node has taken
    since the start, 0.0 of streams.
    """

    name: str
    kind: str
    operators: int = 0
    note: str = ""
    rows: int = 0
    rate: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """The plan graph: nodes, and edges (producer, reader) by node name."""

    nodes: tuple[PlanNode, ...]
    edges: tuple[Link, ...]

    def renamed(self, called: Callable[[str], str]) -> PlanGraph:
        """Return a copy whose streams are renamed by `called`."""
        names = {node.name: called(node.name) for node in self.nodes if node.kind == STREAM}
        nodes = (replace(node, name=names.get(node.name, node.name)) for node in self.nodes)
        edges = ((names.get(one, one), names.get(other, other)) for one, other in self.edges)
        return PlanGraph(tuple(nodes), tuple(edges))


def plan_graph(
    plan: Plan, registry: Registry, subscribers: Mapping[int, int], spent: Mapping[str, float]
) -> PlanGraph:
    """Return the plan graph; `subscribers` counts the joins of subscriptions by template number.

    `spent` are the seconds by node name.  `rows` and `rate` of its nodes are 0.
    """
    nodes = [PlanNode(name, STREAM) for name in plan.sources]
    edges: dict[Link, None] = {}
    for mop in plan.mops:
        nodes.append(_mop(mop))
        edges.update(dict.fromkeys(_links(mop)))
    scans = [mop.label for mop in plan.mops if mop.kind == SCAN]
    for number, members in registry.members.items():
        name = template_name(number)
        nodes.append(_node_of(name, members.template.graph, subscribers.get(number, 0)))
        edges.update(dict.fromkeys((scan, name) for scan in scans))
    timed = (replace(node, seconds=spent.get(node.name, 0.0)) for node in nodes)
    return PlanGraph(tuple(timed), tuple(edges))


def template_name(number: int) -> str:
    """Return the name that the node of a template has in the plan graph."""
    return f"template {number}"


def _node_of(name: str, graph: JoinGraph, subscribers: int) -> PlanNode:
    compared = len(graph.edges)
    shape = f"{compared} comparison{'' if compared == 1 else 's'}" if graph.two_sided else "filter"
    return PlanNode(name, TEMPLATE, subscribers, shape)


def _mop(mop: MOp) -> PlanNode:
    note = f"{mop.instances()} instances" if mop.lane is not None else ""
    return PlanNode(mop.label, mop.kind, len(mop.operators), note)


def _links(mop: MOp) -> Iterable[Link]:
    for operator in islice(mop.operators, LOOKED_AT):
        definition = operator.wanted.definition
        if isinstance(definition, JoinDefinition):
            yield template_name(definition.template), mop.label
        else:
            yield from ((_name(source), mop.label) for source in operator.wanted.inputs)


def _name(operator: Operator) -> str:
    return str(operator.wanted.definition) if operator.mop is None else operator.mop.label


@dataclass(eq=False, repr=False)
class CostShares:
    """Computes the shares of subscriptions in the time of the plan.

    `spent` has seconds, `passed` counts of emitted rows (of streams: documents), by node name.
    """

    _subscribed: PlannedSubscriptions
    _spent: Mapping[str, float]
    _passed: Mapping[str, int]

    def __post_init__(self) -> None:
        self._total = sum(self._spent.values())
        self._scanned: dict[MOp, int] = {}

    def of(self, subscription: Subscription) -> float:
        """Return a subscription's share in the time of the plan, from 0 to 1; 0 at the start."""
        subscribed, spent = self._subscribed, self._spent
        if not self._total:
            return 0.0
        seconds = sum(
            self._seconds(operator) / subscribed.users[operator]
            for operator in subscribed.operators(subscription)
        )
        for number in subscribed.templates(subscription):
            seconds += spent.get(template_name(number), 0.0) / subscribed.template_users[number]
        return seconds / self._total

    def _seconds(self, operator: Operator) -> float:
        mop = operator.mop
        assert mop is not None
        spent = self._spent.get(mop.label, 0.0)
        if mop.kind != SCAN:
            return spent / len(mop.operators)
        if mop not in self._scanned:
            self._scanned[mop] = sum(map(self._arrived, mop.operators))
        return spent * self._arrived(operator) / self._scanned[mop] if self._scanned[mop] else 0.0

    def _arrived(self, scan: Operator) -> int:
        """Return the number of documents that a scan has read."""
        return self._passed.get(str(scan.wanted.inputs[0].wanted.definition), 0)
