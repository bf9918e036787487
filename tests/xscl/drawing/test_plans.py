"""The plan as a graph, and its picture."""

from __future__ import annotations

from itertools import pairwise

from lxml import etree

import xscl
from xscl.drawing import draw_plan
from xscl.drawing.plans import MOST, largest
from xscl.drawing.svg import NAMESPACE
from xscl.plangraph import PlanGraph, PlanNode
from xscl.samples import subscriptions


def test_the_plan_has_streams_scans_templates_and_operators() -> None:
    engine = xscl.Engine()
    engine.subscribe_many(subscriptions().items())
    engine.subscribe(
        "next", "weather//item->a[./title->t] NEXT{t = u} weather//item->b[./title->u]"
    )
    graph = engine.plan()
    kinds = {node.kind for node in graph.nodes}
    assert {"stream", "xpath_scan", "template"} < kinds
    assert sum(node.operators for node in graph.nodes if node.kind == "template") == 5
    names = {node.name for node in graph.nodes}
    assert names.issuperset(end for edge in graph.edges for end in edge)
    read = {target for source, target in graph.edges if source == "weather"}
    assert read == {"xpath_scan#1"}
    other = graph.renamed(lambda name: f"alice: {name}")
    assert {"alice: weather", "xpath_scan#1"} < {node.name for node in other.nodes}
    assert ("alice: weather", "xpath_scan#1") in other.edges
    svg = etree.fromstring(draw_plan(graph).svg())
    texts = {each.text for each in svg.iter(f"{{{NAMESPACE}}}text")}
    assert names <= texts


def test_an_empty_plan_is_an_empty_picture() -> None:
    assert etree.fromstring(draw_plan(xscl.Engine().plan()).svg()).get("role") == "img"


def test_of_a_large_plan_the_largest_part_is_drawn() -> None:
    nodes = tuple(PlanNode(f"n{i}", "select", i) for i in range(5 * MOST))
    graph = PlanGraph(nodes, tuple((a.name, b.name) for a, b in pairwise(nodes)))
    part = largest(graph)
    assert [node.name for node in part.nodes] == [f"n{i}" for i in range(4 * MOST, 5 * MOST)]
    assert len(part.edges) == MOST - 1
