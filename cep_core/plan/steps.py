"""From a query's algebra to what the plan is asked for, once for each shape of queries.

A `PlanStep` is a logical operator without constants; `define` adds those of one query.  Registering
a query of a known shape costs a walk over its steps: no parsing, no compilation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, assert_never, get_args

from cep_core import algebra
from cep_core.algebra import Node, sources_of
from cep_core.algebra import expressions as ex
from cep_core.algebra.pattern_tree import Absent, trees_in
from cep_core.dataflow.clock import END, Lane
from cep_core.dataflow.mop import Operator, Wanted
from cep_core.dataflow.predicates import (
    BoundColumns,
    BoundPredicate,
    BoundShape,
    PredicateShapes,
    without_constants,
)
from cep_core.errors import CepError
from cep_core.events import Schema
from cep_core.operators.cayuga.aggregate import Aggregation
from cep_core.operators.cayuga.outer_join import OuterPairs
from cep_core.operators.cayuga.state import Iteration, RankedFilter
from cep_core.operators.pattern.conditions import MatchShape

Literals: TypeAlias = Sequence[Any]
Define: TypeAlias = Callable[[Literals], Hashable]
Reference: TypeAlias = int | str  # the number of an earlier step, or the name of a stream
# kinds of operators whose rows do not tell which input rows they were made of
_ABSENT = ("group_aggregate", "absence", "outer_join")
_ORDERED = ("sequence", "iterate", "pattern_match", *_ABSENT)


_NAMELESS = Schema((), ())
_KINDS = {
    kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Node)
}


class PlanStep(NamedTuple):
    """One logical operator of a shape; `wanted` completes it with the literals of a query."""

    kind: str
    inputs: tuple[Reference, ...]
    define: Define
    width: int  # values in its rows
    window: Callable[[Literals], int] | None = None
    guarded: bool = False  # whether events can prevent its rows, which do not name these events

    @property
    def ordered(self) -> bool:
        """True if the operator runs in a lane, epoch by epoch."""
        return self.kind in _ORDERED

    @property
    def forgets(self) -> bool:
        """True if its rows do not identify the input rows that they were made of."""
        return self.guarded or self.kind in _ABSENT


def wanted(
    step: PlanStep,
    literals: Literals,
    inputs: tuple[Operator, ...],
    lane: Lane,
    since: int,
    *,
    exact: bool = False,
    bound_to: int | None = None,
) -> Wanted:
    """Return the operator that a step stands for, with a query's literals and its inputs.

    It is bound to ``since``, the number of the next arrival at registration, if its rows do not
    tell which rows they were made of (`PlanStep.forgets`), or if it is ordered and above a join.
    Only queries with the same number share it.  ``exact`` binds every ordered operator of a
    ``lane`` with lateness, where rows may arrive in another order than that of time.
    ``bound_to`` is the number that the other ordered operators are bound to; None: all queries
    share them.
    """
    late = exact and lane.lateness > 0
    bound = step.forgets or (step.ordered and (late or any(one.joined for one in inputs)))
    return Wanted(
        *(step.kind, step.define(literals), inputs),
        lane if step.ordered else None,
        since if bound else bound_to if step.ordered else None,
        None if step.window is None else step.window(literals),
        step.width,
    )


def steps_of(
    node: Node, inner: Sequence[Node], shapes: PredicateShapes
) -> tuple[list[PlanStep], list[Node], list[Reference]]:
    """Return the steps of a query, lower ones first, their nodes, and the outputs.

    ``inner`` are parts of the node that are published, too; each of them is planned once.  Outputs
    are those of the inner queries, then that of the query.  The nodes are for explanations: steps
    refer to none of them, so that very many shapes stay small.
    """
    writer = _Writer(shapes, inner)
    outputs = list(map(writer.write, (*inner, node)))
    return writer.steps, writer.nodes, outputs


def _numbered_from(first: int, part: ex.Expression) -> ex.Expression:
    """Return a parameter with ``first`` added to its number; any other expression as it is."""
    return replace(part, index=part.index + first) if isinstance(part, ex.Parameter) else part


def _nothing(literals: Literals) -> None:
    """Return None, which defines an operator without parameters."""


class _Writer:
    def __init__(self, shapes: PredicateShapes, inner: Sequence[Node]) -> None:
        self._shapes = shapes
        self._inner = set(map(id, inner))
        self._done: dict[int, Reference] = {}  # by `id` of the node: the output of an inner query
        self.steps: list[PlanStep] = []
        self.nodes: list[Node] = []

    def write(self, node: Node) -> Reference:
        if id(node) in self._done:
            return self._done[id(node)]
        reference = self._write(node)
        if id(node) in self._inner:
            self._done[id(node)] = reference
        return reference

    def _write(self, node: Node) -> Reference:
        if isinstance(node, algebra.Stream):
            return node.name
        inputs = tuple(map(self.write, sources_of(node)))
        window, guarded = None, False
        match node:
            case algebra.Select(_, predicate):
                define: Define = self._predicate(predicate, False)
                if self._shapes.of(predicate, False)[0].always:
                    return inputs[0]
            case algebra.Project(_, columns):
                define = self._columns(columns, False)
            case algebra.Union():
                define = _nothing
            case algebra.Sequence():
                define = self._sequence(node)
            case algebra.Iterate():
                define = self._iteration(node)
            case algebra.GroupAggregate():
                define = self._aggregation(node)
            case algebra.WindowJoin():
                define = self._predicate(node.predicate, True)
                window = self._window(node.window, 0)
            case algebra.OuterJoin():
                define = self._outer(node)
            case algebra.PatternMatch():
                define, window = self._pattern(node), self._pattern_window(node)
                absent = any(isinstance(tree, Absent) for tree in trees_in(node.tree))
                guarded = absent or node.rules.policy != "none"
            case _:
                assert_never(node)
        follows = isinstance(node, algebra.OuterJoin) and node.lower is None
        kind = "absence" if follows else _KINDS[type(node)]
        self.steps.append(PlanStep(kind, inputs, define, len(node.schema), window, guarded))
        self.nodes.append(node)
        return len(self.steps) - 1

    def _predicate(self, node: ex.Expression, binary: bool) -> Callable[[Literals], BoundPredicate]:
        shape, constants = self._shapes.of(node, binary)
        return lambda p: BoundShape(shape, constants(p))

    def _columns(
        self, nodes: Sequence[ex.Expression], binary: bool
    ) -> Callable[[Literals], BoundColumns]:
        shape, constants = self._shapes.columns(nodes, binary)
        return lambda p: BoundShape(shape, constants(p))

    def _iteration(self, node: algebra.Iterate) -> Define:
        width, right = len(node.left.schema), node.right.schema
        first: list[ex.Expression] = [ex.Column(2, i) for i in range(width)]
        first += [ex.Constant(None) if i is None else ex.Column(2, i) for i in node.initial]
        later: list[ex.Expression] = [ex.Column(1, i) for i in range(width)]
        later += [ex.Column(2, i) for i in range(len(right))]
        later += node.aggregates
        if node.longest:  # one value more, not emitted: whether the instance has met a right row
            first.append(ex.Constant(False))
            later.append(ex.Constant(True))
        filter, rebind = self._predicate(node.filter, True), self._predicate(node.rebind, True)
        begin, follow = self._columns(first, False), self._columns(later, True)
        return lambda p: Iteration(filter(p), rebind(p), begin(p), follow(p), node.longest)

    def _aggregation(self, node: algebra.GroupAggregate) -> Define:
        window = _nothing if node.window is None else self._window(node.window, 1)
        group_by, aggregates = node.group_by, node.aggregates
        inputs: list[ex.Expression] = []
        for one in aggregates:
            argument = one.argument if one.argument is not None else ex.Constant(None)
            inputs += [argument, one.by if one.by is not None else argument]
        columns = self._columns(inputs, False)
        functions = tuple(aggregate.function for aggregate in aggregates)
        counts = tuple(
            aggregate.function == "COUNT" and aggregate.argument is None for aggregate in aggregates
        )
        return lambda p: Aggregation(group_by, functions, counts, columns(p), window(p))

    def _outer(self, node: algebra.OuterJoin) -> Define:
        filter, alone = self._predicate(node.predicate, True), node.alone
        if node.lower is None:
            window, paired, moment = self._window(node.upper, 1), node.paired, node.moment
            return lambda p: OuterPairs(filter(p), 1, window(p), alone, paired, True, moment)
        lower, upper = (self._shapes.constant(one) for one in (node.lower, node.upper))
        return lambda p: OuterPairs(filter(p), lower(p), upper(p), alone)

    def _sequence(self, node: algebra.Sequence) -> Define:
        filter, rank = self._predicate(node.predicate, True), node.rank
        return lambda p: RankedFilter(filter(p), rank)

    def _pattern(self, node: algebra.PatternMatch) -> Define:
        predicate, found = without_constants(node.predicate)
        tests, more = without_constants(node.rules.tests)
        tests = ex.rewrite(tests, lambda part: _numbered_from(len(found), part))
        found = [*found, *more]
        bare = replace(node.rules, tests=tests, window=None, inclusive=False, spans=())
        pattern = replace(node, inputs=(), predicate=predicate, rules=bare, schema=_NAMELESS)
        rest = (pattern, len(node.schema), len(found))
        shape = self._shapes.once(("match", *rest), lambda f: MatchShape(*rest, f))
        constants = self._shapes.constants([*found, *node.rules.spans])
        return lambda p: BoundShape(shape, constants(p))

    def _pattern_window(self, node: algebra.PatternMatch) -> Callable[[Literals], int]:
        """Return a function from literals to the least ticks that are longer than the window."""
        if node.rules.window is None:
            return lambda p: END
        more = int(node.rules.inclusive)
        window = self._window(node.rules.window, 1 - more)
        return lambda p: window(p) + more

    def _window(self, node: ex.Expression, least: int) -> Callable[[Literals], int]:
        found = self._shapes.constant(node)

        def window(literals: Literals) -> int:
            value = found(literals)
            if not isinstance(value, int) or value < least:
                unit = "tick" if least == 1 else "ticks"
                raise CepError(f"a window has at least {least} {unit}, not {value}")
            return value

        return window
