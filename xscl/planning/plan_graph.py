"""The plan as a graph that can be looked at: streams, scans, templates, m-ops, counts and rates.

A join over blocks is a row of its template's R_T and no operator of its own, so
the templates are put between the scans and what reads their results.  However
many operators an m-op has, its edges are looked for at the first of them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from cep_core.plan import MOp, Operator, Plan
from templates.model.join_graph import JoinGraph
from templates.registry.registry import Registry
from xscl.planning.operators.joins import JoinDefinition

LOOKED_AT = 500
"""Operators of an m-op whose inputs are looked at."""
STREAM, TEMPLATE = "stream", "template"
SCAN = "xpath_scan"

Link: TypeAlias = "tuple[str, str]"


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of the plan: its name, what it is, and a word on it.

    `operators` counts an m-op's operators, and a template's subscriptions; `rows` what it has
    handed on since the start (a stream and a scan: documents), `rate` how many a second within
    the last minute.
    """

    name: str
    kind: str
    operators: int = 0
    note: str = ""
    rows: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Passed:
    """Rows that were handed on since the start: by stream, by number of template, by m-op."""

    streams: Mapping[str, int]
    templates: Mapping[int, int]
    mops: Mapping[str, int]

    def by_name(self) -> dict[str, int]:
        """Return the rows of all nodes by their names."""
        templates = {_template(number): rows for number, rows in self.templates.items()}
        return {**self.streams, **templates, **self.mops}


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """The plan: its nodes, and which reads from which, by name."""

    nodes: tuple[PlanNode, ...]
    edges: tuple[Link, ...]

    def renamed(self, called: Callable[[str], str]) -> PlanGraph:
        """Return the same plan with other names of streams."""
        names = {node.name: called(node.name) for node in self.nodes if node.kind == STREAM}
        nodes = (replace(node, name=names.get(node.name, node.name)) for node in self.nodes)
        edges = ((names.get(one, one), names.get(other, other)) for one, other in self.edges)
        return PlanGraph(tuple(nodes), tuple(edges))


def plan_graph(plan: Plan, registry: Registry, subscribers: Mapping[int, int]) -> PlanGraph:
    """Return the plan of an engine; `subscribers` counts the subscriptions of each template."""
    nodes = [PlanNode(name, STREAM) for name in plan.sources]
    edges: dict[Link, None] = {}
    for mop in plan.mops:
        nodes.append(_mop(mop))
        edges.update(dict.fromkeys(_links(mop)))
    scans = [mop.label for mop in plan.mops if mop.kind == SCAN]
    for number, members in registry.members.items():
        name = _template(number)
        nodes.append(_node_of(name, members.template.graph, subscribers.get(number, 0)))
        edges.update(dict.fromkeys((scan, name) for scan in scans))
    return PlanGraph(tuple(nodes), tuple(edges))


def _template(number: int) -> str:
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
            yield _template(definition.template), mop.label
        else:
            yield from ((_name(source), mop.label) for source in operator.wanted.inputs)


def _name(operator: Operator) -> str:
    return str(operator.wanted.definition) if operator.mop is None else operator.mop.label
