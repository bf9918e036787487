"""Composites by brute force: the rows of an expression, from the definitions alone.

The blocks of a query, numbered from left to right, are its components.  An expression is the list
of its composites: some documents, the nodes of variables in them, and an interval.  Operators try
all pairs; nothing is indexed, forgotten or shared, and the trees of tests/oracle/queries.py are
read, never a text.

==========================  =======================================================================
A JOIN{p, T} B              abs(a.t1 - b.t1) <= T
A JOIN{p, S TO T} B         S <= b.t1 - a.t1 <= T
A SYMMETRIC JOIN{p, T} B    0 <= b.t1 - a.t1 <= T; of equal times a arrived before b
A FOLLOWED BY{p, T} B       a.t1 < b.t0 and b.t1 - a.t1 <= T
A FOLLOWED BY{p, S TO T} B  S <= b.t0 - a.t1 and b.t1 - a.t1 <= T
A NEXT{p} B                 of each a the earliest b with a.t1 < b.t0, all if simultaneous
A FOLD{p, q, ...} B         instances begin as a; the earliest b after one that satisfy p replace
                            it; those that satisfy q give the next instances, which are the results
A LONGEST FOLD{...} B       of these results each that b replace of which none satisfies q; it ends
                            at their b.t1
A NOT FOLLOWED BY{p, T} B   each a without a b that follows it so; it ends at a.t1 + T and has no
                            variables of B
A FOLLOWED BY{p, T} B ELSE  the pairs, and each a that NOT FOLLOWED BY gives
A JOIN{p, S TO T} B ELSE    the pairs; each a without one, which ends at a.t1 + T if T is above 0,
                            else at a.t1; each b without one, which ends at b.t1 - S if S is below 0
==========================  =======================================================================

No document, and no two versions of one, occur twice in a composite.  M(n), the clock of document
n, is the largest timestamp that arrived before it; a composite has the clock and the rank (place
in the order of arrival) of its newest document.  JOIN and FOLLOWED BY are monotone: of two
composites the one of larger rank, n, meets the other, o, iff M(n) <= o.t1 + R + L, R being the
larger one of T and -S, L the larger lateness of the streams below; of equal ranks both ways must
hold.

The other operators are ordered.  They close the epoch t when the clock exceeds t + L, L being the
largest lateness of the query's streams, and miss what arrives with t1 < M(n) - L.  Their results
are always in time: they have the least rank and the clock minus infinity, and appear when their
epoch closes, at the end of input if not before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import assert_never

from tests.oracle.formulas import Scope, choices, holds, number_of
from tests.oracle.numbers import Number
from tests.oracle.patterns import embeddings
from tests.oracle.queries import Expression, Fold, FollowedBy, Formula, Join, Next, Query, blocks
from tests.oracle.steps import Block
from tests.oracle.trees import Node

FLUSH = 1 << 62  # the moment at the end of input

# -- Rows ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """A document as queries see it; `moment` is the event with which it appears."""

    id: str
    name: str  # the id of its first version
    version: int
    streams: tuple[str, ...]
    timestamp: int
    tree: Node
    rank: int
    clock: float
    first: int
    moment: int


@dataclass(frozen=True, slots=True, eq=False)
class Composite:
    """Documents by component, the nodes of variables with their documents, and where in time."""

    documents: tuple[tuple[int, Arrived], ...]
    nodes: Mapping[str, tuple[Arrived, Node]]
    t0: int
    t1: int
    first: int
    rank: int
    clock: float
    moment: int
    aggregates: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class World:
    """The input of an evaluation: visible documents, lateness, and when epochs close."""

    documents: Sequence[Arrived]
    lateness: Mapping[str, int]
    wanted: frozenset[str]  # variables that some predicate reads
    late: int  # the largest lateness of the query's streams
    clocks: Sequence[tuple[int, int]]  # places and timestamps of arrivals

    def lateness_of(self, expression: Expression) -> int:
        """Return the largest lateness of the streams that an expression reads."""
        return max(self.lateness.get(block.stream, 0) for block in blocks(expression))

    def closing(self, epoch: int) -> int:
        """Return the place of the arrival that closes an epoch; at the end the flush does."""
        limit = epoch + self.late
        return next((place for place, time in self.clocks if time > limit), FLUSH)


def composites(expression: Expression, world: World, component: int = 0) -> list[Composite]:
    """Return the composites of an expression whose first block is a component."""
    match expression:
        case Block():
            return _witnesses(expression, world, component)
        case Query(inner):
            return composites(inner, world, component)
        case Join() | FollowedBy() | Next() | Fold():
            after = component + len(blocks(expression.left))
            left = composites(expression.left, world, component)
            right = composites(expression.right, world, after)
            return _combined(expression, left, right, world)
        case _:
            assert_never(expression)


def _witnesses(block: Block, world: World, component: int) -> list[Composite]:
    """Return the distinct bindings of the wanted variables in each document of the stream."""
    made = list[Composite]()
    for document in world.documents:
        if block.stream in document.streams:
            found = dict[frozenset[tuple[str, int]], dict[str, tuple[Arrived, Node]]]()
            for _, binding in embeddings(document.tree, block.step):
                nodes = {n: (document, node) for n, node in binding.items() if n in world.wanted}
                found[frozenset((n, node.number) for n, (_, node) in nodes.items())] = nodes
            time, arrived = document.timestamp, (document.first, document.rank, document.clock)
            parts = ((component, document),)
            made += [
                Composite(parts, nodes, time, time, *arrived, document.moment)
                for nodes in found.values()
            ]
    return made


def _combined(
    expression: Join | FollowedBy | Next | Fold,
    left: list[Composite],
    right: list[Composite],
    world: World,
) -> list[Composite]:
    match expression:
        case Join(otherwise="") | FollowedBy(negated=False, otherwise=False):
            late = max(world.lateness_of(side) for side in (expression.left, expression.right))
            return [
                _pair(a, b)
                for a, b in product(left, right)
                if in_time(expression, a, b)
                and kept(a, b, reach(expression), late)
                and _meet(a, b, expression.predicate)
            ]
        case Join():
            found = _outer(expression, _timely(left, world), _timely(right, world))
        case FollowedBy():
            found = _answered(expression, _timely(left, world), _timely(right, world))
        case Next(_, _, predicate):
            rights = _timely(right, world)
            found = [
                _pair(a, b)
                for a in _timely(left, world)
                for b in _earliest([b for b in rights if _meet(a, b, predicate)], a.t1)
            ]
        case Fold():
            found = _folded(expression, _timely(left, world), _timely(right, world))
        case _:
            assert_never(expression)
    return [
        replace(c, rank=-1, clock=-math.inf, moment=world.closing(c.t1)) for c in _distinct(found)
    ]


def _distinct(found: Iterable[Composite]) -> list[Composite]:
    """Return rows, of equal ones the one whose parts arrived first."""
    kept = dict[object, Composite]()
    for row in sorted(found, key=lambda row: row.first):
        nodes = frozenset((n, d.id, node.number) for n, (d, node) in row.nodes.items())
        documents = tuple((place, document.id) for place, document in row.documents)
        aggregates = frozenset((n, str(value)) for n, value in row.aggregates.items())
        kept.setdefault((documents, nodes, aggregates, row.t1), row)
    return list(kept.values())


def _pair(a: Composite, b: Composite) -> Composite:
    newest = a if a.rank >= b.rank else b
    return Composite(
        (*a.documents, *b.documents),
        {**a.nodes, **b.nodes},
        min(a.t0, b.t0),
        max(a.t1, b.t1),
        min(a.first, b.first),
        newest.rank,
        newest.clock,
        max(a.moment, b.moment),
        {**a.aggregates, **b.aggregates},
    )


def in_time(operator: Join | FollowedBy, a: Composite, b: Composite) -> bool:
    distance, window = b.t1 - a.t1, math.inf if operator.window is None else operator.window
    if isinstance(operator, FollowedBy):
        return b.t0 - a.t1 >= (operator.lower or 1) and distance <= window
    if operator.symmetric:
        in_order = (a.t1, a.rank) < (b.t1, b.rank)
        return in_order and (operator.lower or 0) <= distance <= window
    return (-window if operator.lower is None else operator.lower) <= distance <= window


def reach(operator: Join | FollowedBy) -> int | None:
    """Return the least time for which a side is kept, None for ever."""
    window = operator.window
    return None if window is None else max(window, -(operator.lower or 0))


def kept(a: Composite, b: Composite, window: int | None, late: int) -> bool:
    """Return true if the earlier arrival of two is still kept when the later one comes."""
    if window is None:
        return True
    return all(n.clock <= o.t1 + window + late for o, n in ((a, b), (b, a)) if o.rank <= n.rank)


def _different(a: Composite, b: Composite) -> bool:
    names = {document.name for _, document in a.documents}
    return not any(document.name in names for _, document in b.documents)


def _meet(a: Composite, b: Composite, predicate: Formula | None) -> bool:
    """Return true if two composites have different documents and satisfy a predicate."""
    return _different(a, b) and holds(predicate, _scope(a, b))


def _scope(a: Composite, b: Composite) -> Scope:
    named = {**a.nodes, **b.nodes}
    named |= {f"${k}.{n}": found for k, c in ((1, a), (2, b)) for n, found in c.nodes.items()}
    return {**_values(named), **a.aggregates, **b.aggregates}


def _values(named: Mapping[str, tuple[Arrived, Node]]) -> Scope:
    """Return nodes by name, and under `time(x)` the times of their documents, in seconds."""
    times = {f"time({n})": document.timestamp / 1e6 for n, (document, _) in named.items()}
    return {**{n: node for n, (_, node) in named.items()}, **times}


# -- Ordered operators ---------------------------------------------------------------------


def _timely(rows: Iterable[Composite], world: World) -> list[Composite]:
    """Return the rows that are not late for ordered operators."""
    return [row for row in rows if row.t1 >= row.clock - world.late]


def _earliest(rights: Sequence[Composite], after: int) -> list[Composite]:
    later = [b for b in rights if after < b.t0]
    return [b for b in later if b.t1 == min(other.t1 for other in later)]


def _answered(
    expression: FollowedBy, left: list[Composite], right: list[Composite]
) -> list[Composite]:
    """Return the results of NOT FOLLOWED BY, or of FOLLOWED BY with ELSE."""
    assert expression.window is not None
    made = list[Composite]()
    for a in left:
        answers = [
            b for b in right if in_time(expression, a, b) and _meet(a, b, expression.predicate)
        ]
        if not answers:
            made.append(replace(a, t1=a.t1 + expression.window))
        elif expression.otherwise:
            made += [_pair(a, b) for b in answers]
    return made


def _outer(expression: Join, left: list[Composite], right: list[Composite]) -> list[Composite]:
    """Return the results of JOIN with ELSE."""
    upper = expression.window
    assert upper is not None
    lower = -upper if expression.lower is None else expression.lower
    pairs = [
        (a, b)
        for a, b in product(left, right)
        if in_time(expression, a, b) and _meet(a, b, expression.predicate)
    ]
    made = [_pair(a, b) for a, b in pairs]
    if expression.otherwise in ("both", "left"):
        alone = [a for a in left if not any(a is one for one, _ in pairs)]
        made += [replace(a, t1=a.t1 + max(upper, 0)) for a in alone]
    if expression.otherwise in ("both", "right"):
        alone = [b for b in right if not any(b is other for _, other in pairs)]
        made += [replace(b, t1=b.t1 + max(-lower, 0)) for b in alone]
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Instance:
    """An instance of FOLD: its first row, its last row, and the row that it is put out as."""

    first: Composite
    last: Composite | None
    row: Composite

    def scope(self, new: Composite, names: Iterable[str]) -> Scope:
        """Return the meaning of names when a new row comes."""
        last = _values({f"$.{name}": found for name, found in self._last(new.nodes)})
        own = {name: self.row.aggregates.get(name, Fraction(0)) for name in names}
        decorated = {f"$.{name}": value for name, value in own.items()}
        return {**_scope(self.first, new), **last, **own, **decorated}

    def _last(self, names: Iterable[str]) -> Iterator[tuple[str, tuple[Arrived, Node]]]:
        """Return the nodes of the last row, which begins as the first one."""
        for name in names:
            row, found = (self.last, name) if self.last is not None else (self.first, f"{name}_1")
            found = found if found in row.nodes else name
            if found in row.nodes:
                yield name, row.nodes[found]


def _folded(expression: Fold, left: list[Composite], right: list[Composite]) -> list[Composite]:
    """Return the instances of FOLD after each step, or the longest ones that end."""
    names = [name for name, _ in expression.aggregates]
    made = list[Composite]()
    waiting = [_Instance(a, None, a) for a in left]
    while waiting:
        reached = list[_Instance]()
        for one in waiting:
            before = len(reached)
            met = [
                b
                for b in right
                if _different(one.row, b) and holds(expression.predicate, one.scope(b, names))
            ]
            earliest = _earliest(met, one.row.t1)
            for b in earliest:
                scope = one.scope(b, names)
                if holds(expression.again, scope):
                    computed = {
                        name: number_of(next(iter(choices(operand, scope)), None))
                        for name, operand in expression.aggregates
                    }
                    row = _pair(one.first, b)
                    row = replace(
                        row,
                        first=min(one.row.first, row.first),
                        aggregates={**row.aggregates, **computed},
                    )
                    reached.append(_Instance(one.first, b, row))
            is_over = bool(earliest) and len(reached) == before
            if expression.longest and one.last is not None and is_over:
                made.append(replace(one.row, t1=earliest[0].t1))
        if not expression.longest:
            made += [one.row for one in reached]
        waiting = reached
    return made
