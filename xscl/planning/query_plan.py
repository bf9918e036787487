"""Outlines: what planning a query takes of it.

A compiled query has its blocks as trees, which are looked at again for people.  The plan is asked
with the definitions of the nodes that stage 2 sees, as texts, and with what is left of predicates.
So the outlines of queries that differ in constants are the same but for these
(`xscl.planning.compile_cache`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from templates.model.join_graph import JoinGraph
from xscl.language.normalform import Absent, Scan
from xscl.language.scope import here, rewritten, variables
from xscl.language.syntax import Operand, Predicate
from xscl.language.unparse import unparse
from xscl.planning.compile import (
    CompiledJoin,
    CompiledQuery,
    JoinedParts,
    Occurring,
    Part,
    PartOf,
    Timed,
    Witnessed,
)


@dataclass(frozen=True, slots=True)
class DisjunctOutline:
    """A disjunct of a join, or a block that is read by itself, in the form for R_T.

    `names` are the variables of the minor's nodes, "" of one that has none.  Of a side that is a
    block `definitions` has those of its nodes, of a composite `leaves` the operands that its nodes
    stand for, None for its root.
    """

    reduced: JoinGraph
    operator: str
    window: int | None
    apart: bool
    names: tuple[str, ...]
    definitions: tuple[tuple[str, ...], ...]
    leaves: tuple[tuple[Operand | None, ...], ...]
    residual: Predicate | None

    def composite_definitions(
        self, side: int, stream: int, names: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the definitions of the minor's nodes on a composite's side.

        `stream` is the number of the composite stream, `names` are the variables of its rows.
        """
        return tuple(_leaf(stream, operand, names) for operand in self.leaves[side])


Outlined: TypeAlias = "PartOf[DisjunctOutline]"
"""A part of an outline; the inputs of the form of an operator over time stand for nothing."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A query as it is planned.

    `blocks` has the stream of each component, `places` the component that binds a variable.
    """

    source: str
    blocks: tuple[str, ...]
    places: Mapping[str, int]
    distinct: bool
    publish: str | None
    root: Outlined

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(self.blocks))

    def lateness(self, of_stream: Callable[[str], int]) -> int:
        """Return the lateness of the results: the streams' largest, and the time of deadlines."""
        return max(of_stream(stream) + time for stream, time in self.delays())

    def delays(self) -> tuple[tuple[str, int], ...]:
        """Return the streams, each with the time of the deadlines that its documents wait for."""

        def of(part: Outlined | int, time: int) -> Iterator[tuple[str, int]]:
            match part:
                case int(component) | Witnessed(component) | Occurring(component):
                    yield self.blocks[component], time
                case Timed(Absent(window=window), left, right):
                    yield from (*of(left, time + window), *of(right, time + window))
                case JoinedParts(left, right) | Timed(_, left, right):
                    yield from (*of(left, time), *of(right, time))
                case _:
                    assert_never(part)

        return tuple(dict.fromkeys(of(self.root, 0)))


def outline(query: CompiledQuery) -> Outline:
    """Return the outline of a query."""
    normal = query.normal
    return Outline(
        query.source,
        tuple(block.stream for block in normal.blocks),
        normal.places,
        normal.distinct,
        normal.publish,
        _part(query.root),
    )


_INPUT = Scan(0)


def _part(part: Part) -> Outlined:
    match part:
        case Witnessed(component, join):
            return Witnessed(component, _row(join))
        case Occurring():
            return part
        case JoinedParts(left, right, disjuncts):
            return JoinedParts(_side(left), _side(right), tuple(map(_row, disjuncts)))
        case Timed(form, left, right):
            bare = replace(form, left=_INPUT, right=_INPUT)
            return Timed(bare, _part(left), _part(right))
        case _:
            assert_never(part)


def _side(side: Part | int) -> Outlined | int:
    return side if isinstance(side, int) else _part(side)


def _row(join: CompiledJoin) -> DisjunctOutline:
    blocks = [side.pattern is not None for side in join.sides]
    return DisjunctOutline(
        join.reduced,
        join.operator or "FOLLOWED BY",
        join.window,
        join.apart,
        tuple(join.variable(number) or "" for number in join.kept),
        tuple(join.block_definitions(n) if block else () for n, block in enumerate(blocks)),
        tuple(() if block else join.leaves(n) for n, block in enumerate(blocks)),
        join.residual,
    )


def _leaf(stream: int, operand: Operand | None, names: Sequence[str]) -> str:
    """Return the definition of a composite's root, or of a leaf: its operand at a position."""
    if operand is None:
        return f"#{stream}"
    found = variables(operand)
    position = names.index(found[0]) if found else 0
    return f"#{stream}/{position} | {unparse(rewritten(operand, here))}"
