"""The comparisons of a query: groups of operands that are equal, or otherwise compared.

An operand is a variable of the query and a path below it, perhaps an empty one: it selects the
nodes whose values the predicate looks at.  Operands that one comparison joins are in one group,
and so are those that a chain of comparisons does (t = u, u = n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from xscl.language.normalform import Absent, Folded, Following
from xscl.language.scope import leaves
from xscl.language.syntax import (
    And,
    Call,
    Comparison,
    Constant,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Step,
    VariablePath,
)
from xscl.planning.compile import CompiledJoin, CompiledQuery, JoinedParts, Timed, parts

ITSELF = Path()


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, and a path from its node to those that are compared."""

    variable: str
    path: Path = ITSELF


def compared(query: CompiledQuery) -> tuple[tuple[Place, ...], ...]:
    """Return the groups of what a query compares, in the order of its comparisons."""
    groups: list[list[Place]] = []
    for found in _comparisons(query):
        places = list(dict.fromkeys(found))
        touched = [group for group in groups if not set(group).isdisjoint(places)]
        merged = [place for group in touched for place in group]
        at = groups.index(touched[0]) if touched else len(groups)
        groups = [group for group in groups if group not in touched]
        groups.insert(at, [*merged, *(place for place in places if place not in merged)])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def _comparisons(query: CompiledQuery) -> Iterator[Sequence[Place]]:
    for part in parts(query.root):
        if isinstance(part, JoinedParts):
            for join in part.disjuncts:
                yield from _of_join(join)
        elif isinstance(part, Timed):
            yield from _of_form(part.form)


def _of_join(join: CompiledJoin) -> Iterator[Sequence[Place]]:
    for edge in join.graph.edges:
        yield [*_node(join, edge.left), *_node(join, edge.right)]
    if join.residual is not None:
        yield from _of_predicate(join.residual)


def _of_form(form: Following | Folded | Absent) -> Iterator[Sequence[Place]]:
    match form:
        case Folded(folding=folding):
            begins = dict(folding.begins)
            for predicate in (folding.predicate, folding.again):
                for places in () if predicate is None else _of_predicate(predicate):
                    named = [place.variable for place in places]
                    yield [*places, *(Place(begins[name]) for name in named if name in begins)]
        case Following(predicate=predicate) | Absent(predicate=predicate):
            if predicate is not None:
                yield from _of_predicate(predicate)
        case _:
            assert_never(form)


def _node(join: CompiledJoin, number: int) -> Iterator[Place]:
    """Yield what a node of a join graph stands for: none where it stands for a constant."""
    which, local = join.place(number)
    side = join.sides[which]
    if side.pattern is None:
        yield from _places(side.leaves[local - 1][1]) if local else ()
        return
    steps: list[Step] = []
    for above in reversed(side.pattern.chain(local)):
        node = side.pattern.nodes[above]
        if node.variable is not None and not node.variable.startswith("$"):
            yield Place(node.variable, Path(tuple(reversed(steps))))
            return
        if node.step.derived is None:
            steps.append(node.step)


def _of_predicate(predicate: Predicate) -> Iterator[Sequence[Place]]:
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _of_predicate(part)
        case Not(part):
            yield from _of_predicate(part)
        case Comparison() | Call():
            yield _places(predicate)
        case _:
            assert_never(predicate)


def _places(node: Predicate | Operand) -> list[Place]:
    return [
        Place(leaf.variable, leaf.path) if isinstance(leaf, VariablePath) else Place(leaf.name)
        for leaf in leaves(node)
        if not isinstance(leaf, Constant)
    ]
