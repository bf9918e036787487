"""From plans of queries to operators of the one plan.

A block or a join becomes an `xpath_scan` for each side that is a block and a
`template_join` for each disjunct; what is left of the predicate is a `refine`
above them.  An operator over time reads its inputs through `attributes` and is
read through `collect`, so that everywhere else in the plan rows are composites.

Every stream of composites has a number: that of its row in R_T, or one below 0
that stands for its definition.  Definitions are texts, so that a restart gives
the same numbers to the same streams.

`RULES` are the m-rules of XSCL: which blocks and which joins share an m-op.  They stand before the
core's own: a rule is a key function, and an operator takes the first that has a key for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, assert_never

from cep_core import ALL_RULES, CepError, Engine, Rule
from cep_core.algebra import Node
from cep_core.plan import Operator, Reference, Step, Wanted, steps_of, wanted
from templates.registry import Registry, RowOfRT
from xscl.language import normalform as nf
from xscl.language.lowering import ColumnKind, OneSidedNumbers
from xscl.language.scope import rewritten
from xscl.language.syntax import Predicate, VariablePath
from xscl.language.unparse import unparse
from xscl.planning.compile import QueryPlan, too_deep
from xscl.planning.operators.events import CompositeLayout, EventColumns
from xscl.planning.operators.joins import JoinDefinition
from xscl.planning.operators.refine import Refinement
from xscl.planning.temporal_lowering import LEFT as LEFT_INPUT
from xscl.planning.temporal_lowering import RIGHT as RIGHT_INPUT
from xscl.planning.temporal_lowering import Timing, timing

DOCUMENTS = "documents"
"""The label of all streams of documents.  They share a channel: a document may be in several."""


@dataclass(frozen=True, slots=True)
class PlannedStream:
    """A part of a query in the plan: its operator, and what its composites are made of.

    `number` is that of the stream, 0 for a stream of documents.  `nodes` and `values` are the names
    of its variables and aggregates in the order of its rows.  `waits` says that an operator over
    time is in it, `plain` that it is a row of R_T over blocks.
    """

    operator: Operator
    number: int
    components: tuple[int, ...]
    nodes: tuple[str, ...]
    values: tuple[str, ...] = ()
    waits: bool = False
    plain: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of variables, then of instants and aggregates, in the order of a row."""
        return (*self.nodes, *self.values)


@dataclass(slots=True)
class PlannedQuery:
    """A query in the plan: its root, and the operators, rows of R_T and stream numbers it holds.

    `ordered`: it has an operator over time or a calendar; `calendars` has a name for each use.
    `nested`: an operator over time reads a join that reads another operator over time.
    `one_sided` is `one_sided_numbers` of its operators when a subscription was attached.
    """

    root: PlannedStream | None = None
    held: list[Operator] = field(default_factory=list)
    placed: list[RowOfRT] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    calendars: list[str] = field(default_factory=list)
    ordered: bool = False
    nested: bool = False
    one_sided: int = 0


def one_sided_numbers(operators: Iterable[Operator]) -> int:
    """Return the count of comparisons that did not hold because only one side was a number."""

    def count(part: object) -> int:
        if isinstance(part, OneSidedNumbers):
            return part.count
        return sum(map(count, part)) if isinstance(part, tuple) else 0

    return sum(count(one.wanted.definition) for one in dict.fromkeys(operators))


class Planner:
    """Puts queries into the plan, and takes them out again.

    `number` returns the number of a stream by its definition, `lateness` the lateness of a stream
    of documents by its name, in ticks.
    """

    def __init__(
        self,
        core: Engine,
        registry: Registry,
        number: Callable[[str], int],
        lateness: Callable[[str], int],
    ) -> None:
        self.core = core.plan
        self.registry = registry
        self._read_calendar, self._leave_calendar = core.read_calendar, core.leave_calendar
        self.calendars = 0
        """The number of reads of calendars by queries in XSCL."""
        self.number = number
        self.lateness = lateness
        self.steps = lru_cache(maxsize=10_000)(self._steps)

    def plan(
        self, query: QueryPlan, since: int, updates: bool, bound_to: int | None = None
    ) -> PlannedQuery:
        """Put a query into the plan.  It sees documents with numbers from `since` on.

        With `updates` it sees later versions of documents, too.  Its operators over time are
        shared with queries of the same `bound_to`; None: with all.
        """
        lowering = _Lowering(self, query, since, updates, bound_to)
        try:
            lowering.planned.root = lowering.lower(query.shape.form)
        except (CepError, RecursionError, SyntaxError):  # raised for Python code nested too deep
            raise too_deep(query.source) from None
        return lowering.planned

    def release(self, planned: PlannedQuery) -> tuple[int, ...]:
        """Take a query out of the plan; return the pairs of variables that nothing uses now."""
        self.release_operators(planned)
        return tuple(pair for one in planned.placed for pair in self.registry.remove(one.qid))

    def release_operators(self, planned: PlannedQuery) -> None:
        """Take the operators of a query out of the plan; the query keeps its rows of R_T."""
        for operator in reversed(planned.held):
            self.core.release(operator)
        planned.held.clear()
        for name in planned.calendars:
            self._leave_calendar(name)
        self.calendars -= len(planned.calendars)
        planned.calendars.clear()

    def read_calendar(self, name: str) -> Operator:
        """Return the operator of a calendar, which stays in the plan until `release_operators`."""
        self.calendars += 1
        return self._read_calendar(name)

    def source(self, name: str) -> Operator:
        """Return the operator of a stream of documents; it has the lateness of its first use."""
        known = self.core.sources.get(name)
        if known is None:
            return self.core.source(name, 1, self.lateness(name), DOCUMENTS)
        if not known.uses:
            known.lateness = self.lateness(name)
        return known

    def insert(self, planned: PlannedQuery, asked: Wanted) -> Operator:
        """Return the operator that is asked for, a new or a shared one; the query holds it."""
        operator = self.core.insert(asked)
        planned.held.append(operator)
        return operator

    def join(
        self, planned: PlannedQuery, placed: RowOfRT, sides: Sequence[PlannedStream]
    ) -> Operator:
        """Return the operator of a row of R_T.

        A side that is a stream of documents gets its scan.
        """
        row = self.registry.row(placed.qid)
        graph = self.registry.members[placed.template].template.graph
        inputs = []
        for side, one in enumerate(sides):
            source = one.operator
            if not one.number:
                pairs = tuple(
                    pair
                    for pair, (_, child) in zip(row.pairs, graph.pairs, strict=True)
                    if graph.nodes[child].side == side
                )
                source = self.insert(planned, Wanted("xpath_scan", pairs, (source,)))
            inputs.append(source)
        streams = tuple(one.number or None for one in sides)
        definition = JoinDefinition(placed.template, placed.qid, streams)
        return self.insert(planned, Wanted("template_join", definition, tuple(inputs), width=1))

    def _steps(self, node: Node) -> tuple[list[Step], Reference]:
        steps, _, outputs = steps_of(node, (), self.core.shapes)
        return steps, outputs[-1]


@dataclass(eq=False, repr=False)
class _Lowering:
    """Puts the parts of one query into the plan; `planned` has what was put so far."""

    _planner: Planner
    _query: QueryPlan
    _since: int
    _updates: bool
    _bound_to: int | None
    planned: PlannedQuery = field(default_factory=PlannedQuery, init=False)

    def lower(self, part: nf.NormalForm) -> PlannedStream:
        """Put a part of the query into the plan; return the stream of its results."""
        match part:
            case nf.Scan():
                return self._read(part)
            case nf.CalendarForm():
                return self._instants(part)
            case nf.JoinForm():
                return self._joined(part)
            case nf.NextForm() | nf.FoldForm() | nf.AbsenceForm():
                return self._timed(part)
            case _:
                assert_never(part)

    # -- Joins -----------------------------------------------------------------------------

    def _read(self, part: nf.Scan) -> PlannedStream:
        assert part.join is not None, "the input of a join is a stream of documents"
        documents = self._documents(part.component)
        placed, names = self._place(part.join, [documents], 0)
        operator = self._planner.join(self.planned, placed, [documents])
        return PlannedStream(operator, placed.qid, (part.component,), names, plain=True)

    def _instants(self, part: nf.CalendarForm) -> PlannedStream:
        name = self._query.shape.blocks[part.component]
        source = self._planner.read_calendar(name)
        self.planned.calendars.append(name)
        self.planned.ordered = True
        number = self._number(f"instants {name}")
        operator = self._planner.insert(
            self.planned, Wanted("instants", (number,), (source,), width=1)
        )
        return PlannedStream(operator, number, (part.component,), (), (part.variable,))

    def _documents(self, component: int) -> PlannedStream:
        """Return the stream of documents that a component reads, as the input of a join."""
        source = self._planner.source(self._query.shape.blocks[component])
        return PlannedStream(source, 0, (component,), ())

    def _joined(self, part: nf.JoinForm) -> PlannedStream:
        inner = [
            side if isinstance(side, nf.Scan) else self.lower(side)
            for side in (part.left, part.right)
        ]
        sides = [
            self._documents(side.component) if isinstance(side, nf.Scan) else side for side in inner
        ]
        covered = tuple(component for side in sides for component in side.components)
        values = tuple(name for side in sides for name in side.values)
        waits = any(side.waits for side in sides)
        late = self._lateness(part.left, part.right)
        found: list[tuple[Operator, RowOfRT, tuple[str, ...]]] = []
        for number in part.joins:
            placed, own = self._place(number, sides, late)
            operator = self._planner.join(self.planned, placed, sides)
            found.append((operator, placed, _in_order(sides, own, self._query)))
        operator, placed, nodes = found[0]
        residuals = [self._query.shape.joins[number].residual for number in part.joins]
        if residuals == [None]:
            plain = not any(side.number for side in sides)
            return PlannedStream(operator, placed.qid, covered, nodes, values, waits, plain)
        positions = {name: str(at) for at, name in enumerate((*nodes, *values))}
        definition = tuple(
            Refinement(
                tuple(names.index(name) for name in nodes),
                None if residual is None else _positioned(residual, positions),
                OneSidedNumbers(),
            )
            for residual, (_, _, names) in zip(residuals, found, strict=True)
        )
        asked = Wanted("refine", definition, tuple(one for one, _, _ in found), width=1)
        operator = self._planner.insert(self.planned, asked)
        texts = [
            f"{placed.qid} {one.order} {'' if one.residual is None else unparse(one.residual)}"
            for one, (_, placed, _) in zip(definition, found, strict=True)
        ]
        number = self._number(f"refine {' | '.join(texts)}")
        return PlannedStream(operator, number, covered, nodes, values, waits)

    def _place(
        self, number: int, sides: Sequence[PlannedStream], lateness: int
    ) -> tuple[RowOfRT, tuple[str, ...]]:
        """Register a join of the query; return its row of R_T, and its output variables.

        `number` is its index in `PlanShape.joins`, `lateness` that of its inputs in ticks.  The
        variables are in the order of the row.
        """
        row = self._query.shape.joins[number]
        leaves = [
            row.composite_definitions(side, one.number, one.names) if one.number else ()
            for side, one in enumerate(sides)
        ]
        # `definitions` has those of both blocks: beside a composite there is at most one block.
        definitions = [*leaves[0], *self._query.definitions[number], *chain(*leaves[1:])]
        placed = self._planner.registry.add(row.reduced, definitions, row.relation, lateness)
        self.planned.placed.append(placed)
        graph = self._planner.registry.members[placed.template].template.graph
        names = tuple(
            row.names[at] for node, at in zip(graph.nodes, placed.order, strict=True) if node.output
        )
        return placed, names

    def _number(self, definition: str) -> int:
        number = self._planner.number(definition)
        self.planned.numbers.append(number)
        return number

    def _lateness(self, *parts: nf.NormalForm) -> int:
        """Return the largest lateness, in ticks, of the streams that some parts read."""
        read = (component for part in parts for component in nf.read_components(part))
        return max(
            self._planner.lateness(self._query.shape.blocks[component]) for component in read
        )

    # -- Operators over time ---------------------------------------------------------------

    def _timed(self, part: nf.OverTime) -> PlannedStream:
        left, right = self.lower(part.left), self.lower(part.right)
        self.planned.ordered = True
        self.planned.nested |= any(
            one.waits and not isinstance(below, nf.NextForm | nf.FoldForm | nf.AbsenceForm)
            for one, below in ((left, part.left), (right, part.right))
        )
        made = timing(part, left.names, right.names, versions=self._updates)
        inputs = {
            LEFT_INPUT: self._attributes(left, made.left),
            RIGHT_INPUT: self._attributes(right, made.right),
        }
        lane = self._planner.core.lane(
            max(self._planner.lateness(stream) for stream in self._query.shape.streams)
        )
        steps, output = self._planner.steps(made.node)
        done: list[Operator] = []

        def resolve(reference: Reference) -> Operator:
            return inputs[reference] if isinstance(reference, str) else done[reference]

        for step in steps:
            sources = tuple(map(resolve, step.inputs))
            since, bound_to = self._since, self._bound_to
            asked = wanted(step, made.literals, sources, lane, since, exact=True, bound_to=bound_to)
            done.append(self._planner.insert(self.planned, asked))
        operator = resolve(output)
        sides = (left, right)[: len(made.parts)]
        layout = CompositeLayout(
            tuple(
                (at, len(side.components), len(side.nodes), len(side.values))
                for at, side in zip(made.parts, sides, strict=True)
            ),
            made.aggregates,
        )
        asked = Wanted("collect", layout, (operator,), width=1)
        collected = self._planner.insert(self.planned, asked)
        own = part.aggregates if isinstance(part, nf.FoldForm) else ()
        number = self._number(_definition(left, right, made, self._bound(operator)))
        return PlannedStream(
            collected,
            number,
            tuple(component for side in sides for component in side.components),
            tuple(name for side in sides for name in side.nodes),
            (*(name for side in sides for name in side.values), *(name for name, _ in own)),
            True,
        )

    def _attributes(
        self, read: PlannedStream, columns: tuple[tuple[int, ColumnKind], ...]
    ) -> Operator:
        definition = EventColumns(columns, self._updates)
        asked = Wanted("attributes", definition, (read.operator,), width=1 + len(columns))
        return self._planner.insert(self.planned, asked)

    def _bound(self, operator: Operator) -> str:
        """Return a text that tells temporal operators with equal inputs apart.

        It has the lateness, the first document, and whether later versions are read.
        """
        asked = operator.wanted
        lane = None if asked.lane is None else asked.lane.lateness
        return f"{lane} {asked.since} {self._updates}"


def _definition(left: PlannedStream, right: PlannedStream, made: Timing, bound: str) -> str:
    literals = " ".join(map(repr, made.literals))
    inputs = f"{left.number} {made.left} {right.number} {made.right}"
    return f"{inputs} {made.node!r} {literals} {bound}"


def _in_order(
    sides: Sequence[PlannedStream], own: tuple[str, ...], query: QueryPlan
) -> tuple[str, ...]:
    """Return the names of the variables of a join's composites, in the order of their nodes.

    The left side's come first.  `own` are the output variables of the join's row of R_T; the
    variables of a side that is a composite are not among them.
    """
    names: list[str] = []
    for side in sides:
        if side.number:
            names.extend(side.nodes)
        else:
            names.extend(name for name in own if query.shape.places[name] in side.components)
    return tuple(names)


def _positioned(predicate: Predicate, positions: dict[str, str]) -> Predicate:
    def renamed(leaf: Any) -> Any:
        if isinstance(leaf, VariablePath):
            return VariablePath(positions[leaf.variable], leaf.path)
        return leaf

    return rewritten(predicate, renamed)


def same_join(wanted: Wanted) -> Hashable | None:
    """Return a join's row of R_T, so that equal joins are one operator; None for other kinds."""
    return wanted.definition if wanted.kind == "template_join" else None


def same_stream(wanted: Wanted) -> Hashable | None:
    """Return the channel of a scan, so that its scans share an m-op; None for other kinds."""
    return wanted.inputs[0].channel if wanted.kind == "xpath_scan" else None


def same_template(wanted: Wanted) -> Hashable | None:
    """Return a join's template number, so that its joins share an m-op; None for other kinds."""
    if isinstance(wanted.definition, JoinDefinition):
        return wanted.definition.template
    return None


RULES: tuple[Rule, ...] = (
    Rule("same_join", same_join, same=True),
    Rule("same_stream", same_stream),
    Rule("same_template", same_template),
    *ALL_RULES,
)
