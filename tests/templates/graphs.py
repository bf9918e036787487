"""Join graphs for tests: all of them up to a size, and ways to write them down."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from templates.model.join_graph import LEFT, RIGHT, Edge, JoinGraph, Node

Shape: TypeAlias = "int | tuple[Shape, ...]"
Pairs: TypeAlias = tuple[tuple[int, int], ...]


def graph(left: Shape, right: Shape, edges: Sequence[tuple[int, int]]) -> JoinGraph:
    """Return the join graph of two trees: a leaf is its number, an inner node a tuple."""
    nodes: list[Node] = []
    leaves: dict[tuple[int, int], int] = {}

    def grow(shape: Shape, side: int, parent: int | None) -> None:
        number = len(nodes)
        nodes.append(Node(side, parent, isinstance(shape, int)))
        if isinstance(shape, int):
            leaves[side, shape] = number
            return
        for child in shape:
            grow(child, side, number)

    grow(left, LEFT, None)
    grow(right, RIGHT, None)
    joined = (Edge(leaves[LEFT, a], leaves[RIGHT, b]) for a, b in edges)
    return JoinGraph(tuple(nodes), tuple(joined))


def comparisons(joins: int) -> Iterator[tuple[int, int, Pairs]]:
    """Yield every set of so many edges, with the number of leaves that it uses on each side."""
    for left, right in itertools.product(range(1, joins + 1), repeat=2):
        every = itertools.product(range(left), range(right))
        for edges in itertools.combinations(every, joins):
            if len({a for a, _ in edges}) == left and len({b for _, b in edges}) == right:
                yield left, right, edges


def trees(leaves: Sequence[int], depth: int) -> Iterator[Shape]:
    """Yield every tree over the leaves whose inner nodes fork, at most so deep."""
    if len(leaves) == 1:
        yield leaves[0]
        return
    if depth == 0:
        return
    for parts in _partitions(list(leaves)):
        if len(parts) > 1:
            yield from itertools.product(*(list(trees(part, depth - 1)) for part in parts))


def _partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            for partition in _partitions(left):
                yield [[first, *others], *partition]
