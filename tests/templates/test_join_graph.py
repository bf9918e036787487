"""Minors: the reduction rules of section 6.4.2, and what the extension keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from templates.model.join_graph import LEFT, RIGHT, Edge, JoinGraph, Node, minor


def sides(*parents: int | None) -> list[Node]:
    return [Node(LEFT, parent) for parent in parents]


def test_the_least_common_ancestor_is_kept_and_what_is_above_it_dropped() -> None:
    # left r(a(b, c(d))) with b = x, d = y; right z(x, y)
    nodes = (*sides(None, 0, 1, 1, 3), Node(RIGHT, None), Node(RIGHT, 5), Node(RIGHT, 5))
    reduced, kept = minor(JoinGraph(nodes, (Edge(2, 6), Edge(4, 7))))
    assert kept == (1, 2, 4, 5, 6, 7)
    assert [node.parent for node in reduced.nodes] == [None, 0, 0, None, 3, 3]


@st.composite
def graphs(draw: st.DrawFn) -> JoinGraph:
    nodes: list[Node] = []
    for side in (LEFT, RIGHT):
        first = len(nodes)
        for number in range(draw(st.integers(1, 6))):
            parent = None if number == 0 else draw(st.integers(first, first + number - 1))
            nodes.append(Node(side, parent, draw(st.booleans())))
    lefts = [i for i, n in enumerate(nodes) if n.side == LEFT]
    rights = [i for i, n in enumerate(nodes) if n.side == RIGHT]
    pairs = st.tuples(st.sampled_from(lefts), st.sampled_from(rights))
    edges = draw(st.lists(pairs, min_size=1, max_size=4, unique=True))
    return JoinGraph(tuple(nodes), tuple(Edge(a, b) for a, b in sorted(edges)))


@given(graphs())
def test_a_minor_is_its_own_minor(graph: JoinGraph) -> None:
    reduced, _ = minor(graph)
    assert minor(reduced) == (reduced, tuple(range(len(reduced.nodes))))


@given(graphs())
def test_a_minor_keeps_joins_and_outputs_and_every_inner_node_is_needed(graph: JoinGraph) -> None:
    reduced, kept = minor(graph)
    assert {(kept[e.left], kept[e.right]) for e in reduced.edges} == {
        (e.left, e.right) for e in graph.edges
    }
    assert {i for i, n in enumerate(graph.nodes) if n.output} <= set(kept)
    children = [n.parent for n in reduced.nodes]
    for number, node in enumerate(reduced.nodes):
        assert node.output or number in reduced.compared or children.count(number) > 1
