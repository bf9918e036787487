"""Compilation cache by query shape: queries that differ in constants only are compiled once.

A query is registered as an outline (`xscl.planning.query_plan`).  One block, or one join of two
blocks, is `Plain`: a join graph and the definitions of its variables.  The outlines of one shape
differ in their constants only, so a shape is compiled once with placeholders for the constants.

Constants can change the order in which conditions are printed.  So a shape is compiled twice, with
placeholders in ascending and in descending order.  If the two results differ by more than the
placeholders, or do not reproduce the first query, every query of the shape is compiled by itself.
This happens at the second query of a shape, because many shapes have one query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias, TypeVar

from templates.model.join_graph import JoinGraph
from xscl.errors import XsclError
from xscl.language.constants import Constant, Shape, filler, marks, split
from xscl.language.limits import admit
from xscl.planning.compile import CompiledJoin, CompiledQuery, JoinedParts, Witnessed, too_deep
from xscl.planning.query_plan import Outline, outline

T = TypeVar("T")
Variable = tuple[int, str]


@dataclass(frozen=True)  # no slots: `reads` is remembered
class PlainShape:
    """The common part of plain queries of one shape.

    `streams` are those of its sides.  `outputs` has for each node of the minor
    the place of its document and its variable, if it belongs to a match.
    """

    streams: tuple[str, ...]
    reduced: JoinGraph
    operator: str
    window: int | None
    apart: bool
    outputs: tuple[Variable | None, ...]
    distinct: bool

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The streams, each once."""
        return tuple(dict.fromkeys(self.streams))


@dataclass(frozen=True, slots=True)
class Plain:
    """A query as it is registered: `definitions` are those of the nodes of its minor."""

    source: str
    shape: PlainShape
    definitions: tuple[str, ...]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return self.shape.reads

    @property
    def publish(self) -> None:
        """The published stream: none."""
        return


Registrable: TypeAlias = "Plain | Outline"
Fill: TypeAlias = "Callable[[Sequence[Constant]], Registrable]"

_SOURCE = "\ue000 source"  # stands for the text, which is put in like its constants

MOST = 50_000
"""Shapes that are kept: of some 3 to 7 kB each while one query has it, then of 9 to 16 kB."""


@dataclass(frozen=True, slots=True)
class First:
    """The only query of its shape so far, and its constants."""

    constants: Sequence[Constant]
    query: Registrable


class Shapes:
    """Queries ready to be registered, compiled once for each shape; for any thread."""

    def __init__(self, compile_: Callable[[str], CompiledQuery], most: int = MOST) -> None:
        self._compile = compile_
        self._most = most
        self._shapes: dict[Shape, First | Fill] = {}  # that of the longest ago first
        self._lock = threading.Lock()

    def prepare(self, source: str) -> Registrable:
        """Return a query ready to be registered; raises QueryError."""
        admit(source)
        found = split(source)
        if found is None:
            return self._alone(source)
        shape, constants = found
        with self._lock:
            known = self._shapes.pop(shape, None)
            if known is None:
                whole = self._alone(source)
                self._keep(shape, First(constants, whole))
                return whole
            if isinstance(known, First):
                known = self._learnt(shape, known.constants, known.query)
            self._keep(shape, known)
        try:
            return known((*constants, source))
        except RecursionError:
            raise too_deep(source) from None

    def _keep(self, shape: Shape, learnt: First | Fill) -> None:
        """Keep what is known of a shape; the one that was asked for longest ago leaves."""
        if len(self._shapes) >= self._most:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape] = learnt

    def _alone(self, source: str) -> Registrable:
        return registrable(self._compile(source))

    def _learnt(self, shape: Shape, constants: Sequence[Constant], whole: Registrable) -> Fill:
        """Return the factory of a shape's queries; one by one if more depends on constants."""
        whole = replace(whole, source=_SOURCE)
        first, last = ((*marks(shape, first=first), _SOURCE) for first in (True, False))
        if not constants:
            fill: Fill = filler(whole, first)
            return fill
        try:
            one, other = (
                replace(self._alone(shape.text(marked)), source=_SOURCE) for marked in (first, last)
            )
            fill = filler(one, first, printed=True)
            same = fill(last) == other and fill((*constants, _SOURCE)) == whole
        except (XsclError, RecursionError):
            return self._by_itself
        return fill if same else self._by_itself

    def _by_itself(self, given: Sequence[Constant]) -> Registrable:
        *_, source = given
        assert isinstance(source, str)
        return self._alone(source)


def registrable(compiled: CompiledQuery) -> Registrable:
    """Return a compiled query as it is registered."""
    return plain(compiled) or outline(compiled)


def plain(compiled: CompiledQuery) -> Plain | None:
    """Return a compiled query as it is registered; None if there is more to it than one join."""
    if compiled.normal.publish is not None:
        return None
    match compiled.root:
        case Witnessed(component, join):
            sides: tuple[int, ...] = (component,)
        case JoinedParts(int() as left, int() as right, (join,)) if join.residual is None:
            sides = (left, right)
        case _:
            return None
    reduced: JoinGraph = _same(join.reduced)
    shape = PlainShape(
        tuple(compiled.normal.blocks[component].stream for component in sides),
        reduced,
        join.operator or "FOLLOWED BY",
        join.window,
        join.apart,
        _outputs(compiled, join, sides),
        compiled.normal.distinct,
    )
    return Plain(compiled.source, _same(shape), join.definitions())


def _outputs(
    compiled: CompiledQuery, join: CompiledJoin, sides: tuple[int, ...]
) -> tuple[Variable | None, ...]:
    """Return for each node of the minor its place and variable, if it belongs to a match."""
    found: list[Variable | None] = []
    for node, number in zip(join.reduced.nodes, join.kept, strict=True):
        name = join.variable(number) or ""
        place = sides.index(compiled.normal.places[name]) if node.output else 0
        found.append((place, name) if node.output else None)
    return tuple(found)


@lru_cache(maxsize=MOST)
def _same(part: T) -> T:
    """Return one object for equal parts of queries."""
    return part
