"""Joins of two sides: join graphs with their minors, and temporal relations.

A join graph (Hong 2009, sections 6.4.1 and 6.4.2) has one tree of pattern nodes for each side of a
join (structural edges) and an edge between the sides for each comparison.  Its *minor* keeps only
what stage 2 has to check: stage 1 has already evaluated the rest of the tree patterns.  Queries
whose minors are isomorphic share one template.

Extends section 6.4.2, which joins leaves by equality only: an inner node may
be compared too, comparisons other than `=` are edges as well, and a node
whose binding belongs to the match is kept although nothing joins it.

Temporal relations are what JOIN and FOLLOWED BY say about time, declared here only.  Two sides lie
in time by three measures, in ticks; a side is an interval, of a document a point:

    gap    from the end of the left side to the end of the right side
    lead   from the end of the left side to the beginning of the right side
    age    the clock when the newcomer of the two came, minus the end of the earlier arrival; of two
           that arrived together the larger one counts

SQL and NumPy (`conjunctive_query.in_time`), `why`, retention, lateness, sentence and drawing follow
from `OPERATORS` and from the `bounds` of a `TemporalRelation`.  Times are whole ticks, so each of
them is inclusive: "after" is a lead of at least 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Literal, TypeAlias

LEFT, RIGHT = 0, 1
UNEQUAL = "!="
EXCHANGED = "within "
"""Prefix of the operator of a text comparison whose sides are exchanged."""


@dataclass(frozen=True, slots=True)
class Node:
    """A pattern node: its side, its parent's number (None at the top), whether matches name it."""

    side: int
    parent: int | None
    output: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A comparison between a left and a right node, by their numbers.

    The operator is `=`, `!=`, or a comparison of texts (`templates.text.text_comparisons`).
    """

    left: int
    right: int
    operator: str = "="


@dataclass(frozen=True)
class JoinGraph:
    """The nodes of both sides, parents before children, left side first; and the comparisons.

    A node's number is its index.  All subscriptions of a shape share one graph, so it caches what
    it computes.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.edges))

    @cached_property
    def two_sided(self) -> bool:
        """True if there is a right side; a graph without one is a plain filter."""
        return self.nodes[-1].side == RIGHT

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of the nodes that matches name."""
        return tuple(number for number, node in enumerate(self.nodes) if node.output)

    @cached_property
    def compared(self) -> frozenset[int]:
        """The numbers of the nodes that some edge compares."""
        return _ends(self.edges)

    @cached_property
    def equal(self) -> frozenset[int]:
        """The numbers of the nodes with a value join."""
        return _ends(self.equalities)

    @cached_property
    def equalities(self) -> tuple[Edge, ...]:
        """The value joins proper: equalities, and comparisons of texts that an index answers."""
        return tuple(edge for edge in self.edges if edge.operator != UNEQUAL)

    @cached_property
    def text_joins(self) -> Mapping[int, Edge]:
        """The comparisons of texts among `equalities`: each edge by its index there."""
        return {at: edge for at, edge in enumerate(self.equalities) if edge.operator != "="}

    @cached_property
    def value_joins(self) -> tuple[tuple[int, int], ...]:
        """For each of `equalities`, the indexes (left, right) in `pairs` of those with its nodes.

        Its nodes are the children of these pairs.
        """
        place = {child: i for i, (_, child) in enumerate(self.pairs)}
        return tuple((place[edge.left], place[edge.right]) for edge in self.equalities)

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of nodes (parent, child) whose bindings stage 1 has to deliver, top down.

        A top node with a comparison of its own, and the only node of a side, is paired with itself,
        so that every node with a comparison is the second of a pair.
        """
        parents = {node.parent for node in self.nodes}
        return tuple(
            (number if node.parent is None else node.parent, number)
            for number, node in enumerate(self.nodes)
            if node.parent is not None or number in self.compared or number not in parents
        )


def _ends(edges: Iterable[Edge]) -> frozenset[int]:
    return frozenset(end for edge in edges for end in (edge.left, edge.right))


def minor(graph: JoinGraph) -> tuple[JoinGraph, tuple[int, ...]]:
    """Return the graph's minor and, for each of its nodes, the number that it had before.

    A node is *wanted* if it is compared or belongs to the match.  The minor keeps the wanted nodes
    and those where paths to wanted nodes fork.  This equals dropping the other leaves and all nodes
    above the least common ancestor of the wanted ones, and contracting inner nodes with one child.
    A side without a wanted node keeps its top node.
    """
    wanted = {*graph.compared, *graph.outputs}
    reached = {graph.nodes[number].side for number in wanted}
    for number, node in enumerate(graph.nodes):
        if node.parent is None and node.side not in reached:
            wanted.add(number)
    kept = wanted | _forks(graph, wanted)
    numbers: dict[int, int] = {}  # by the number of a kept node: its number in the minor
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        if number in kept:
            above = node.parent
            while above is not None and above not in kept:
                above = graph.nodes[above].parent
            parent = None if above is None else numbers[above]
            numbers[number] = len(nodes)
            nodes.append(Node(node.side, parent, node.output))
    edges = {Edge(numbers[e.left], numbers[e.right], e.operator) for e in graph.edges}
    in_order = sorted(edges, key=attrgetter("left", "right", "operator"))
    return JoinGraph(tuple(nodes), tuple(in_order)), tuple(numbers)


def _forks(graph: JoinGraph, wanted: set[int]) -> set[int]:
    """Return the nodes with wanted nodes below at least two of their children."""
    branches = [0] * len(graph.nodes)
    for number in reversed(range(len(graph.nodes))):
        parent = graph.nodes[number].parent
        if parent is not None and (number in wanted or branches[number]):
            branches[parent] += 1
    return {number for number, count in enumerate(branches) if count > 1}


# -- Time ------------------------------------------------------------------------------------

INFINITE = 1 << 62
"""The window INF, in ticks."""

Measure: TypeAlias = Literal["gap", "lead", "age"]
MEASURES: tuple[Measure, ...] = ("gap", "lead", "age")


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A bound of a measure of time, in ticks: the smallest or the largest value that is allowed."""

    measure: Measure
    is_least: bool
    ticks: int

    def holds(self, value: int) -> bool:
        """Return True if a value of the measure is within the bound."""
        return value >= self.ticks if self.is_least else value <= self.ticks


OperatorName: TypeAlias = Literal["FOLLOWED BY", "JOIN", "SYMMETRIC JOIN"]


@dataclass(frozen=True, slots=True)
class TemporalOperator:
    """FOLLOWED BY, JOIN or SYMMETRIC JOIN, with its number in R_T.

    With `follows` the right side is later than the left one.  The lower bound of a window, in
    ticks, bounds the measure `lowest`.  If a query states no lower bound, it is `least`, or with
    None there the negated upper bound.  `meaning` describes the order of two documents in words.
    """

    name: OperatorName
    number: int
    lowest: Measure
    follows: bool
    least: int | None
    meaning: str

    def within(self, upper: int | None, lower: int | None = None) -> TemporalRelation:
        """Return the relation with a window: its bounds in ticks, `upper` None for INF.

        Without `lower` the operator's default is taken.
        """
        upper = INFINITE if upper is None else upper
        return TemporalRelation(self, self._default(upper) if lower is None else lower, upper)

    def _default(self, upper: int) -> int:
        """Return the lower bound of a window that states none, given the upper one; in ticks."""
        return -upper if self.least is None else self.least


FOLLOWED_BY = TemporalOperator(
    "FOLLOWED BY",
    number=0,
    lowest="lead",
    follows=True,
    least=1,
    meaning="all pairs, not only the next; equal times do not match",
)
JOIN = TemporalOperator(
    "JOIN",
    number=1,
    lowest="gap",
    follows=False,
    least=None,
    meaning="every ordered pair of two different rows; equal times match",
)
SYMMETRIC_JOIN = TemporalOperator(
    "SYMMETRIC JOIN",
    number=2,
    lowest="gap",
    follows=False,
    least=0,
    meaning="every pair once; of equal times the left row arrived first",
)
"""Both sides are documents of one block; of two at the same time the left one has the lower
number."""
OPERATORS = (FOLLOWED_BY, JOIN, SYMMETRIC_JOIN)
"""The operators, by their numbers."""


_TERMS: Mapping[Measure, str] = {"gap": "b.t1 - a.t1", "lead": "b.t0 - a.t1"}


@dataclass(frozen=True, slots=True)
class TemporalRelation:
    """An operator with the bounds of its measures in a query, in ticks; INFINITE: no bound."""

    operator: TemporalOperator
    lower: int
    upper: int

    @property
    def window(self) -> int | None:
        """The upper bound in ticks, None for INF."""
        return None if self.upper >= INFINITE else self.upper

    @property
    def least(self) -> int | None:
        """The lower bound in ticks; None if it is the operator's default."""
        return None if self.lower == self.operator._default(self.upper) else self.lower

    @property
    def bounds(self) -> tuple[TimeBound, ...]:
        """The bounds of the measures; those that always hold are left out."""
        lowest = TimeBound(self.operator.lowest, True, self.lower)
        highest = TimeBound("gap", False, self.upper)
        return tuple(one for one in (lowest, highest) if abs(one.ticks) < INFINITE)

    @property
    def condition(self) -> str:
        """The condition in words, on a left row a and a right row b, with the bounds S and T."""
        if self.least is not None:
            lowest = f"S <= {_TERMS[self.operator.lowest]}"
        elif self.operator.follows:
            lowest = "a.t1 < b.t0"
        elif self.operator is SYMMETRIC_JOIN:
            lowest = "a.t1 <= b.t1"
        else:
            return "abs(a.t1 - b.t1) <= T"
        return f"{lowest} and {_TERMS['gap']} <= T"

    @property
    def waits(self) -> tuple[int, int]:
        """For how long after a left and after a right side its partner may come, in ticks."""
        return max(self.upper, 0), max(-self.lower, 0)

    @property
    def looks_back(self) -> bool:
        """True if the right side may end before the left one, or with it."""
        return self.lower < 1

    def keep(self, lateness: int) -> int:
        """Return the largest age, in ticks, at which a side may be joined; `lateness` in ticks."""
        reach = max(self.upper, -self.lower)
        return INFINITE if reach >= INFINITE else reach + lateness

    def delays(self, keep: int) -> tuple[int, int]:
        """Return by how many ticks a left and a right side may be late for each possible partner.

        A newcomer n meets a partner o of age M(n) - o.ts <= keep.  The earliest o of a left n is at
        n.ts + lower, that of a right one at n.ts - upper.
        """
        return keep + self.lower, keep - self.upper


@lru_cache(maxsize=65_536)
def relation_of(operator: int, lower: int, upper: int) -> TemporalRelation:
    """Return the relation with an operator's number and bounds: equal ones are one object."""
    return TemporalRelation(OPERATORS[operator], lower, upper)


UNBOUNDED = FOLLOWED_BY.within(None)
"""The relation of rows of R_T that join nothing."""
