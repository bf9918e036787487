"""The plan as a graph, and its picture."""

from __future__ import annotations

from itertools import pairwise

from lxml import etree

import xscl
from xscl.drawing.plans import MOST, draw_plan, largest, shares
from xscl.drawing.svg import NAMESPACE
from xscl.engine.throughput import LOOK, OVER, PlanThroughput
from xscl.planning.plan_graph import PlanGraph, PlanNode
from xscl.web.samples import subscriptions


def test_the_plan_has_streams_scans_templates_and_operators() -> None:
    engine = xscl.Engine()
    engine.subscribe_many(subscriptions().items())
    engine.subscribe(
        "next", "weather//item->a[./title->t] NEXT{t = u} weather//item->b[./title->u]"
    )
    graph = engine.plan()
    kinds = {node.kind for node in graph.nodes}
    assert {"stream", "xpath_scan", "template"} < kinds
    assert sum(node.operators for node in graph.nodes if node.kind == "template") == 7
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


def test_nodes_say_what_has_passed_them() -> None:
    engine = xscl.Engine()
    engine.subscribe("pair", "S//a[./t->t] FOLLOWED BY{t = u, 1 h} S//b[./t->u] PUBLISH pairs")
    engine.subscribe("next", "pairs//a->x NEXT S//b->y")
    assert all(node.rows == 0 == node.rate for node in engine.plan().nodes)
    for number, text in enumerate(("<a><t>1</t></a>", "<b><t>1</t></b>", "<b><t>1</t></b>")):
        engine.push(xscl.Document("S", f"d{number}", number * 1_000_000, text.encode()))
    engine.flush()
    rows = {node.name: node.rows for node in engine.plan().nodes}
    by_kind = {node.kind: node.rows for node in engine.plan().nodes}
    assert (rows["S"], rows["pairs"]) == (3, 2)
    assert rows["template 1"] >= 2
    assert by_kind["sequence"] == 1
    assert all(node.rate > 0 for node in engine.plan().nodes if node.rows)


def test_rates_are_those_of_the_last_minute() -> None:
    now, rows = 1_000.0, 0
    flow = PlanThroughput(lambda: now)
    graph = PlanGraph((PlanNode("S", "stream"),), ())

    def passed() -> dict[str, int]:
        return {"S": rows}

    def rate() -> float:
        return flow.rated(graph, passed()).nodes[0].rate

    def push(documents: int) -> None:
        nonlocal rows
        flow.look(passed)
        rows += documents

    assert rate() == 0
    push(30)
    now += 30
    assert rate() == 1
    push(30)
    now += 30
    assert rate() == 1
    now += OVER + LOOK
    assert rate() == 0
    push(120)
    assert rate() == 2
    now += LOOK / 2
    push(60)
    assert rate() == 3


def test_a_node_has_a_bar_of_its_share_of_the_time_and_may_be_a_link() -> None:
    nodes = [PlanNode("S", "stream", rows=90), PlanNode("idle", "select", rows=50)]
    nodes += [PlanNode("a", "select", seconds=3.0), PlanNode("b<", "join", seconds=1.0)]
    graph = PlanGraph(tuple(nodes), (("S", "a"),))
    assert shares(graph) == {"a": 0.75, "b<": 0.25}
    svg = draw_plan(graph).svg()
    assert svg.count('class="d-bar"') == 2
    assert "href" not in svg
    assert etree.fromstring(svg).get("role") == "img"
    linked = etree.fromstring(draw_plan(graph, (), lambda name: f"/at?{name}").svg())
    links = [(each.get("href"), each[0].tag) for each in linked.iter(f"{{{NAMESPACE}}}a")]
    assert links == [(f"/at?{node.name}", f"{{{NAMESPACE}}}rect") for node in nodes]
    assert linked.get("role") == "group"  # an image would hide its links from screen readers
    assert shares(PlanGraph((), ())) == {}
