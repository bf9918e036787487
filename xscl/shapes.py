"""Shapes of queries: thousands differ in constants only, and are compiled once.

A query that is one join of blocks, or one block, is `Plain`: registering it
takes its join graph and the definitions of its variables, not its tree.  Those
of a shape are the same but for the constants in the definitions, so they are
compiled once, with marks in place of the constants.

The one thing that a constant may change is the order in which conditions are
printed.  So a shape is compiled twice, with marks in the one order and in the
other; if the definitions differ by more than the marks, or are not those of
the first query itself, every query of the shape is compiled for itself.  All this
is done when a second query of the shape comes: of many there is but one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from templates.joingraph import JoinGraph
from xscl.compile import CompiledJoin, CompiledQuery, JoinedParts, Witnessed
from xscl.errors import XsclError
from xscl.language.constants import Constant, Shape, cut, joined, marks, split
from xscl.language.limits import refuse_characters
from xscl.language.unparse import literal

Variable = tuple[int, str]


@dataclass(frozen=True, slots=True)
class PlainShape:
    """What plain queries of one shape have in common.

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

    @property
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
        """What it publishes: nothing."""
        return


Registrable = Plain | CompiledQuery
Texts = Callable[[Sequence[str]], tuple[str, ...]]
Learnt = tuple[PlainShape, Texts]

MOST = 50_000
"""Shapes that are kept, of some 4 kB each."""


@dataclass(frozen=True, slots=True)
class First:
    """The only query of its shape so far, and its constants."""

    constants: Sequence[Constant]
    query: Plain


class Shapes:
    """Queries ready to be registered, compiled once for each shape."""

    def __init__(self, compile_: Callable[[str], CompiledQuery], most: int = MOST) -> None:
        self._compile = compile_
        self._most = most
        self._shapes: dict[Shape, First | Learnt | None] = {}  # that of the longest ago first

    def prepare(self, source: str) -> Registrable:
        """Return a query ready to be registered; raises QueryError."""
        refuse_characters(source)
        found = split(source)
        if found is None:
            return self._alone(source)
        shape, constants = found
        if shape not in self._shapes:
            whole = self._alone(source)
            self._keep(shape, First(constants, whole) if isinstance(whole, Plain) else None)
            return whole
        known = self._shapes.pop(shape)
        if isinstance(known, First):
            known = self._learnt(shape, known.constants, known.query)
        self._keep(shape, known)
        if known is None:
            return self._alone(source)
        common, texts = known
        return Plain(source, common, texts([_printed(constant) for constant in constants]))

    def _keep(self, shape: Shape, learnt: First | Learnt | None) -> None:
        """Keep what is known of a shape; the one that was asked for longest ago leaves."""
        if len(self._shapes) >= self._most:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape] = learnt

    def _alone(self, source: str) -> Registrable:
        compiled = self._compile(source)
        return plain(compiled) or compiled

    def _learnt(self, shape: Shape, constants: Sequence[Constant], whole: Plain) -> Learnt | None:
        """Return what queries of a shape have in common, if nothing else depends on constants."""
        if not constants:
            return whole.shape, lambda _: whole.definitions
        sides = []
        for first in (True, False):
            marked = marks(shape, first=first)
            try:
                made = self._alone(shape.text(marked))
            except XsclError:
                return None
            if not isinstance(made, Plain) or made.shape != whole.shape:
                return None
            sides.append(_cut(made.definitions, marked))
        texts = _filled(sides[0])
        if sides[0] != sides[1] or texts([_printed(one) for one in constants]) != whole.definitions:
            return None
        return whole.shape, texts


_Cut = tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]


def _cut(definitions: Sequence[str], marked: Sequence[Constant]) -> _Cut:
    """Return for each definition its pieces, and which constants come between them."""
    printed = [_printed(mark) for mark in marked]
    found = []
    for definition in definitions:
        parts = cut(definition, printed)
        found.append((tuple(parts[::2]), tuple(map(printed.index, parts[1::2]))))
    return tuple(found)


def _filled(definitions: _Cut) -> Texts:
    return lambda constants: tuple(
        joined(pieces, places, constants) for pieces, places in definitions
    )


def _printed(constant: Constant) -> str:
    """Return a constant as it stands in a definition; a string without its quotes."""
    return constant if isinstance(constant, str) else literal(constant)


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
    shape = PlainShape(
        tuple(compiled.normal.blocks[component].stream for component in sides),
        join.reduced,
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
def _same(shape: PlainShape) -> PlainShape:
    """Return one object for equal shapes."""
    return shape
