"""The designated join of a subscription on the grid: one of its equalities, and its group.

A subscription that is one join over blocks, with an equality, may lie in a group of cells.  One of
its equalities is *designated*: its two documents share that value, so both go to the cell of the
group to which the value hashes, and meet there.  All other comparisons are made in that cell.
Rows of R_T with the same designated join lie in the same group, as far as groups have room.

Everything else stays in slices: for it two documents of a match need not share a value (NEXT, FOLD,
NOT, ELSE, chains, OR, residual predicates, texts alone), or what it finds is read by others.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from templates.registry.registry import Registry
from xscl.cluster.grid import Grid
from xscl.cluster.placement import ROOM, SLACK
from xscl.documents.results import Subscription
from xscl.language.parser import parse_block
from xscl.language.syntax import Block
from xscl.language.unparse import unparse


class Equality(NamedTuple):
    """A value join of a row of R_T: the definitions of its two nodes.

    `places` are those of the nodes among the nodes of a result, in this engine.
    """

    first: str
    second: str
    places: tuple[int, int]


def equalities(registry: Registry, one: Subscription) -> list[Equality]:
    """Return the value joins that may be designated; none if a subscription has to be in a slice.

    Both nodes are nodes of documents that a result names, so that their values are known of each
    result.  A join whose nodes have the definitions of another one's is left out: which is which
    may differ between engines.
    """
    if not one.template or one.publish is not None:
        return []
    row = registry.row(one.qid)
    graph = registry.members[row.template].template.graph
    definitions = {
        child: registry.pairs.describe(pair).second
        for pair, (_, child) in zip(row.pairs, graph.pairs, strict=True)
    }
    bound = [number for number, node in enumerate(graph.nodes) if node.output]
    found = [
        Equality(
            *(definitions[edge.left], definitions[edge.right]),
            (bound.index(edge.left), bound.index(edge.right)),
        )
        for edge in graph.edges
        if edge.operator == "=" and edge.left in bound and edge.right in bound
    ]
    often = Counter(one[:2] for one in found)
    return [
        one for one in found if often[one[:2]] == 1 and relaxed(one.first) and relaxed(one.second)
    ]


@lru_cache(maxsize=10_000)
def relaxed(definition: str) -> str:
    """Return the path of a definition without conditions; "" if it is no node of a document.

    It selects at least the nodes of the definition.
    """
    if definition.startswith("#"):
        return ""
    block = parse_block(definition)
    if block.is_calendar or block.steps[-1].derived is not None:
        return ""
    return unparse(Block(block.stream, tuple(replace(one, conditions=()) for one in block.steps)))


class Designated(NamedTuple):
    """The group of a subscription by its first cell, and the designated join by definitions."""

    cell: int
    first: str
    second: str


Rarity: TypeAlias = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Returns how often two kept documents share a value, for pairs of relaxed definitions."""
Designate: TypeAlias = Callable[[Subscription, Sequence[Equality]], Designated | None]
"""Chooses a group and a join among some, or None for a slice."""


class Designation:
    """Designates the join that the fewest pairs of kept documents satisfy, fixed at registration.

    Without documents, or among equally rare ones, the first in the order of definitions is taken.
    Rows with a common designated join share a group: a document is routed there once for all.  A
    group that is much fuller than the others is passed over.
    """

    def __init__(self, grid: Grid, rarity: Rarity, known: Iterable[Designated] = ()) -> None:
        self._grid = grid
        self._rarity = rarity
        self._sizes = Counter(one.cell for one in known)

    def __call__(self, _: Subscription, among: Sequence[Equality]) -> Designated | None:
        """Return the group and the join of a new subscription."""
        if not among:
            return None
        joins = sorted((relaxed(one.first), relaxed(one.second), one) for one in among)
        pairs = [(first, second) for first, second, _ in joins]
        shared = self._rarity(pairs) if len(pairs) > 1 else [0.0]
        at = min(range(len(pairs)), key=lambda place: (shared[place], place))
        most = SLACK * (self._sizes.total() + 1) / self._grid.groups + ROOM
        for cell in self._ranked(pairs[at]):
            if self._sizes[cell] < most:
                self._sizes[cell] += 1
                return Designated(cell, joins[at][2].first, joins[at][2].second)
        raise AssertionError("some group has at most the mean")

    def _ranked(self, pair: tuple[str, str]) -> list[int]:
        def weight(cell: int) -> bytes:
            return hashlib.blake2b(f"{cell} {pair}".encode(), digest_size=8).digest()

        return sorted(self._grid.firsts, key=weight)


def shared_values(
    counts: Mapping[str, Counter[str]], pairs: Sequence[tuple[str, str]]
) -> list[float]:
    """Return the share of pairs of nodes with equal values, given the values of definitions."""
    found = []
    for first, second in pairs:
        one, other = counts[first], counts[second]
        equal = sum(count * other[value] for value, count in one.items())
        found.append(equal / max(1, one.total() * other.total()))
    return found
