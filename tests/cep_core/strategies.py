"""Hypothesis strategies: streams, expressions of the algebra over them, and programs.

Everything is small so that things meet: three streams, attributes with four or five values, a dozen
ticks.  Floats are dyadic, so that sums are exact in any order.  A program is what a user may do to
an engine, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeAlias, TypeVar, assert_never

from hypothesis import strategies as st

from cep_core import algebra
from cep_core.algebra import Aggregate, Node, constructors, sources_of
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Arithmetic,
    Call,
    Case,
    Coalesce,
    Column,
    Compare,
    ComparisonOperator,
    Constant,
    Duration,
    Expression,
    IsNull,
    Missing,
    Negative,
    Not,
    Or,
    RowSide,
    Time,
    rewrite,
)
from cep_core.algebra.text import LiteralValues, operator_in_words
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError
from cep_core.events import Event, Schema
from tests.cep_core.absences import absence, alternative, timer

T = TypeVar("T")
Types: TypeAlias = Mapping[int, Sequence[type]]

NAN = float("nan")
VALUES_OF: Mapping[type, tuple[Any, ...]] = {
    int: (1, 0, 2, None),
    float: (1.0, 0.5, -0.25, 1, None, NAN),
    str: ("a", "b", "ab", None),
    bool: (True, False, None),
    BoundedDecimal: (*map(BoundedDecimal, ("0.1", "0.5", "-0.25", "1")), None),
}
NUMBERS = (int, float, BoundedDecimal)
COMPARISONS: tuple[ComparisonOperator, ...] = ("=", "!=", "<", "<=", ">", ">=")
RELATING: tuple[ComparisonOperator, ...] = ("=", "=", "=", "<", ">=", "!=")
DEPTH = 4  # of expressions
WIDE = Schema(("n", "x", "s"), (int, float, str))
NARROW = Schema(("n", "s", "b", "d"), (int, str, bool, BoundedDecimal))


@dataclass(frozen=True, slots=True)
class Declared:
    """A base stream, as `Engine.stream` takes it."""

    name: str
    schema: Schema
    lateness: int = 0
    channel: str | None = None

    def __repr__(self) -> str:
        return f"{self.name}{self.schema} lateness {self.lateness} channel {self.channel}"


@dataclass(frozen=True, slots=True)
class Push:
    """Events in order of arrival, pushed at once."""

    events: tuple[Event, ...]

    def __repr__(self) -> str:
        events = [f"{one.stream}{one.values}@[{one.t0}, {one.t1}]" for one in self.events]
        return f"push {' '.join(events)}"


@dataclass(frozen=True, slots=True)
class Register:
    """A query is added; what it publishes others read by that name."""

    name: str
    node: Node
    publish: str | None = None

    def __repr__(self) -> str:
        return f"{self.name} as {self.publish}: {written(self.node)}"


@dataclass(frozen=True, slots=True)
class Unregister:
    """A query is removed."""

    name: str


@dataclass(frozen=True, slots=True)
class Advance:
    """The clock is set."""

    to: int


@dataclass(frozen=True, slots=True)
class Restore:
    """The engine is replaced by one restored from its snapshot."""


Step: TypeAlias = Push | Register | Unregister | Advance | Restore


@dataclass(frozen=True, slots=True)
class Program:
    """Streams, and what happens to an engine; at the end the input is closed."""

    streams: tuple[Declared, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return "\n  ".join(["", *map(str, self.streams), *map(str, self.steps)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


_between = cache(st.integers)  # Hypothesis's own cache takes as long as a choice


class Choice:
    """Choices that Hypothesis makes, the first option being the simplest."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, least: int, largest: int) -> int:
        return self._draw(_between(least, largest))

    def of(self, *options: T) -> T:
        return options[self.number(0, len(options) - 1)]

    def often(self, times: int) -> bool:
        """Return true, but false once in so many times."""
        return self.number(0, times - 1) != times - 1

    def seldom(self, times: int) -> bool:
        """Return false, but true once in so many times."""
        return not self.often(times)


# -- streams and events ----------------------------------------------------------------------


def declared(choose: Choice, latenesses: Sequence[int]) -> tuple[Declared, ...]:
    """Return streams A and B of one schema, sharable sometimes, and C."""
    first, second, third = (choose.of(*latenesses) for _ in range(3))
    label = choose.of(None, "AB")
    if label:
        second = first
    return (
        Declared("A", WIDE, first, label),
        Declared("B", WIDE, second, label),
        Declared("C", NARROW, third),
    )


def row_value(choose: Choice, kind: type) -> Any:
    """Return a value; nulls and NaN are rare."""
    options = VALUES_OF[kind]
    proper = [one for one in options if one is not None and one == one]
    return choose.of(*proper) if choose.often(8) else choose.of(*options)


def event(choose: Choice, streams: Sequence[Declared]) -> Event:
    """Return an event: a point, an interval, or of two streams."""
    stream = choose.of(streams[0], *streams)
    names: str | tuple[str, ...] = stream.name
    if stream.channel and choose.seldom(4):
        names = tuple(one.name for one in streams if one.channel == stream.channel)
    t1 = choose.number(0, 12)
    t0 = t1 - choose.of(0, 0, 0, 1, 3)
    values = tuple([row_value(choose, kind) for kind in stream.schema.types])
    return Event(names, values, t0, t1)


def arrivals(
    choose: Choice, streams: Sequence[Declared], largest: int, late: int = 0
) -> list[Event]:
    """Return events, at least half of the largest number, in an order of arrival."""
    return in_order(
        choose,
        streams,
        [event(choose, streams) for _ in range(choose.number(largest // 2, largest))],
        late,
    )


def in_order(
    choose: Choice, streams: Sequence[Declared], events: Sequence[Event], late: int = 0
) -> list[Event]:
    """Return events in an order of arrival that keeps the latenesses, by up to ``late`` not."""
    lateness = {one.name: one.lateness for one in streams}
    due = []
    for one in events:
        name = one.stream if isinstance(one.stream, str) else one.stream[0]
        due.append((one.t1 or 0) + choose.number(0, lateness[name] + late))
    order = sorted(range(len(events)), key=lambda i: due[i])
    return [events[i] for i in order]


# -- expressions -----------------------------------------------------------------------------


def constant(choose: Choice, kind: type) -> Constant:
    """Return a constant, seldom null."""
    options = [one for one in VALUES_OF[kind] if one is not None and one == one]
    return Constant(None) if choose.seldom(20) else Constant(choose.of(*options))


def columns(types: Types, kind: type) -> list[Column]:
    """Return the columns of a type."""
    return [
        Column(1 if side == 1 else 2, i)
        for side, kinds in types.items()
        for i, found in enumerate(kinds)
        if found is kind
    ]


def operand(choose: Choice, types: Types, kind: type, depth: int = 2) -> Expression:
    """Return a value expression of a type: a column, a constant, or computed."""
    found = columns(types, kind)
    if found and choose.often(3):
        return choose.of(*found)
    if depth and kind in NUMBERS and choose.seldom(2):
        left, right = (operand(choose, types, kind, depth - 1) for _ in range(2))
        if kind is not int and choose.seldom(3):
            return Arithmetic("/", left, right)
        return Arithmetic(choose.of("+", "-", "*", "%"), left, right)
    if depth and choose.seldom(4):
        left, right = (operand(choose, types, kind, depth - 1) for _ in range(2))
        if choose.seldom(2):
            return Coalesce((left, right))
        return Case((condition(choose, types, 0), left, right))
    if kind is int and choose.seldom(4):
        return measured(choose, types)
    if kind in (float, BoundedDecimal) and choose.seldom(6):
        return Negative(operand(choose, types, kind, 0))
    return constant(choose, kind)


def measured(choose: Choice, types: Types) -> Expression:
    """Return an int that no column holds: a duration, a time, a length."""
    side: RowSide = 1 if 1 in types and choose.often(2) else 2
    match choose.number(0, 5):
        case 0 | 1:
            return Duration()
        case 2:
            return Time(side, choose.of("begin", "end"))
        case _:
            return Call("length", (operand(choose, types, str, 0),))


def atom(choose: Choice, types: Types) -> Expression:
    """Return an atom: most read a column, one in three of a pair relates both sides."""
    flags = columns(types, bool)
    if flags and choose.seldom(5):
        return choose.of(*flags)
    kinds = [kind for kind in (int, str, *NUMBERS[1:]) if columns(types, kind)] or [int]
    kind = choose.of(*kinds)
    by_side = [columns({side: types[side]}, kind) for side in types]
    if len(types) == 2 and all(by_side) and choose.often(2):
        return Compare(choose.of(*RELATING), choose.of(*by_side[0]), choose.of(*by_side[1]))
    found: list[Expression] = [*columns(types, kind)] or [Constant(1)]
    match choose.number(0, 17):
        case 16 | 17:
            null: Expression = IsNull(operand(choose, types, kind))
            return Not(null) if choose.seldom(2) else null
        case 0 | 1 | 2 | 10:
            return Compare("=", choose.of(*found), constant(choose, kind))
        case 3 | 4 | 5 | 11 | 12:
            return Compare(choose.of(*COMPARISONS[1:]), choose.of(*found), constant(choose, kind))
        case 6 | 14 | 15:
            value = measured(choose, types)
            return Compare(choose.of("<=", ">=", "="), value, Constant(choose.number(0, 6)))
        case 7:
            other = choose.of(kind, *NUMBERS) if kind in NUMBERS else kind
            left, right = operand(choose, types, kind), operand(choose, types, other)
            return Compare(choose.of(*COMPARISONS), left, right)
        case 8:
            part = (operand(choose, types, str, 0), operand(choose, types, str, 0))
            return Call(choose.of("contains", "starts_with"), part)
        case _:
            return Compare(choose.of(*RELATING), Missing(), operand(choose, types, int))


def condition(choose: Choice, types: Types, depth: int = 2) -> Expression:
    """Return a predicate over rows of the types by side."""
    match choose.number(0, 12 if depth else 5):
        case 0 | 1 | 10 | 11 | 12:
            return TRUE
        case 6:
            return And(tuple([condition(choose, types, depth - 1) for _ in range(2)]))
        case 7 | 8:
            return Or(tuple([condition(choose, types, depth - 1) for _ in range(2)]))
        case 9:
            return Not(condition(choose, types, depth - 1))
        case _:
            return atom(choose, types)


@st.composite
def predicates(draw: st.DrawFn, binary: bool) -> Expression:
    """Return a predicate over rows, or pairs of rows, of two numbers."""
    choose = Choice(draw)
    newer: Types = {2: (float, float)}
    types = {1: (float, float), **newer} if binary else newer
    if choose.often(2):
        return atom(choose, types)
    return Or((condition(choose, types), And((atom(choose, types), atom(choose, types)))))


# -- nodes -----------------------------------------------------------------------------------


def node(choose: Choice, streams: Sequence[Declared], depth: int = DEPTH, pairs: int = 2) -> Node:
    """Return an expression of the algebra with at most so many operators over pairs in a path."""
    if not depth:
        return stream(choose, streams)
    least = 0 if depth < DEPTH or not pairs else 2
    kind = choose.number(least, 23 if pairs else 6)
    below = (choose, streams, depth - 1)
    if kind <= 1:
        return stream(choose, streams)
    if kind <= 3:
        source = node(*below, pairs)
        return algebra.select(source, condition(choose, {2: source.schema.types}))
    if kind == 4:
        return projected(choose, node(*below, pairs))
    if kind == 5:
        left = node(*below, pairs)
        right = left if choose.seldom(3) else node(*below, max(0, pairs - 1))
        return algebra.union(left, adapted(choose, right, left.schema))
    if kind == 6:
        return aggregated(choose, node(*below, pairs))
    if kind <= 8:
        return aggregated(choose, node(*below, pairs - 1))
    if kind <= 11:
        return paired(choose, *sides(*below, pairs - 1), None)
    if kind <= 13:
        left = simple(choose, streams) if choose.often(2) else node(*below, pairs - 1)
        return iterated(choose, left, simple(choose, streams))
    if kind <= 15:
        return paired(choose, *sides(*below, pairs - 1), Constant(choose.number(0, 6)))
    if kind <= 17:
        return absent(choose, *sides(*below, pairs - 1))
    sources = sides(*below, pairs - 1)
    return scanned(choose, sources if choose.often(2) else [*sources, simple(choose, streams)])


def sides(choose: Choice, streams: Sequence[Declared], depth: int, pairs: int) -> tuple[Node, Node]:
    """Return two inputs, at least one of them simple most of the time."""
    one, other = simple(choose, streams), simple(choose, streams)
    deep = node(choose, streams, depth, pairs) if choose.often(3) else one
    match choose.number(0, 6):
        case 0:
            return deep, node(choose, streams, depth, pairs)
        case 1 | 2 | 3:
            return deep, other
        case _:
            return other, deep


def stream(choose: Choice, streams: Sequence[Declared]) -> Node:
    """Return a base stream, the first more often."""
    one = choose.of(streams[0], *streams)
    return algebra.stream(one.name, one.schema)


def simple(choose: Choice, streams: Sequence[Declared]) -> Node:
    """Return a base stream or a selection over one."""
    source = stream(choose, streams)
    if choose.often(3):
        return source
    return algebra.select(source, condition(choose, {2: source.schema.types}, 1))


def projected(choose: Choice, source: Node) -> Node:
    """Return computed attributes over a source."""
    found: list[tuple[str, Expression]] = []
    for i in range(choose.number(1, 3)):
        kind = choose.of(*NUMBERS, str)
        found.append((f"p{i}", operand(choose, {2: source.schema.types}, kind)))
    if choose.seldom(3):
        found.append(("lacking", Missing()))
    return algebra.project(source, found)


def adapted(choose: Choice, source: Node, schema: Schema) -> Node:
    """Return a source with the schema of another, by a projection if need be."""
    if source.schema == schema:
        return source
    types = {2: source.schema.types}
    found: list[tuple[str, Expression]] = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        fitting = columns(types, kind)
        found.append((name, choose.of(*fitting) if fitting else filling(kind)))
    return algebra.project(source, found)


def filling(kind: type) -> Expression:
    """Return a value of a type."""
    return Constant(VALUES_OF[kind][0])


def paired(choose: Choice, left: Node, right: Node, window: Expression | None) -> Node:
    """Return a sequence, or a join if there is a window; a selection is often above."""
    left, right = distinct(left, right)
    made: Node
    if window is None and choose.seldom(3):
        free = next(f"r{i}" for i in range(99) if f"r{i}" not in right.schema.names)
        named = [(name, Column(2, i)) for i, name in enumerate(right.schema.names)]
        right = algebra.project(right, [*named, (free, Time(2, "begin"))])
        rank = len(named)
        predicate = condition(choose, constructors.pair_types(left, right))
        made = algebra.sequence(*distinct(left, right), predicate, rank=rank)
    elif window is None:
        predicate = condition(choose, constructors.pair_types(left, right))
        made = algebra.sequence(left, right, predicate)
    else:
        predicate = condition(choose, constructors.pair_types(left, right))
        made = algebra.window_join(left, right, predicate, window)
    if choose.seldom(3):
        return algebra.select(made, condition(choose, {2: made.schema.types}, 1))
    return made


def absent(choose: Choice, left: Node, right: Node) -> Node:
    """Return an absence, with the answering pairs or without, or an outer join."""
    window = Constant(choose.number(1, 6))
    if choose.seldom(3):
        left, right = distinct(left, right)
        predicate = condition(choose, constructors.pair_types(left, right))
        bounds = Constant(choose.number(-4, 3)), Constant(choose.number(-2, 5))
        alone = choose.of((True, True), (True, False), (False, True))
        return algebra.outer_join(left, right, predicate, bounds, alone)
    if choose.often(2):
        predicate = condition(choose, constructors.pair_types(left, right))
        make = timer if choose.seldom(2) else absence
        return make(left, right, predicate, window)
    left, right = distinct(left, right)
    predicate = condition(choose, constructors.pair_types(left, right))
    return alternative(left, right, predicate, window)


def scanned(choose: Choice, sources: Sequence[Node]) -> Node:
    """Return a sequence of the sources, each of them a component and one perhaps twice."""
    inputs = list(dict.fromkeys(sources))
    order = [inputs.index(source) for source in sources]
    if choose.seldom(3):
        order.append(choose.number(0, len(inputs) - 1))
    components = [algebra.Component(place) for place in order]
    parts: list[algebra.Part] = []
    for number, place in enumerate(order):
        kept = len(inputs[place].schema) if choose.often(3) else 1
        parts += [algebra.Part(number, "value", index) for index in range(kept)]
        parts += [algebra.Part(number, "start"), algebra.Part(number, "end")]
    types = part_types(parts, components, inputs)
    predicate = without_times(condition(choose, {2: types}))
    for kind in (int, str):
        first = [j for j, part in enumerate(parts) if part.role == "value" and types[j] is kind]
        by_component = {parts[j].component: j for j in reversed(first)}
        if len(by_component) == len(order) > 1 and choose.seldom(2):
            base, *others = (by_component[number] for number in range(len(order)))
            test = [Compare("=", Column(2, base), Column(2, other)) for other in others]
            predicate = And((predicate, *test))
    window = Constant(choose.number(1, 12)) if choose.often(4) else None
    names = [f"s{j}" for j in range(len(parts))]
    tree = algebra.Chain(tuple(map(algebra.One, range(len(order)))))
    rules = algebra.Rules(window)
    return algebra.pattern_match(inputs, components, tree, parts, names, predicate, rules)


def part_types(
    parts: Sequence[algebra.Part], components: Sequence[algebra.Component], inputs: Sequence[Node]
) -> list[type]:
    """Return the types of the parts of a plain sequence."""
    return [
        int
        if one.index is None
        else inputs[components[one.component].input].schema.types[one.index]
        for one in parts
    ]


def without_times(predicate: Expression) -> Expression:
    """Return a predicate without DUR and times of rows, which have no meaning in a pattern."""
    return rewrite(
        predicate, lambda part: Constant(2) if isinstance(part, Duration | Time) else part
    )


def distinct(left: Node, right: Node) -> tuple[Node, Node]:
    """Return two sources, renamed if their pairs would have a name twice."""
    try:
        constructors.paired_schema(left.schema, right.schema)
    except AlgebraError:
        return renamed(left, "l"), renamed(right, "r")
    return left, right


def renamed(source: Node, prefix: str) -> Node:
    """Return a source with new names."""
    return algebra.project(
        source, [(f"{prefix}{i}", Column(2, i)) for i in range(len(source.schema))]
    )


def iterated(choose: Choice, left: Node, right: Node) -> Node:
    """Return an iteration; its right side is narrowed to attributes that the left has."""
    pairs = list(zip(left.schema.names, left.schema.types, strict=True))
    right_pairs = list(zip(right.schema.names, right.schema.types, strict=True))
    if not set(right_pairs) <= set(pairs):
        kept = pairs[: choose.number(1, len(pairs))]
        right = adapted(choose, right, Schema(*zip(*kept, strict=True)))
    names = [(f"g{i}", choose.of(*NUMBERS)) for i in range(choose.number(0, 2))]
    kinds = [kind for _, kind in names]
    try:
        schema, _ = constructors.iterated_schema(
            left.schema, right.schema, [name for name, _ in names], kinds
        )
    except AlgebraError:
        left, right = renamed(left, "i"), renamed(right, "i")
        if [*right.schema.types] != [*left.schema.types[: len(right.schema)]]:
            right = adapted(choose, right, Schema(left.schema.names[:1], left.schema.types[:1]))
        schema, _ = constructors.iterated_schema(
            left.schema, right.schema, [name for name, _ in names], kinds
        )
    types = {1: schema.types, 2: right.schema.types}
    aggregates = []
    for place, (name, kind) in enumerate(names):
        last = Column(1, len(left.schema) + len(right.schema) + place)
        step: Expression = Arithmetic("+", last, operand(choose, types, kind, 0))
        if choose.often(3):
            step = operand(choose, types, kind, 1)
        aggregates.append((name, step, kind))
    filter, rebind = condition(choose, types), condition(choose, types, 1)
    made = algebra.iterate(left, right, filter, rebind, aggregates)
    return replace(made, longest=choose.seldom(3))


def aggregate(choose: Choice, types: Types) -> Aggregate:
    """Return an aggregate that its types allow."""
    function = choose.of(*algebra.AGGREGATES)
    if function == "COUNT" and choose.often(2):
        return Aggregate("COUNT", None)
    numbers = function in ("SUM", "AVG")
    kind = choose.of(*NUMBERS) if numbers else choose.of(int, str, BoundedDecimal)
    argument = operand(choose, types, kind, 1)
    by = None
    if function.startswith("ARG"):
        by = operand(choose, types, choose.of(*NUMBERS, str), 1)
    return Aggregate(function, argument, by)


def aggregated(choose: Choice, source: Node) -> Node:
    """Return an aggregate over an epoch or a window, grouped sometimes."""
    width = len(source.schema)
    group = tuple(sorted({choose.number(0, width - 1) for _ in range(choose.number(0, 2))}))
    types = {2: source.schema.types}
    found = [(f"a{i}", aggregate(choose, types)) for i in range(choose.number(1, 2))]
    if any(name in dict(found) for name in source.schema.names):
        source = renamed(source, "v")
    if choose.often(2):
        window = Constant(choose.number(1, 8))
        return algebra.group_aggregate(source, group, found, window)
    return algebra.group_aggregate(source, group, found)


def plain(choose: Choice, streams: Sequence[Declared], kind: str) -> Node:
    """Return an expression of one operator over simple inputs."""
    left, right = simple(choose, streams), simple(choose, streams)
    match kind:
        case "select":
            return algebra.select(left, condition(choose, {2: left.schema.types}, 1))
        case "iterate":
            return iterated(choose, left, right)
        case "aggregate":
            return aggregated(choose, left)
        case "absence":
            return absent(choose, left, right)
        case "pattern_match":
            return scanned(choose, [left, right])
        case _:
            window = Constant(choose.number(0, 6)) if kind == "join" else None
            return paired(choose, left, right, window)


# -- queries that share ----------------------------------------------------------------------


def varied(choose: Choice, source: Node) -> Node:
    """Return an expression of the same shape, with other constants here and there."""

    def other(part: Expression) -> Expression:
        if isinstance(part, Constant) and type(part.value) in (*NUMBERS, str):
            return constant(choose, type(part.value)) if choose.seldom(2) else part
        return part

    def window(part: Expression) -> Expression:
        return Constant(choose.number(1, 8)) if choose.seldom(2) else part

    return changed(source, lambda part: rewrite(part, other), window)


def changed(
    source: Node,
    change: Callable[[Expression], Expression],
    window: Callable[[Expression], Expression],
) -> Node:
    """Return an expression with its predicates and windows changed; schemas stay."""

    def below(part: Node) -> Node:
        return changed(part, change, window)

    parts: dict[str, Any] = {}
    for name in (one.name for one in fields(source)):
        part = getattr(source, name)
        match name:
            case "source" | "left" | "right":
                parts[name] = below(part)
            case "inputs":
                parts[name] = tuple(map(below, part))
            case "predicate" | "filter" | "rebind":
                parts[name] = change(part)
            case "window" if part is not None:
                parts[name] = window(part)
            case "rules" if part.window is not None:
                parts[name] = replace(part, window=window(part.window))
    return replace(source, **parts)


KINDS = (*("select", "sequence", "iterate", "join", "aggregate", "absence", "pattern_match"),)


def another(choose: Choice, streams: Sequence[Declared], known: Sequence[Node]) -> Node:
    """Return a query: new, or one that shares something with a known one."""
    if not known and choose.often(2):
        return plain(choose, streams, choose.of(*KINDS))
    if not known or choose.seldom(5):
        return node(choose, streams)
    one = choose.of(*known)
    match choose.number(0, 7):
        case 0:
            return one
        case 1:
            return algebra.select(one, condition(choose, {2: one.schema.types}, 1))
        case 2 | 3:
            return varied(choose, one)
        case _:
            return otherwise(choose, one)


def otherwise(choose: Choice, source: Node) -> Node:
    """Return an expression over the same inputs, its topmost predicate or window another."""
    match source:
        case algebra.Select():
            if choose.seldom(3):
                return replace(source, source=otherwise(choose, source.source))
            predicate = condition(choose, {2: source.schema.types}, 1)
            return replace(source, predicate=predicate)
        case algebra.Project():
            return replace(source, source=otherwise(choose, source.source))
        case algebra.Union():
            return replace(source, left=otherwise(choose, source.left))
        case algebra.Iterate():
            types = {1: source.schema.types, 2: source.right.schema.types}
            if choose.often(2):
                return replace(source, filter=condition(choose, types, 1))
            return replace(source, rebind=condition(choose, types, 1))
        case algebra.OuterJoin(lower=lower) if lower is not None or choose.often(2):
            least = 1 if lower is None else -2
            return replace(source, upper=Constant(choose.number(least, least + 6)))
        case algebra.Sequence() | algebra.WindowJoin() | algebra.OuterJoin():
            if isinstance(source, algebra.WindowJoin) and choose.often(2):
                return replace(source, window=Constant(choose.number(1, 6)))
            predicate = condition(choose, constructors.pair_types(source.left, source.right), 1)
            return replace(source, predicate=predicate)
        case algebra.GroupAggregate():
            if source.window is None or choose.often(2):
                return source
            return replace(source, window=Constant(choose.number(1, 8)))
        case algebra.PatternMatch():
            if choose.often(2) and source.rules.window is not None:
                window = Constant(choose.number(1, 12))
                return replace(source, rules=replace(source.rules, window=window))
            kinds = part_types(source.parts, source.components, source.inputs)
            extra = without_times(condition(choose, {2: kinds}, 1))
            return replace(source, predicate=And((source.predicate, extra)))
        case algebra.Stream():
            return source
        case _:
            assert_never(source)


# -- programs --------------------------------------------------------------------------------


class Queries:
    """The queries of a program while it is made: those that are live, and what they publish."""

    def __init__(self, choose: Choice, streams: Sequence[Declared]) -> None:
        self.added = 0
        self._choose = choose
        self._streams = streams
        self._known: list[Node] = []
        self._live: list[Register] = []

    def add(self) -> Register:
        """Return the registration of one more query."""
        published = [
            Declared(one.publish, one.node.schema) for one in self._live if one.publish is not None
        ]
        streams = [*self._streams, *published]
        names = {one.name for one in streams}
        known = [one for one in self._known if set(streams_of(one)) <= names]
        made = another(self._choose, streams, known)
        self.added += 1
        publish = f"P{self.added}" if self._choose.seldom(4) else None
        step = Register(f"q{self.added}", made, publish)
        self._known.append(made)
        self._live.append(step)
        return step

    def removed(self) -> list[Unregister]:
        """Return the removal of a query that nobody reads, if there is one."""
        read = {name for one in self._live for name in streams_of(one.node)}
        free = [one for one in self._live if one.publish not in read]
        if not free:
            return []
        step = self._choose.of(*free)
        self._live.remove(step)
        return [Unregister(step.name)]


def streams_of(source: Node) -> set[str]:
    """Return the names of the streams that an expression reads."""
    return set(algebra.streams_of(source))


@st.composite
def programs(draw: st.DrawFn, *, latenesses: Sequence[int] = (0,), late: int = 0) -> Program:
    """Return a program: queries come and go, the clock is set, the engine is restored midway."""
    choose = Choice(draw)
    streams = declared(choose, latenesses)
    queries = Queries(choose, streams)
    steps: list[Step] = [queries.add() for _ in range(choose.number(1, 4))]
    batch: list[Event] = []
    for one in arrivals(choose, streams, 20, late):
        batch.append(one)
        happens = choose.number(0, 15)
        if happens < 8:
            continue
        steps.append(Push(tuple(batch)))
        batch = []
        if happens == 15:
            steps.append(Restore())
        if happens in (10, 11, 12) and queries.added < 6:
            steps.append(queries.add())
        if happens == 13:
            steps += queries.removed()
        if happens == 14:
            steps.append(Advance((one.t1 or 0) + choose.number(-1, 3)))
    steps.append(Push(tuple(batch)))
    return Program(streams, tuple(steps))


# -- for the reader of a failure -------------------------------------------------------------


def written(node: Node) -> str:
    """Return an expression of the algebra as text, the inputs of an operator in parentheses."""
    inputs = ", ".join(map(written, sources_of(node)))
    said = operator_in_words(node, LiteralValues((), 1))
    return f"{said}({inputs})" if inputs else said
