"""Templates: Table 6.3 by enumeration, and the laws of isomorphism."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.model.join_graph import Edge, JoinGraph, Node
from templates.template import Templates, embedding
from tests.templates.graphs import comparisons, graph, trees

UNLIMITED = 9


def number_of_templates(joins: int, depth: int) -> int:
    templates, flat = Templates(), Templates()
    for left, right, edges in comparisons(joins):
        known = len(list(flat))
        flat.of(graph(tuple(range(left)), tuple(range(right)), edges))
        if len(list(flat)) == known:
            continue  # the same edges under other numbers give the same templates
        for one in trees(range(left), depth):
            for other in trees(range(right), depth):
                templates.of(graph(one, other, edges))
    return len(list(templates))


@pytest.mark.parametrize(("joins", "templates"), [(1, 1), (2, 3), (3, 6), (4, 16)])
def test_table_6_3_flat_schema(joins: int, templates: int) -> None:
    assert number_of_templates(joins, 1) == templates


@pytest.mark.parametrize(("joins", "templates"), [(1, 1), (2, 3), (3, 16), (4, 215)])
def test_table_6_3_complex_schema(joins: int, templates: int) -> None:
    assert number_of_templates(joins, UNLIMITED) == templates


def test_three_levels_have_146_templates_of_four_joins() -> None:
    assert number_of_templates(4, 2) == 146


def renumbered(original: JoinGraph, seed: int) -> tuple[JoinGraph, dict[int, int]]:
    """Return an isomorphic graph with siblings in another order, parents still first."""
    order: list[int] = []
    pending = [i for i, node in enumerate(original.nodes) if node.parent is None]
    shuffle = random.Random(seed)
    while pending:
        node = pending.pop(shuffle.randrange(len(pending)))
        order.append(node)
        pending.extend(i for i, n in enumerate(original.nodes) if n.parent == node)
    order.sort(key=lambda i: original.nodes[i].side)
    new = {old: number for number, old in enumerate(order)}
    nodes = tuple(
        Node(
            original.nodes[i].side,
            None if (up := original.nodes[i].parent) is None else new[up],
            original.nodes[i].output,
        )
        for i in order
    )
    edges = [Edge(new[e.left], new[e.right], e.operator) for e in original.edges]
    shuffle.shuffle(edges)
    return JoinGraph(nodes, tuple(edges)), new


GRAPHS = [
    graph(one, other, edges)
    for joins in (1, 2, 3)
    for left, right, edges in comparisons(joins)
    for one in trees(range(left), UNLIMITED)
    for other in trees(range(right), UNLIMITED)
]


@given(st.sampled_from(GRAPHS), st.integers(0, 10_000), st.data())
def test_equal_queries_become_equal_rows(
    original: JoinGraph, seed: int, data: st.DataObject
) -> None:
    variables = [data.draw(st.integers(0, 3)) for _ in original.nodes]
    other, new = renumbered(original, seed)
    carried = [variables[old] for old in sorted(new, key=new.__getitem__)]
    template = Templates().of(original).graph
    one = embedding(template, original, variables)
    two = embedding(template, other, carried)
    assert one is not None
    assert two is not None
    assert [variables[i] for i in one] == [carried[i] for i in two]


@given(st.sampled_from(GRAPHS), st.integers(0, 10_000))
def test_an_embedding_keeps_sides_parents_and_comparisons(original: JoinGraph, seed: int) -> None:
    assert_isomorphic(original, renumbered(original, seed)[0])


def test_equal_branches_keep_their_own_leaves() -> None:
    """Colours do not tell the branches apart, nor the leaves: only their parents do."""
    right = (Node(1, None, True), Node(1, 5, True), Node(1, 5, True))
    branches = (Node(0, None, True), Node(0, 0, True), Node(0, 0, True))
    edges = (Edge(3, 6), Edge(4, 7))
    straight = JoinGraph((*branches, Node(0, 1, True), Node(0, 2, True), *right), edges)
    crossed = JoinGraph((*branches, Node(0, 2, True), Node(0, 1, True), *right), edges)
    assert_isomorphic(straight, crossed)


def assert_isomorphic(original: JoinGraph, other: JoinGraph) -> None:
    """Fail unless the embedding found keeps all that makes two graphs isomorphic."""
    found = embedding(original, other, [0] * len(other.nodes))
    assert found is not None
    for position, node in enumerate(original.nodes):
        there = other.nodes[found[position]]
        up = None if node.parent is None else found[node.parent]
        assert (node.side, node.output, up) == (there.side, there.output, there.parent)
    mapped = {(found[e.left], found[e.right], e.operator) for e in original.edges}
    assert mapped == {(e.left, e.right, e.operator) for e in other.edges}


def test_twelve_equal_joins_are_embedded_quickly() -> None:
    leaves = tuple(range(12))
    wide = graph(leaves, leaves, [(i, i) for i in leaves])
    found = embedding(wide, wide, [0] * len(wide.nodes))
    assert sorted(found or ()) == list(range(len(wide.nodes)))


def test_sides_are_not_exchanged() -> None:
    templates = Templates()
    fan_out = templates.of(graph(0, (0, 1), [(0, 0), (0, 1)]))
    fan_in = templates.of(graph((0, 1), 0, [(0, 0), (1, 0)]))
    assert fan_out is not fan_in


def test_operators_and_outputs_distinguish_templates() -> None:
    nodes = (Node(0, None, True), Node(1, None, True))
    hidden = (Node(0, None, True), Node(1, None, False))
    templates = Templates()
    numbers = {
        templates.of(JoinGraph(nodes, (Edge(0, 1),))).number,
        templates.of(JoinGraph(nodes, (Edge(0, 1, "!="),))).number,
        templates.of(JoinGraph(hidden, (Edge(0, 1),))).number,
    }
    assert len(numbers) == 3
