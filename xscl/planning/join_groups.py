"""The comparisons of a query: groups of operands that are equal, or otherwise compared.

An operand is a variable of the query and a path below it, perhaps an empty one: it selects the
nodes whose values the predicate looks at.  Operands that one comparison joins are in one group,
and so are those that a chain of comparisons does (t = u, u = n).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from xscl.language import normalform as nf
from xscl.language import syntax
from xscl.language.scope import leaves
from xscl.planning.compile import CompiledJoin, CompiledQuery

ITSELF = syntax.Path()


@dataclass(frozen=True, slots=True)
class ComparedOperand:
    """A variable, and a path from its node to the nodes that are compared."""

    variable: str
    path: syntax.Path = ITSELF


@dataclass(frozen=True, slots=True)
class OperandGroup:
    """A group of operands; `is_equal` if all comparisons between them are equalities."""

    places: tuple[ComparedOperand, ...]
    is_equal: bool


_Comparison: TypeAlias = tuple[Sequence[ComparedOperand], bool]
"""The operands of a comparison, and whether it is an equality."""


def compared(query: CompiledQuery) -> tuple[OperandGroup, ...]:
    """Return the groups of operands that a query compares, in the order of its comparisons."""
    groups: list[OperandGroup] = []
    for places, is_equal in _comparisons(query):
        touched = [group for group in groups if not set(group.places).isdisjoint(places)]
        merged = [place for group in touched for place in group.places]
        at = groups.index(touched[0]) if touched else len(groups)
        is_equal = is_equal and all(group.is_equal for group in touched)
        groups = [group for group in groups if group not in touched]
        groups.insert(at, OperandGroup(tuple(dict.fromkeys([*merged, *places])), is_equal))
    return tuple(group for group in groups if len(group.places) > 1)


def _comparisons(query: CompiledQuery) -> Iterator[_Comparison]:
    for part in nf.forms(query.normal.form):
        match part:
            case nf.JoinForm(joins=numbers):
                for join in map(query.joins.__getitem__, numbers):
                    for edge in join.graph.edges:
                        both = [*_node(join, edge.left), *_node(join, edge.right)]
                        yield both, edge.operator == "="
                    yield from _of_predicate(join.residual)
            case nf.FoldForm():
                begins = dict(part.begins)
                for predicate in (part.predicate, part.again):
                    for places, is_equal in _of_predicate(predicate):
                        named = [place.variable for place in places]
                        first = [ComparedOperand(begins[name]) for name in named if name in begins]
                        yield [*places, *first], is_equal
            case nf.NextForm(predicate=predicate) | nf.AbsenceForm(predicate=predicate):
                yield from _of_predicate(predicate)
            case _:
                pass  # blocks and calendars compare nothing


def _node(join: CompiledJoin, number: int) -> Iterator[ComparedOperand]:
    """Yield the operands that a node of a join graph stands for; none if it is of a constant."""
    which, local, _ = join.nodes[number]
    side = join.sides[which]
    if side.pattern is None:
        yield from _places(side.leaves[local - 1][1]) if local else ()
        return
    steps: list[syntax.Step] = []
    for above in reversed(side.pattern.chain(local)):
        node = side.pattern.nodes[above]
        if node.variable is not None and not node.variable.startswith("$"):
            yield ComparedOperand(node.variable, syntax.Path(tuple(reversed(steps))))
            return
        if node.step.derived is None:
            steps.append(node.step)


def _of_predicate(predicate: syntax.Predicate | None) -> Iterator[_Comparison]:
    match predicate:
        case None:
            return
        case syntax.And(parts) | syntax.Or(parts):
            for part in parts:
                yield from _of_predicate(part)
        case syntax.Not(part):
            yield from ((places, False) for places, _ in _of_predicate(part))
        case syntax.Comparison(operator):
            yield _places(predicate), operator == "="
        case syntax.Call():
            yield _places(predicate), False
        case _:
            assert_never(predicate)


def _places(node: syntax.Predicate | syntax.Operand) -> list[ComparedOperand]:
    return [
        ComparedOperand(leaf.variable, leaf.path)
        if isinstance(leaf, syntax.VariablePath)
        else ComparedOperand(leaf.name)
        for leaf in leaves(node)
        if not isinstance(leaf, syntax.Constant)
    ]
