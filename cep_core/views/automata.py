"""The automaton view of a linear-plus query (Hong 2009, sections 3.3.2 and 4.3).

A view for people, pictures and exchange (`cep_core.views.air`): nothing runs on it.  Each state
but the
start and the end stands for a `;` or a `μ` and reads one stream.  Its *filter* edge to itself is
for rows to which θ does not apply: they leave an instance unchanged.  A `μ` has a *rebind* edge.
Predicates and schema maps of a *forward* edge read the state's output.

Not every expression is linear-plus (Theorem 3): the right side of `;` and `μ` has to be a stream.
Any other right side has to be published by a query of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count

from cep_core import algebra
from cep_core.algebra import Functions, Iterate, Node, Project, Select, Stream, Union
from cep_core.algebra.expressions import FUNCTIONS, TRUE, And, Column, Expression, moved
from cep_core.errors import AlgebraError
from cep_core.events import Schema


@dataclass(frozen=True, slots=True)
class Unary:
    """σ, then π ∘ ρ ∘ α_g (Lemma 2): a predicate and the named columns, None for all."""

    predicate: Expression
    columns: tuple[tuple[str, Expression], ...] | None


@dataclass(frozen=True, slots=True)
class Input:
    """The stream that a state reads, and what is done to its events first."""

    stream: str
    schema: Schema
    unary: Unary


@dataclass(frozen=True, slots=True)
class WaitingState:
    """A state; ``schema`` is that of its instances.

    ``filter`` is θ (the filter edge carries its complement); a rebind edge is there if ``rebind``
    is, with the aggregates that it computes.
    """

    name: str
    schema: Schema
    input: Input | None
    filter: Expression | None = None
    rebind: Expression | None = None
    aggregates: tuple[tuple[str, Expression, type], ...] = ()


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward edge."""

    source: str
    target: str
    unary: Unary


@dataclass(frozen=True, slots=True)
class AutomatonView:
    """States, the last of them the end, and forward edges."""

    states: tuple[WaitingState, ...]
    edges: tuple[Forward, ...]


_IDENTITY = Unary(TRUE, None)
_MOST_STATES = 200
_MOST_EDGES = 1_000


def automaton(node: Node) -> AutomatonView:
    """Return the automaton of an expression; raises AlgebraError if it is not linear-plus."""
    drawing = _Drawing()
    drawing.enter(node, "end", _IDENTITY)
    states = sorted(drawing.states, key=lambda state: int(state.name[1:]))
    return AutomatonView((*states, WaitingState("end", node.schema, None)), tuple(drawing.edges))


def expression(view: AutomatonView, functions: Functions = FUNCTIONS) -> Node:
    """Return the expression of an automaton; the inverse of `automaton`."""
    if len(view.states) > _MOST_STATES or len(view.edges) > _MOST_EDGES:
        raise AlgebraError(f"an automaton has at most {_MOST_STATES} states, {_MOST_EDGES} edges")
    return _Reading(view, functions).into(view.states[-1].name)


class _Drawing:
    def __init__(self) -> None:
        self.states: list[WaitingState] = []
        self.edges: list[Forward] = []
        self._numbers = count()

    def enter(self, node: Node, target: str, after: Unary) -> None:
        """Draw what leads to a state; ``after`` is done to the node's rows on the way."""
        node, after = _below_unary(node, after)
        match node:
            case Union(left, right):
                self.enter(left, target, after)
                self.enter(right, target, after)
                return
            case Stream():
                state = WaitingState(self._name(), node.schema, _input(node))
            case algebra.Sequence(left, right, predicate):
                state = WaitingState(self._name(), left.schema, _input(right), predicate)
            case Iterate(left, right, filter, rebind, longest=False):
                added = slice(len(node.schema) - len(node.aggregates), None)
                names, kinds = node.schema.names[added], node.schema.types[added]
                aggregates = tuple(zip(names, node.aggregates, kinds, strict=True))
                input = _input(right)
                state = WaitingState(self._name(), node.schema, input, filter, rebind, aggregates)
            case _:
                kind = type(node).__name__
                raise AlgebraError(f"{kind} is not part of an automaton", hint="publish it first")
        self.states.append(state)
        self.edges.append(Forward(state.name, target, after))
        if not isinstance(node, Stream):
            self.enter(node.left, state.name, _IDENTITY)

    def _name(self) -> str:
        return f"q{next(self._numbers)}"


def _input(node: Node) -> Input:
    """Return a unary expression over a stream as a state's input."""
    stream, after = _below_unary(node, _IDENTITY)
    if not isinstance(stream, Stream):
        raise AlgebraError(
            "the expression is not linear-plus: its right side is no stream",
            hint="publish the right side and read it by name (resubscription)",
        )
    return Input(stream.name, stream.schema, after)


def _below_unary(node: Node, after: Unary) -> tuple[Node, Unary]:
    """Return the input of a chain of selections and projections, and the chain before `after`."""
    while isinstance(node, Select | Project):
        if isinstance(node, Select):
            after = _selected(node.predicate, after)
        else:
            pairs = tuple(zip(node.schema.names, node.columns, strict=True))
            after = _projected(pairs, after)
        node = node.source
    return node, after


def _selected(predicate: Expression, after: Unary) -> Unary:
    """Return σ followed by a unary expression over the same columns."""
    if after.predicate == TRUE:
        return Unary(predicate, after.columns)
    return Unary(And((predicate, after.predicate)), after.columns)


def _projected(columns: Sequence[tuple[str, Expression]], after: Unary) -> Unary:
    """Return π followed by a unary expression over its columns, all read from below."""
    places = {(2, place): column for place, (_, column) in enumerate(columns)}
    upper = after.columns
    if upper is None:
        upper = tuple((name, Column(2, place)) for place, (name, _) in enumerate(columns))
    return Unary(
        moved(after.predicate, places),
        tuple((name, moved(column, places)) for name, column in upper),
    )


class _Reading:
    """Makes the expression of an automaton: what leads to a state is made once."""

    def __init__(self, view: AutomatonView, functions: Functions) -> None:
        self._states = {state.name: state for state in view.states}
        self._functions = functions
        self._edges: dict[str, list[Forward]] = {}
        for edge in view.edges:
            self._edges.setdefault(edge.target, []).append(edge)
        self._made: dict[str, Node | None] = {}  # None while it is being made

    def into(self, target: str) -> Node:
        """Return the union of what the edges into a state carry."""
        if target in self._made:
            made = self._made[target]
            if made is None:
                raise AlgebraError(f"the state {target} leads to itself")
            return made
        edges = self._edges.get(target, [])
        if not edges:
            raise AlgebraError(f"no edge leads to the state {target}")
        self._made[target] = None
        node: Node = reduce(algebra.union, map(self._carried, edges))
        self._made[target] = node
        return node

    def _carried(self, edge: Forward) -> Node:
        state = self._states[edge.source]
        if state.input is None:
            raise AlgebraError(f"the state {state.name} reads no stream")
        stream = self._applied(Stream(state.input.stream, state.input.schema), state.input.unary)
        if state.filter is None:
            return self._applied(stream, edge.unary)
        left, functions = self.into(state.name), self._functions
        if state.rebind is None:
            node: Node = algebra.sequence(left, stream, state.filter, functions)
        else:
            node = algebra.iterate(
                *(left, stream, state.filter, state.rebind, state.aggregates), functions
            )
        return self._applied(node, edge.unary)

    def _applied(self, node: Node, unary: Unary) -> Node:
        if unary.predicate != TRUE:
            node = algebra.select(node, unary.predicate, self._functions)
        if unary.columns is None:
            return node
        return algebra.project(node, unary.columns, self._functions)
