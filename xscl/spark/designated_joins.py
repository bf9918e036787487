"""The designated join of a subscription: the equality by whose values documents can be divided.

A subscription that is one join over blocks, with an equality, can be evaluated in parts.  One of
its equalities is *designated*: the two documents of each match share a value of it, so the part to
which that value hashes has both, and makes all other comparisons.

No other subscription is divided: two documents of a match need not share a value (NEXT, FOLD, NOT,
ELSE, chains, OR, residual predicates, comparisons of texts alone), or other subscriptions read what
it finds (PUBLISH).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from templates.registry.registry import Registry
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


Rarity: TypeAlias = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Returns how often two kept documents share a value, for pairs of relaxed definitions."""


def equalities(registry: Registry, one: Subscription) -> list[Equality]:
    """Return the value joins that may be designated; none if a subscription cannot be divided.

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
            definitions[edge.left],
            definitions[edge.right],
            (bound.index(edge.left), bound.index(edge.right)),
        )
        for edge in graph.edges
        if edge.operator == "=" and edge.left in bound and edge.right in bound
    ]
    often = Counter((one.first, one.second) for one in found)
    return [
        one
        for one in found
        if often[one.first, one.second] == 1 and relaxed(one.first) and relaxed(one.second)
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


def designated(among: Sequence[Equality], rarity: Rarity) -> Equality | None:
    """Return the join that the fewest pairs of kept documents satisfy; None if there is none.

    Among equally rare ones, and without documents, it is the first in the order of definitions.
    """
    ordered = sorted(among, key=lambda one: (relaxed(one.first), relaxed(one.second), one))
    if len(ordered) < 2:
        return ordered[0] if ordered else None
    shared = rarity([(relaxed(one.first), relaxed(one.second)) for one in ordered])
    return ordered[min(range(len(ordered)), key=lambda place: (shared[place], place))]


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
