"""Query plans: what registration and planning take of a query.

A compiled query has its blocks as trees, which are looked at again for people.  Stage 2 asks for
the definitions of the nodes that it sees, as texts, and for what is left of predicates.  The plans
of queries that differ in constants are the same but for these, and mostly but for the definitions.
So `QueryPlans` compiles a query once for all of its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TypeAlias

from templates.model.join_graph import UNBOUNDED, JoinGraph, TemporalRelation
from xscl.language.constants import ShapeCache, filler
from xscl.language.limits import admit
from xscl.language.normalform import Absent, CalendarForm, FormOf, Joined, Scan, with_joins
from xscl.language.scope import here, rewritten, variables
from xscl.language.syntax import Operand, Predicate
from xscl.language.unparse import unparse
from xscl.planning.compile import CompiledJoin, CompiledQuery, too_deep

MOST = 50_000
"""Shapes that are kept: of some 3 to 7 kB each while one query has it, then of 9 to 16 kB."""
DocumentVariable: TypeAlias = tuple[int, str]
"""A variable, and the place of its document."""


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """A disjunct of a join, or a block that is read by itself, in the form for R_T.

    `number` is that of its definitions in the plan, `names` are the variables of the minor's nodes,
    "" of one that has none.  Of a side that is a composite `leaves` has the operands that its nodes
    stand for, None for its root.
    """

    number: int
    reduced: JoinGraph
    relation: TemporalRelation
    apart: bool
    names: tuple[str, ...]
    leaves: tuple[tuple[Operand | None, ...], ...]
    residual: Predicate | None

    def composite_definitions(self, side: int, stream: int, names: Sequence[str]) -> list[str]:
        """Return the definitions of the minor's nodes on a composite's side.

        `stream` is the number of the composite stream, `names` are the variables of its rows.
        """
        return [_leaf(stream, operand, names) for operand in self.leaves[side]]


PlannedPart: TypeAlias = "FormOf[PlannedJoin]"
"""A part of a plan."""


@dataclass(frozen=True)  # no slots: `streams` and `row` are remembered
class PlanShape:
    """A plan without its text and definitions, the same object for queries of one shape.

    `blocks` has the stream of each component, `places` the component that binds a variable.
    """

    blocks: tuple[str, ...]
    places: Mapping[str, int]
    distinct: bool
    publish: str | None
    root: PlannedPart

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(self.blocks))

    @cached_property
    def row(self) -> PlannedJoin | None:
        """The join of a query that is one row of R_T over blocks, and no more; None of others."""
        if self.publish is not None:
            return None
        match self.root:
            case Scan(_, join):
                return join
            case Joined(Scan(), Scan(), disjuncts=(join,)) if join.residual is None:
                return join
            case _:
                return None

    @cached_property
    def outputs(self) -> tuple[DocumentVariable | None, ...]:
        """Each node of the row's minor as a variable of a match; None if it belongs to none."""
        assert self.row is not None
        return tuple(
            (self.places[name], name) if node.output else None
            for node, name in zip(self.row.reduced.nodes, self.row.names, strict=True)
        )


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query as it is registered.

    `definitions` has for each join those of its nodes that are nodes of blocks.
    """

    source: str
    shape: PlanShape
    definitions: tuple[tuple[str, ...], ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return self.shape.streams

    @property
    def publish(self) -> str | None:
        """The stream that the query publishes."""
        return self.shape.publish

    def lateness(self, of_stream: Callable[[str], int]) -> int:
        """Return the lateness of the results: the streams' largest, and the time of deadlines."""
        return max(of_stream(stream) + time for stream, time in self.delays())

    def delays(self) -> tuple[tuple[str, int], ...]:
        """Return the streams, each with the time of the deadlines that its documents wait for."""

        def of(part: PlannedPart, time: int) -> Iterator[tuple[str, int]]:
            if isinstance(part, Scan | CalendarForm):
                yield self.shape.blocks[part.component], time
                return
            later = time + part.window if isinstance(part, Absent) else time
            yield from (*of(part.left, later), *of(part.right, later))

        return tuple(dict.fromkeys(of(self.shape.root, 0)))


class QueryPlans:
    """Plans of queries, compiled once for each shape; for any thread."""

    def __init__(self, compile_: Callable[[str], CompiledQuery], most: int = MOST) -> None:
        self._parts = ShapeCache(
            lambda source: _shape_and_definitions(compile_(source)), most, filler
        )

    def prepare(self, source: str) -> QueryPlan:
        """Return the plan of a query; raises QueryError."""
        admit(source)
        try:
            return QueryPlan(source, *self._parts(source))
        except RecursionError:
            raise too_deep(source) from None


def plan_of(query: CompiledQuery) -> QueryPlan:
    """Return the plan of a compiled query."""
    return QueryPlan(query.source, *_shape_and_definitions(query))


def _shape_and_definitions(
    query: CompiledQuery,
) -> tuple[PlanShape, tuple[tuple[str, ...], ...]]:
    normal, numbers = query.normal, count()

    def joined(_: Joined[CompiledJoin], join: CompiledJoin) -> PlannedJoin:
        return _join(join, next(numbers))

    def read(scan: Scan[CompiledJoin]) -> PlannedJoin:
        assert scan.join is not None
        return _join(scan.join, next(numbers))

    shape = PlanShape(
        tuple(block.stream for block in normal.blocks),
        normal.places,
        normal.distinct,
        normal.publish,
        with_joins(query.root, read, joined),
    )
    return shape, tuple(join.definitions() for join in query.joins)


def _join(join: CompiledJoin, number: int) -> PlannedJoin:
    return PlannedJoin(
        number,
        join.reduced,
        join.relation or UNBOUNDED,
        join.apart,
        tuple(join.variable(node) or "" for node in join.kept),
        tuple(
            () if side.pattern is not None else join.leaves(at)
            for at, side in enumerate(join.sides)
        ),
        join.residual,
    )


def _leaf(stream: int, operand: Operand | None, names: Sequence[str]) -> str:
    """Return the definition of a composite's root, or of a leaf: its operand at a position."""
    if operand is None:
        return f"#{stream}"
    found = variables(operand)
    position = names.index(found[0]) if found else 0
    return f"#{stream}/{position} | {unparse(rewritten(operand, here))}"
