"""From a query's algebra to what the plan is asked for, once for each shape of queries.

A `Step` is a logical operator without constants; `define` adds those of one query.  Registering a
query of a known shape costs a walk over its steps: no parsing, no compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias, assert_never

from cep_core.algebra import (
    Absence,
    Aggregate,
    Guard,
    InstanceAggregate,
    Iterate,
    Negation,
    Node,
    Project,
    Repeat,
    Select,
    SequenceScan,
    Stream,
    Successor,
    Union,
    Unless,
    WindowAggregate,
    WindowJoin,
)
from cep_core.algebra import Sequence as SequenceNode
from cep_core.errors import CepError
from cep_core.expressions import Column, Constant, Expression
from cep_core.operators.absence import Expectation
from cep_core.operators.aggregate import Aggregation
from cep_core.operators.iterate import Iteration
from cep_core.operators.negation import Forbidden, Without
from cep_core.operators.pattern import Scan, pattern_of
from cep_core.operators.succession import Repetition, Succession
from cep_core.patterns import conjuncts_of
from cep_core.predicates import Columns, Definition, Shapes, without_constants
from cep_core.runtime import END

Literals: TypeAlias = Sequence[Any]
Define: TypeAlias = Callable[[Literals], Hashable]
Reference: TypeAlias = int | str  # an earlier step, or a stream by name
# these forget parts of what they put out
_ABSENT = ("instance_aggregate", "window_aggregate", "absence", "unless", "negation")
_ORDERED = ("sequence", "iterate", "successor", "repeat", "sequence_scan", *_ABSENT)


class Step(NamedTuple):
    """One logical operator of a shape."""

    kind: str
    inputs: tuple[Reference, ...]
    define: Define
    width: int  # values in its rows
    window: Callable[[Literals], int] | None = None
    guarded: bool = False  # its rows do not say which rows could have ended them

    @property
    def ordered(self) -> bool:
        """Whether it sees epochs."""
        return self.kind in _ORDERED

    @property
    def forgets(self) -> bool:
        """Whether it forgets which parts its rows have."""
        return self.guarded or self.kind in _ABSENT


def steps_of(
    node: Node, inner: Sequence[Node], shapes: Shapes
) -> tuple[list[Step], list[Node], list[Reference]]:
    """Return the steps of a query, lower ones first, and where it and its inner queries come out.

    ``inner`` are parts of the node that are published, too; each of them is made once.  The nodes
    that the steps stand for come along for explanations: steps keep none of them, so that very many
    shapes stay small.
    """
    writer = _Writer(shapes, inner)
    outputs = [writer.write(part) for part in (*inner, node)]
    return writer.steps, writer.nodes, outputs


class _Writer:
    def __init__(self, shapes: Shapes, inner: Sequence[Node]) -> None:
        self._shapes = shapes
        self._inner = {id(node) for node in inner}
        self._done: dict[int, Reference] = {}  # of inner queries, by identity
        self.steps: list[Step] = []
        self.nodes: list[Node] = []

    def write(self, node: Node) -> Reference:
        if id(node) in self._done:
            return self._done[id(node)]
        reference = self._write(node)
        if id(node) in self._inner:
            self._done[id(node)] = reference
        return reference

    def _write(self, node: Node) -> Reference:
        match node:
            case Stream(name):
                return name
            case Select(source, predicate):
                return self._select(source, predicate, node)
            case Project(source, columns):
                below = self.write(source)
                return self._add("project", (below,), self._columns(columns, False), node)
            case Union(left, right):
                inputs = (self.write(left), self.write(right))
                return self._add("union", inputs, lambda p: None, node)
            case SequenceNode(left, right, predicate):
                inputs = (self.write(left), self.write(right))
                return self._add("sequence", inputs, self._predicate(predicate, True), node)
            case Iterate(left, right):
                inputs = (self.write(left), self.write(right))
                return self._add("iterate", inputs, self._iteration(node), node)
            case InstanceAggregate(source, group_by, aggregates):
                below = self.write(source)
                define = self._aggregation(group_by, aggregates, None)
                return self._add("instance_aggregate", (below,), define, node)
            case WindowAggregate(source, group_by, aggregates, window):
                below = self.write(source)
                define = self._aggregation(group_by, aggregates, self._window(window, 1))
                return self._add("window_aggregate", (below,), define, node)
            case WindowJoin(left, right, predicate, window):
                inputs = (self.write(left), self.write(right))
                define = self._predicate(predicate, True)
                reach = self._window(window, 0)
                return self._add("window_join", inputs, define, node, reach)
            case Absence(left, right):
                inputs = (self.write(left), self.write(right))
                return self._add("absence", inputs, self._expectation(node), node)
            case Successor(left, right, guards=guards):
                sides = (self.write(left), self.write(right), *self._guarding(guards))
                define = self._succession(node)
                return self._add("successor", sides, define, node, guarded=bool(guards))
            case Repeat(left, right, guards=guards):
                sides = (self.write(left), self.write(right), *self._guarding(guards))
                define = self._repetition(node)
                return self._add("repeat", sides, define, node, guarded=bool(guards))
            case Unless(left, right, predicate):
                inputs = (self.write(left), self.write(right))
                return self._add("unless", inputs, self._predicate(predicate, True), node)
            case SequenceScan(sources):
                scanned = tuple([self.write(source) for source in sources])
                return self._add(
                    "sequence_scan", scanned, self._scan(node), node, self._reach(node)
                )
            case Negation(source, sources):
                asked = (self.write(source), *[self.write(one) for one in sources])
                return self._add("negation", asked, self._without(node), node)
            case _:
                assert_never(node)

    def _add(
        self,
        kind: str,
        inputs: tuple[Reference, ...],
        define: Define,
        node: Node,
        window: Callable[[Literals], int] | None = None,
        *,
        guarded: bool = False,
    ) -> int:
        self.steps.append(Step(kind, inputs, define, len(node.schema), window, guarded))
        self.nodes.append(node)
        return len(self.steps) - 1

    def _select(self, source: Node, predicate: Expression, node: Select) -> Reference:
        below = self.write(source)
        shape, constants = self._shapes.of(predicate, False)
        if shape.always:
            return below
        return self._add("select", (below,), lambda p: Definition(shape, constants(p)), node)

    def _predicate(self, node: Expression, binary: bool) -> Callable[[Literals], Definition]:
        shape, constants = self._shapes.of(node, binary)
        return lambda p: Definition(shape, constants(p))

    def _columns(self, nodes: Sequence[Expression], binary: bool) -> Callable[[Literals], Columns]:
        shape, constants = self._shapes.columns(nodes, binary)
        return lambda p: Columns(shape, constants(p))

    def _iteration(self, node: Iterate) -> Define:
        width, right = len(node.left.schema), node.right.schema
        first: list[Expression] = [Column(2, i) for i in range(width)]
        first += [Constant(None) if i is None else Column(2, i) for i in node.initial]
        later: list[Expression] = [Column(1, i) for i in range(width)]
        later += [Column(2, i) for i in range(len(right))]
        later += node.aggregates
        filter, rebind = self._predicate(node.filter, True), self._predicate(node.rebind, True)
        begin, follow = self._columns(first, False), self._columns(later, True)
        return lambda p: Iteration(filter(p), rebind(p), begin(p), follow(p))

    def _aggregation(
        self,
        group_by: tuple[int, ...],
        aggregates: tuple[Aggregate, ...],
        window: Callable[[Literals], int] | None,
    ) -> Define:
        inputs: list[Expression] = []
        for one in aggregates:
            argument = one.argument if one.argument is not None else Constant(None)
            inputs += [argument, one.by if one.by is not None else argument]
        columns = self._columns(inputs, False)
        functions = tuple(one.function for one in aggregates)
        counts = tuple(one.function == "COUNT" and one.argument is None for one in aggregates)
        return lambda p: Aggregation(
            group_by, functions, counts, columns(p), None if window is None else window(p)
        )

    def _expectation(self, node: Absence) -> Define:
        filter, window = self._predicate(node.predicate, True), self._window(node.window, 1)
        otherwise, moment = node.otherwise, node.moment
        return lambda p: Expectation(filter(p), window(p), otherwise, moment)

    def _guarding(self, guards: Sequence[Guard]) -> tuple[Reference, ...]:
        return tuple([self.write(guard.source) for guard in guards])

    def _guards(self, guards: Sequence[Guard]) -> Callable[[Literals], tuple[Definition, ...]]:
        found = [self._predicate(guard.predicate, True) for guard in guards]
        return lambda p: tuple([one(p) for one in found])

    def _rank(self, rank: Expression | None) -> Callable[[Literals], Columns | None]:
        return self._columns([rank], False) if rank is not None else lambda p: None

    def _succession(self, node: Successor) -> Define:
        filter, guards = self._predicate(node.predicate, True), self._guards(node.guards)
        rank = self._rank(node.rank)
        result = self._result(node) if node.kept else lambda p: None
        return lambda p: Succession(filter(p), rank(p), result(p), guards(p))

    def _result(self, node: Successor) -> Callable[[Literals], Columns | None]:
        sides: list[Expression] = [Column(1, i) for i in range(len(node.left.schema))]
        sides += [Column(2, i) for i in range(len(node.right.schema))]
        return self._columns([*sides, *node.kept], True)

    def _repetition(self, node: Repeat) -> Define:
        filter, rebind = self._predicate(node.filter, True), self._predicate(node.rebind, True)
        rank, guards = self._rank(node.rank), self._guards(node.guards)
        columns = self._columns(node.columns, True)
        return lambda p: Repetition(filter(p), rebind(p), rank(p), columns(p), guards(p))

    def _scan(self, node: SequenceScan) -> Define:
        bare, found = without_constants(node.predicate)
        conjuncts = tuple(conjuncts_of(bare))
        outputs = len(node.schema)
        rest = (node.components, node.parts, outputs, conjuncts, node.strategy, node.partition)
        pattern = self._shapes.once(("pattern", *rest), lambda f: pattern_of(*rest, f))
        constants = self._shapes.constants(found)
        return lambda p: Scan(pattern, constants(p))

    def _without(self, node: Negation) -> Define:
        negatives = [
            (self._predicate(one.predicate, True), one.after, one.before) for one in node.negatives
        ]
        window = self._reach(node)
        return lambda p: Without(
            tuple([Forbidden(filter(p), after, before) for filter, after, before in negatives]),
            node.first,
            window(p),
        )

    def _reach(self, node: SequenceScan | Negation) -> Callable[[Literals], int]:
        if node.window is None:
            return lambda p: END
        return self._window(node.window, 1)

    def _window(self, node: Expression, least: int) -> Callable[[Literals], int]:
        found = self._shapes.constant(node)

        def window(literals: Literals) -> int:
            value = found(literals)
            if not isinstance(value, int) or value < least:
                unit = "tick" if least == 1 else "ticks"
                raise CepError(f"a window has at least {least} {unit}, not {value}")
            return value

        return window
