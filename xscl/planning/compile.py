"""From a query in normal form to what the two stages register: its plan.

Each disjunct of a join becomes a join graph over the tree patterns of its
sides; the graph's minor says which nodes stage 2 sees, and those nodes get
their canonical definitions.  A block that is read by itself becomes a graph
with one side.

A compiled query has its blocks as trees, which explanations need.  Stage 2 needs only the
definitions of the nodes that it sees, as texts, and the residuals of predicates.  The plans of
queries that differ only in constants differ only in these, mostly in the definitions alone.  So
`QueryPlans` compiles one query for all of its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from templates.model.join_graph import (
    LEFT,
    UNBOUNDED,
    Edge,
    JoinGraph,
    Node,
    TemporalRelation,
    minor,
)
from xscl.errors import TooComplex
from xscl.language import normalform as nf
from xscl.language.constants import ShapeMemo
from xscl.language.faults import fault
from xscl.language.grammar import admit
from xscl.language.parser import parse
from xscl.language.scope import here, rewritten, variables
from xscl.language.syntax import (
    Call,
    Constant,
    Exists,
    Operand,
    Predicate,
    Query,
    Step,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct
from xscl.shredding.automaton.pattern import Pattern, pattern


@dataclass(frozen=True, slots=True)
class GraphSide:
    """One side of a join graph: a block's tree pattern, or a composite and its leaves.

    The nodes of a composite are a root and, below it, a node for each leaf: an
    operand over one of its variables.
    """

    pattern: Pattern | None
    leaves: tuple[tuple[str, Operand], ...] = ()

    def nodes(self) -> Iterator[tuple[str | None, int | None]]:
        """Yield the variable of each node, and the number of its parent; None where it has none."""
        if self.pattern is not None:
            for node in self.pattern.nodes:
                yield node.variable, node.parent
            return
        yield None, None
        for name, _ in self.leaves:
            yield name, 0

    def label(self, number: int) -> str:
        """Return the readable label of a node: its variable, its operand, or its step."""
        if self.pattern is None:
            return _written(self.leaves[number - 1][1]) if number else "(composite)"
        node = self.pattern.nodes[number]
        if node.step.derived is not None:
            derived = _compared(node.step.derived)
            if derived == VariablePath("") and node.parent is not None:
                return self.label(node.parent)
            return _written(derived)
        if node.variable is not None and not node.variable.startswith("$"):
            return node.variable
        return ("@" if node.step.attribute else "") + (node.step.test.local or "*")


def _written(operand: Operand) -> str:
    """Return the text of an operand; the constant of a join without an equality is `(any)`."""
    return "(any)" if operand == Constant("") else unparse(_compared(operand))


def _compared(operand: Operand) -> Operand:
    """Return the operand in a call of `compared-by`; any other one stays the same."""
    match operand:
        case Call("compared-by", (inner, _)):
            return inner
        case _:
            return operand


class GraphNode(NamedTuple):
    """A node of a join graph: its side, its number within the side, and its variable, if any."""

    side: int
    number: int
    variable: str | None


@dataclass(frozen=True, slots=True)
class CompiledJoin:
    """A join graph and its minor, with the sides that their nodes come from.

    `nodes` are those of the graph, `kept` the numbers of the minor's nodes among them.
    `residual` is the predicate that is left to test on candidates; `crossed` says that
    no equality chooses these, `never` that there are none.
    """

    sides: tuple[GraphSide, ...]
    relation: TemporalRelation | None
    nodes: tuple[GraphNode, ...]
    graph: JoinGraph
    reduced: JoinGraph
    kept: tuple[int, ...]
    residual: Predicate | None = None
    crossed: bool = False
    never: bool = False

    def label(self, number: int) -> str:
        """Return the readable label of a node of the graph."""
        side, local, _ = self.nodes[number]
        return self.sides[side].label(local)

    def kept_on(self, side: int) -> list[int]:
        """Return the minor's nodes on a side by their numbers within the side, ascending."""
        kept = map(self.nodes.__getitem__, self.kept)
        return [node.number for node in kept if node.side == side]

    @property
    def node_definitions(self) -> tuple[str, ...]:
        """The canonical definitions of the minor's nodes on the sides that are blocks."""
        found: list[str] = []
        for number, side in enumerate(self.sides):
            if side.pattern is not None:
                found += side.pattern.definitions(self.kept_on(number))
        return tuple(found)


@dataclass(frozen=True)
class CompiledQuery:
    """A query: the tree patterns of its components, and a join graph for each of `normal.joins`.

    A match has documents of `components`, whose patterns are `covered`, and `values`: instants and
    aggregates, in their order.  `prefixes` are the namespaces that the query declares, by prefix.
    """

    source: str
    normal: nf.NormalQuery
    patterns: tuple[Pattern, ...]
    joins: tuple[CompiledJoin, ...]
    components: tuple[int, ...]
    covered: tuple[Pattern, ...]
    values: tuple[str, ...]
    prefixes: Mapping[str, str]

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(block.stream for block in self.normal.blocks))

    @property
    def calendars(self) -> tuple[str, ...]:
        """The streams of instants that the query reads, each once."""
        blocks = (block for block in self.normal.blocks if block.is_calendar)
        return tuple(dict.fromkeys(block.stream for block in blocks))


def compile_query(source: str) -> CompiledQuery:
    """Return the compiled form of a query's text; raises QueryError."""
    try:
        return _compiled(parse(source), source)
    except RecursionError:
        raise too_deep(source) from None


def too_deep(source: str) -> TooComplex:
    """Return the error for a query that is nested more deeply than Python's stack allows."""
    return TooComplex("the query is nested too deeply", source, 1, 1, "make several queries of it")


def _compiled(query: Query, source: str) -> CompiledQuery:
    normal = nf.normalise(query, source)
    for block in normal.blocks:
        _refuse_impossible(block.steps, source)
    patterns = tuple(map(pattern, normal.blocks))
    known = dict(zip(map(id, normal.blocks), patterns, strict=True))
    joins = tuple(
        _filter(patterns[join], normal.outputs)
        if isinstance(join, int)
        else _join(join, normal.outputs, source, known)
        for join in normal.joins
    )
    components = nf.components(normal.form)
    return CompiledQuery(
        source,
        normal,
        patterns,
        joins,
        components,
        covered=tuple(map(patterns.__getitem__, components)),
        values=nf.aggregates(normal.form),
        prefixes=query.prefixes,
    )


def _filter(found: Pattern, outputs: Collection[str]) -> CompiledJoin:
    """Return the join graph of a single block; its outputs are the variables in predicates.

    Without any, its minor is one node, the end of the main path.
    """
    join = _graph((GraphSide(found),), (), outputs)
    if join.graph.outputs:
        return join
    return replace(join, reduced=JoinGraph((Node(LEFT, None),)), kept=(found.main,))


def _join(
    disjunct: Disjunct, outputs: Collection[str], source: str, known: Mapping[int, Pattern]
) -> CompiledJoin:
    """Return the join of a disjunct; `known` has the patterns of the query's blocks by `id`.

    A disjunct has blocks of its own where it adds conditions.
    """
    sides = []
    for block, leaves in zip(disjunct.blocks, disjunct.leaves, strict=True):
        found = known.get(id(block))
        if block is not None and found is None:
            _refuse_impossible(block.steps, source)
            found = pattern(block)
        sides.append(GraphSide(found, leaves))
    return replace(
        _graph(tuple(sides), disjunct.edges, outputs),
        relation=disjunct.relation,
        residual=disjunct.residual,
        crossed=disjunct.crossed,
        never=disjunct.never,
    )


def _graph(
    sides: tuple[GraphSide, ...],
    edges: Iterable[tuple[str, str, str]],
    outputs: Collection[str],
) -> CompiledJoin:
    """Return the join graph of sides, with edges (variable, variable, operator) between them.

    The minor keeps the nodes of the variables in `outputs`.
    """
    places: list[GraphNode] = []
    nodes: list[Node] = []
    numbers: dict[str | None, int] = {}
    for side, each in enumerate(sides):
        first = len(nodes)
        for number, (name, parent) in enumerate(each.nodes()):
            numbers[name] = len(nodes)
            places.append(GraphNode(side, number, name))
            above = None if parent is None else first + parent
            nodes.append(Node(side, above, name in outputs))
    compared = tuple([Edge(numbers[one], numbers[other], sign) for one, other, sign in edges])
    graph = JoinGraph(tuple(nodes), compared)
    reduced, kept = minor(graph)
    return CompiledJoin(sides, None, tuple(places), graph, reduced, kept)


def _refuse_impossible(steps: tuple[Step, ...], source: str) -> None:
    """Raise for a pattern that no document can match: anything below an attribute."""
    for index, step in enumerate(steps):
        branches = [one.path.steps for one in step.conditions if isinstance(one, Exists)]
        below = (steps[index + 1 :], *(path[:1] for path in branches)) if step.attribute else ()
        for lower in chain.from_iterable(below):
            if lower.derived is None:
                raise fault(
                    source,
                    lower.span,
                    "this step can never match: an attribute has no children and no attributes",
                    "put the attribute at the end of the path",
                )
        for path in branches:
            _refuse_impossible(path, source)


MOST = 50_000
"""Most shapes in memory: 3 to 7 kB each for one query, 9 to 16 kB for several."""
DocumentVariable: TypeAlias = tuple[int, str]
"""The component of a document, and a variable that is bound in it."""


@dataclass(frozen=True, slots=True)
class PlannedJoin:
    """A disjunct of a join, or a block that is read by itself, in the form for R_T.

    `names` are the variables of the minor's nodes, "" of one that has none.  Of a side that is a
    composite `leaves` has the operands that its nodes stand for, None for its root.
    """

    reduced: JoinGraph
    relation: TemporalRelation
    names: tuple[str, ...]
    leaves: tuple[tuple[Operand | None, ...], ...]
    residual: Predicate | None

    def composite_definitions(self, side: int, stream: int, names: Sequence[str]) -> list[str]:
        """Return the definitions of the minor's nodes on a composite's side.

        `stream` is the number of the composite stream, `names` are the variables of its rows.
        """
        return [_leaf(stream, operand, names) for operand in self.leaves[side]]


@dataclass(frozen=True)  # no slots: `streams`, `row` and `outputs` are cached
class PlanShape:
    """A plan without its text and definitions, the same object for queries of one shape.

    `blocks` has the stream of each component, `places` the component that binds a variable.
    """

    blocks: tuple[str, ...]
    places: Mapping[str, int]
    distinct: bool
    publish: str | None
    form: nf.NormalForm
    joins: tuple[PlannedJoin, ...]

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The streams that the query reads, each once."""
        return tuple(dict.fromkeys(self.blocks))

    @cached_property
    def row(self) -> PlannedJoin | None:
        """The join of a query that is one row of R_T over blocks without operators; else None."""
        if self.publish is not None:
            return None
        match self.form:
            case nf.Scan():
                return self.joins[0]
            case nf.JoinForm(nf.Scan(), nf.Scan(), joins=(_,)) if self.joins[0].residual is None:
                return self.joins[0]
            case _:
                return None

    @cached_property
    def outputs(self) -> tuple[DocumentVariable | None, ...]:
        """For each node of the row's minor (component, variable); None for one not in matches."""
        assert self.row is not None
        return tuple(
            (self.places[name], name) if node.output else None
            for node, name in zip(self.row.reduced.nodes, self.row.names, strict=True)
        )


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query as it is registered.

    `definitions` has for each join the definitions of the minor's nodes on its blocks.
    """

    source: str
    shape: PlanShape
    definitions: tuple[tuple[str, ...], ...]

    def lateness(self, of_stream: Callable[[str], int]) -> int:
        """Return the lateness of the results in ticks: the largest lateness + delay of a stream."""
        return max(of_stream(stream) + time for stream, time in self.delays())

    def delays(self) -> tuple[tuple[str, int], ...]:
        """Return (stream, delay) of each block, equal pairs once: a stream may have several delays.

        The delay is the sum of the windows of the absences (NOT FOLLOWED BY, ELSE) above the block,
        in ticks.  By so much a result may come later than its document.
        """

        def of(part: nf.NormalForm, time: int) -> Iterator[tuple[str, int]]:
            if isinstance(part, nf.Scan | nf.CalendarForm):
                yield self.shape.blocks[part.component], time
                return
            later = time + part.window if isinstance(part, nf.AbsenceForm) else time
            yield from (*of(part.left, later), *of(part.right, later))

        return tuple(dict.fromkeys(of(self.shape.form, 0)))


class QueryPlans:
    """Plans of queries, compiled once for each shape; for any thread.

    `compiled` compiles the first query of a shape; a cache may keep what it returns.
    """

    def __init__(
        self, compiled: Callable[[str], CompiledQuery] = compile_query, most: int = MOST
    ) -> None:
        self._parts = ShapeMemo(
            parse,
            lambda query, source: _shape_and_definitions(_compiled(query, source)),
            most,
            lambda result, fill: fill(result),
            lambda source: _shape_and_definitions(compiled(source)),
        )

    def prepare(self, source: str) -> QueryPlan:
        """Return the plan of a query; raises QueryError."""
        admit(source)
        try:
            form, constants = self._parts.find(source)
            return QueryPlan(source, *form(constants))
        except RecursionError:
            raise too_deep(source) from None


def _shape_and_definitions(
    query: CompiledQuery,
) -> tuple[PlanShape, tuple[tuple[str, ...], ...]]:
    normal = query.normal
    shape = PlanShape(
        tuple(block.stream for block in normal.blocks),
        normal.places,
        normal.distinct,
        normal.publish,
        normal.form,
        tuple(map(_planned, query.joins)),
    )
    return shape, tuple(map(attrgetter("node_definitions"), query.joins))


def _planned(join: CompiledJoin) -> PlannedJoin:
    leaves = [
        tuple(side.leaves[at - 1][1] if at else None for at in join.kept_on(number))
        if side.pattern is None
        else ()
        for number, side in enumerate(join.sides)
    ]
    return PlannedJoin(
        join.reduced,
        join.relation or UNBOUNDED,
        tuple(join.nodes[node].variable or "" for node in join.kept),
        tuple(leaves),
        join.residual,
    )


def _leaf(stream: int, operand: Operand | None, names: Sequence[str]) -> str:
    """Return the definition of a composite's root (`#3`), or of a leaf (`#3/0 | ./title`).

    The 3 is the stream, the 0 the position of the operand's variable in its rows.
    """
    if operand is None:
        return f"#{stream}"
    found = variables(operand)
    position = names.index(found[0]) if found else 0
    return f"#{stream}/{position} | {unparse(rewritten(operand, here))}"
