"""The picture of a plan: streams on the left, their readers to the right.

The layers, their order and the routes of the edges are graphlay's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from typing import Any

import graphlay
from lxml import etree

from xscl.drawing.svg import Picture, box, element, length, line, shortened, text
from xscl.planning.plan_graph import SCAN, STREAM, TEMPLATE, PlanGraph, PlanNode

MOST = 120
"""Most nodes of a picture; of a larger plan those with the most operators are drawn."""
HEIGHT = 62.0
MARGIN = 12.0
LONGEST = 28
_OPTIONS = {"spacing": {"layer_gap": 40.0, "node_gap": 18.0}}


def draw_plan(
    graph: PlanGraph, chosen: Container[str] = (), address: Callable[[str], str] | None = None
) -> Picture:
    """Return the picture of a plan, or of its largest part; `chosen` nodes are marked.

    With `address` each node, by its name, is a link.
    """
    shown = largest(graph)
    title = f"The plan: {len(graph.nodes)} nodes, {len(graph.edges)} edges"
    if not shown.nodes:
        return Picture(title, 2 * MARGIN, 2 * MARGIN, ())
    laid = _laid_out(shown)
    low, high = laid.bounds["min"], laid.bounds["max"]
    moved = (MARGIN - low["x"], MARGIN - low["y"])
    elements, share = [*_edges(laid.edges, moved)], shares(graph)
    for node, place in zip(shown.nodes, laid.nodes, strict=True):
        x, y = place["center"]["x"] + moved[0], place["center"]["y"] + moved[1]
        drawn = [*_node(node, x, y, is_chosen=node.name in chosen)]
        if node.name in share:
            drawn.append(_share(node, x, y, share[node.name]))
        if address is not None:
            link = element("a", href=address(node.name), class_="d-link")
            link.extend(drawn)
            drawn = [link]
        elements.extend(drawn)
    width, height = high["x"] - low["x"] + 2 * MARGIN, high["y"] - low["y"] + 2 * MARGIN
    return Picture(title, width, height, tuple(elements))


def shares(graph: PlanGraph) -> dict[str, float]:
    """Return by name the share of a node in the time of all; nodes without time are missing."""
    total = sum(node.seconds for node in graph.nodes)
    return {node.name: node.seconds / total for node in graph.nodes if node.seconds}


def largest(graph: PlanGraph) -> PlanGraph:
    """Return the nodes with the most operators, for streams readers, and the edges among them."""
    if len(graph.nodes) <= MOST:
        return graph
    readers = Counter(source for source, _ in graph.edges)
    ranked = sorted(graph.nodes, key=lambda node: -(node.operators + readers[node.name]))
    kept = {node.name for node in ranked[:MOST]}
    return PlanGraph(
        tuple(node for node in graph.nodes if node.name in kept),
        tuple(edge for edge in graph.edges if kept.issuperset(edge)),
    )


def _laid_out(graph: PlanGraph) -> graphlay.Layout:
    laid = graphlay.Graph()
    for node in graph.nodes:
        laid.node(node.name, width=_width(node), height=HEIGHT)
    for source, target in graph.edges:
        laid.edge(source, target)
    return graphlay.layout(laid, options=_OPTIONS)


def _width(node: PlanNode) -> float:
    lines = shortened(node.name, LONGEST), _words(node), passed(node)
    return max(map(length, lines)) + 28


def _words(node: PlanNode) -> str:
    """Return the second line of a node: its number of operators, and its note."""
    if node.kind == STREAM:
        return "stream"
    unit = "join" if node.kind == TEMPLATE else "operator"
    counted = f"{node.operators} {unit}{'' if node.operators == 1 else 's'}"
    return f"{counted} · {node.note}" if node.note else counted


def passed(node: PlanNode) -> str:
    """Return as text the rows of a node: the recent rate a second, and the total."""
    unit = "documents" if node.kind in (STREAM, SCAN) else "rows"
    if not node.rows:
        return f"no {unit} yet"
    return f"{rate(node.rate)}/s · {node.rows:,} {unit if node.rows > 1 else unit[:-1]}"


def rate(per_second: float) -> str:
    """Return a rate as text with two or three significant digits."""
    if per_second >= 100 or per_second == 0:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}" if per_second >= 1 else f"{per_second:.2g}"


def _node(node: PlanNode, x: float, y: float, *, is_chosen: bool) -> Iterator[etree._Element]:
    width = _width(node)
    kind = "chosen" if is_chosen else {STREAM: "side", TEMPLATE: "output"}.get(node.kind, "node")
    yield box(x - width / 2, y - HEIGHT / 2, width, HEIGHT, kind, 10)
    yield text(x, y - 12, shortened(node.name, LONGEST), "strong", "middle")
    yield text(x, y + 5, _words(node), "soft", "middle")
    yield text(x, y + 21, passed(node), "text" if node.rate else "soft", "middle")


def _share(node: PlanNode, x: float, y: float, share: float) -> etree._Element:
    """Return the bar, at the lower edge of a node, of its share in the time (`shares`)."""
    room = _width(node) - 24
    sides = x - room / 2, y + HEIGHT / 2 - 7
    return element("rect", x=sides[0], y=sides[1], width=room * share, height=3.0, class_="d-bar")


def _edges(edges: list[dict[str, Any]], moved: tuple[float, float]) -> Iterator[etree._Element]:
    for edge in edges:
        points = [(point["x"] + moved[0], point["y"] + moved[1]) for point in edge["points"]]
        yield line(points, "flow")
        x, y = points[-1]
        yield element("path", d=f"M{x:.1f} {y:.1f} l-7 -4 v8 z", class_="d-arrow")
