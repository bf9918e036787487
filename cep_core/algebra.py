r"""The event algebra: what a query means, independent of how it is computed.

Nodes are frozen and carry their output schema; the functions of the same names in lower case make
them and refuse what is not well-formed.  Formal definitions: Hong 2009, section 3.2; the second
opinion in `tests/cep_core/reference.py` computes each operator straight from them.

=====================  ============  ==============================================================
node                   paper         result
=====================  ============  ==============================================================
Stream                 S             the events of a base stream, or of a published one
Select                 sigma         rows for which the predicate holds
Project                pi, rho, a_g  rows with computed, renamed, dropped attributes
Union                  ∪             bag union
Sequence               ;θ            each left row with the earliest later right row, given θ
Iterate                μ             repeated ;θ that keeps the first row, the last row, aggregates
InstanceAggregate      β             one row for each epoch (and group)
WindowAggregate        α             one row for each row, over the window (t - w, t]
WindowJoin             ⋈             pairs at most w apart, either order
Absence                -             left rows that no right row answers in time
Successor              ;             each left row with the first of its successors
Repeat                 +             runs: repeated steps to the first of the successors
Unless                 \             left rows that no right row ends together with
SequenceScan           SEQ, SSC      sequences of rows, one of each component, in a window (SASE)
Negation               SEQ_WITHOUT   rows between whose parts nothing happened (SASE)
=====================  ============  ==============================================================

Differs from section 3.2.2: a sequence keeps the attributes of both rows.  Where names collide the
first row's get the suffix "_1" (section 4.2.2); overwriting is a projection above it.  It has no
Absence, whose relatives are SASE's negated end and NEXT's exception (`operators/absence`), and
no SequenceScan and Negation, which are those of Wu, Diao and Rizvi 2006 (`cep_core.patterns`).
Successor, Repeat and Unless are core operators of NEXT CEP (Schultz-Møller, Migliavacca and
Pietzuch, *Distributed Complex Event Processing with Query Rewriting*, 2009, sections 3.2 and 3.4):
among simultaneous rows the `rank` tells which is the first, as its time model asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, assert_never

from cep_core.errors import AlgebraError, SchemaFault, Span
from cep_core.events import Schema, shown
from cep_core.expressions import (
    FUNCTIONS,
    TRUE,
    Column,
    Duration,
    Expression,
    Function,
    Missing,
    Types,
    is_ordered,
    require_compilable,
    require_condition,
    type_of,
    walk,
)

Strategy: TypeAlias = Literal["any", "next", "strict", "partition"]
RunAggregate: TypeAlias = Literal["COUNT", "SUM", "AVG", "MIN", "MAX"]
Role: TypeAlias = (
    Literal["value", "current", "previous", "first", "last", "start", "first_end", "end"]
    | RunAggregate
)
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "ARGMIN", "ARGMAX")


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of a stream, by name."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Select:
    """σ: rows of the source for which the predicate (over side 2) holds."""

    source: Node
    predicate: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class Project:
    """π, ρ and α_g in one: the columns are expressions over side 2, the names are the schema's."""

    source: Node
    columns: tuple[Expression, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Union:
    """Bag union; the names are the left side's."""

    left: Node
    right: Node
    schema: Schema


@dataclass(frozen=True, slots=True)
class Sequence:
    """;θ: side 1 of the predicate is the left row, side 2 the right row."""

    left: Node
    right: Node
    predicate: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class Iterate:
    """μ: an instance has the first row's values, the last right row's, and the aggregates'.

    Its layout is the output schema.  ``filter`` (θ), ``rebind`` and ``aggregates`` (F = α_g ∘ σ)
    read the instance as side 1 and the right row as side 2.  ``initial`` says for each attribute
    after the first row's which of the first row's starts it, or None for null.
    """

    left: Node
    right: Node
    filter: Expression
    rebind: Expression
    aggregates: tuple[Expression, ...]
    initial: tuple[int | None, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of AGGREGATES over an expression (side 2); None counts rows.

    Nulls and NaN are passed over; without any other value the result is null (COUNT: 0).
    ARGMIN and ARGMAX give ``argument`` of the row with the least or largest ``by``; among equals
    the least argument that is not null, so that the order of rows does not matter.
    """

    function: str
    argument: Expression | None
    by: Expression | None = None


@dataclass(frozen=True, slots=True)
class InstanceAggregate:
    """β: for each epoch, and each combination of the grouped columns, one row at that instant."""

    source: Node
    group_by: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """α: for each row, after its epoch t, its group's aggregates over rows with t1 in (t - w, t].

    The result has t0 = t1 = t.  ``window`` is a constant expression, in ticks.
    """

    source: Node
    group_by: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    window: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """⋈: every pair of a left and a right row with abs(l.t1 - r.t1) <= w and the predicate.

    An event never pairs with itself.  The result spans both rows.
    """

    left: Node
    right: Node
    predicate: Expression
    window: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class Absence:
    """NOT FOLLOWED BY: left rows that no right row answers in time.

    A right row b answers a left row a iff a.t1 < b.t0, b.t1 - a.t1 <= w and the predicate (a as
    side 1, b as side 2) holds.  The result has the left row's values and spans [a.t0, a.t1 + w].
    With ``otherwise`` it is FOLLOWED BY .. ELSE: every answering pair, and those left rows, with
    nulls for the right row's values.  As a ``moment`` it is E@w of NEXT CEP: what is put out has no
    duration, it is the moment a.t1 + w (section 3.4).
    """

    left: Node
    right: Node
    predicate: Expression
    window: Expression
    otherwise: bool
    schema: Schema
    moment: bool = False


@dataclass(frozen=True, slots=True)
class Guard:
    """What ends a detection: a row of the source, the predicate (side 1: what waits) given.

    It has to begin after what waits has ended; one that ends together with the row that completes
    the detection comes in time.
    """

    source: Node
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Successor:
    """;φ of NEXT CEP: each left row with its successors among the right rows that satisfy φ.

    These begin after it and end first; of several that do, those whose ``rank`` (over side 2) is
    least.  A left row is consumed by them, or by a guard.  ``kept`` are expressions over both
    sides that the result has after both rows' values.
    """

    left: Node
    right: Node
    predicate: Expression
    rank: Expression | None
    kept: tuple[Expression, ...]
    guards: tuple[Guard, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Repeat:
    """The steps of an iteration: an instance takes one successor after the other.

    Left rows are instances, and so is what ``columns`` make of an instance (side 1) and its
    successor (side 2) if the predicate ``rebind`` holds; such rows are the result.
    """

    left: Node
    right: Node
    filter: Expression
    rebind: Expression
    columns: tuple[Expression, ...]
    rank: Expression | None
    guards: tuple[Guard, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Unless:
    """Left rows without a right row that ends at the same time and satisfies the predicate."""

    left: Node
    right: Node
    predicate: Expression
    schema: Schema


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a sequence: rows of an input; ``repeated`` are one or more of them, a run."""

    input: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a sequence, by component: what predicates read and results have.

    ``value`` is attribute ``index`` of a single row; of a run ``current`` is that of each of its
    rows, ``previous`` of the one before, ``first`` and ``last`` of these.  ``start`` is the t0 of
    the first row, ``first_end`` its t1, ``end`` the t1 of the last.  An aggregate is over a whole
    run, without ``index`` over its rows; with ``before`` over what precedes the current row.
    """

    component: int
    role: Role
    index: int | None = None
    before: bool = False


@dataclass(frozen=True, slots=True)
class SequenceScan:
    """SEQ: rows of the components one after the other, within a window, given a predicate.

    Column j of side 2 of the predicate is part j; the first parts are the schema's.  ``window``
    bounds last.t1 - first.t1 (None: nothing does).  ``partition`` has the columns of each input
    that say to which partition a row belongs, for partition contiguity; None: to none.
    """

    inputs: tuple[Node, ...]
    components: tuple[Component, ...]
    parts: tuple[Part, ...]
    predicate: Expression
    window: Expression | None
    strategy: Strategy
    partition: tuple[tuple[int, ...] | None, ...]
    schema: Schema


@dataclass(frozen=True, slots=True)
class NegativeComponent:
    """What must not happen between two times, the columns of the source that have them.

    ``after`` is None at the start of a sequence, ``before`` at its end: there the window begins
    and ends.  The predicate reads the row as side 1 and what happens as side 2.
    """

    predicate: Expression
    after: int | None
    before: int | None


@dataclass(frozen=True, slots=True)
class Negation:
    """SEQ_WITHOUT: rows of the source for which none of the negatives happens, one per input.

    ``first`` is the column with the t1 of a row's first part.
    """

    source: Node
    inputs: tuple[Node, ...]
    negatives: tuple[NegativeComponent, ...]
    first: int
    window: Expression | None
    schema: Schema


Node: TypeAlias = (
    Stream
    | Select
    | Project
    | Union
    | Sequence
    | Iterate
    | InstanceAggregate
    | WindowAggregate
    | WindowJoin
    | Absence
    | Successor
    | Repeat
    | Unless
    | SequenceScan
    | Negation
)
Functions: TypeAlias = Mapping[str, Function]


def stream(name: str, schema: Schema) -> Stream:
    """Return the events of a stream."""
    return Stream(name, schema)


def select(source: Node, predicate: Expression, functions: Functions = FUNCTIONS) -> Select:
    """Return σ over a source."""
    require(predicate, {2: source.schema.types}, functions)
    return Select(source, predicate, source.schema)


def project(
    source: Node,
    columns: Ordered[tuple[str, Expression]],
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
    nulls: Ordered[type] = (),
) -> Project:
    """Return the named expressions over a source; ``nulls`` are the types of those always null."""
    kinds = [_kind_of(column, {2: source.schema.types}, functions) for _, column in columns]
    others = nulls or [str] * len(kinds)
    known = [kind or other for kind, other in zip(kinds, others, strict=True)]
    schema = schema_of([name for name, _ in columns], known, span)
    return Project(source, tuple(column for _, column in columns), schema)


def rename(source: Node, names: Mapping[str, str], span: Span | None = None) -> Project:
    """Return ρ over a source: attributes by their new names."""
    columns = [(names.get(name, name), Column(2, i)) for i, name in enumerate(source.schema.names)]
    return project(source, columns, span=span)


def union(left: Node, right: Node, span: Span | None = None) -> Union:
    """Return the bag union of streams with the same names and types of attributes."""
    if left.schema != right.schema:
        raise AlgebraError(
            f"UNION needs the same attributes on both sides, not {left.schema} and {right.schema}",
            hint="rename or drop attributes with SELECT",
            span=span,
            kind=SchemaFault,
        )
    return Union(left, right, left.schema)


def sequence(
    left: Node,
    right: Node,
    predicate: Expression = TRUE,
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> Sequence:
    """Return ;θ of two streams."""
    require(predicate, pair_types(left, right), functions)
    return Sequence(left, right, predicate, paired_schema(left.schema, right.schema, span))


def iterated_schema(
    left: Schema, right: Schema, names: Ordered[str], kinds: Ordered[type], span: Span | None = None
) -> tuple[Schema, tuple[int | None, ...]]:
    """Return the layout of μ's instances and where its later part comes from at first.

    First the left stream's attributes (with "_1" if the later part has the name too), then the
    right stream's, then the aggregates' ``names`` with their ``kinds``.
    """
    for name, kind in zip(right.names, right.types, strict=True):
        if name not in left.names or left.types[left.names.index(name)] is not kind:
            raise AlgebraError(
                f"FOLD needs each attribute of its second stream in its first, which lacks"
                f" {name} {kind.__name__}",
                hint=f"the first stream has {left}; add or drop attributes with SELECT",
                span=span,
                kind=SchemaFault,
            )
    later = (*right.names, *names)
    own = [f"{name}_1" if name in later else name for name in left.names]
    schema = schema_of([*own, *later], [*left.types, *right.types, *kinds], span)
    return schema, tuple(left.names.index(n) if n in left.names else None for n in later)


def iterate(
    left: Node,
    right: Node,
    filter: Expression,
    rebind: Expression,
    aggregates: Ordered[tuple[str, Expression, type]] = (),
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> Iterate:
    """Return μ; each aggregate has a name, an expression, and its type."""
    names, kinds = [name for name, _, _ in aggregates], [kind for _, _, kind in aggregates]
    schema, initial = iterated_schema(left.schema, right.schema, names, kinds, span)
    types = {1: schema.types, 2: right.schema.types}
    require(filter, types, functions)
    require(rebind, types, functions)
    for name, expression, kind in aggregates:
        found = _kind_of(expression, types, functions)
        if found not in (kind, None) and not (kind is float and found is int):
            becomes = found.__name__ if found else "null"
            raise AlgebraError(
                f"{name} begins as {kind.__name__} and would become {becomes}",
                hint=f"start it with a value of type {becomes}",
                span=expression.span or span,
                kind=SchemaFault,
            )
    expressions = tuple(expression for _, expression, _ in aggregates)
    return Iterate(left, right, filter, rebind, expressions, initial, schema)


def instance_aggregate(
    source: Node,
    group_by: Ordered[int],
    aggregates: Ordered[tuple[str, Aggregate]],
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> InstanceAggregate:
    """Return β: the grouped columns, then the aggregates."""
    schema = _aggregated(source, group_by, aggregates, functions, span)
    return InstanceAggregate(source, tuple(group_by), tuple(a for _, a in aggregates), schema)


def window_aggregate(
    source: Node,
    group_by: Ordered[int],
    aggregates: Ordered[tuple[str, Aggregate]],
    window: Expression,
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> WindowAggregate:
    """Return the sliding α: the grouped columns, then the aggregates."""
    require_window(window, functions)
    schema = _aggregated(source, group_by, aggregates, functions, span)
    functions_of = tuple(a for _, a in aggregates)
    return WindowAggregate(source, tuple(group_by), functions_of, window, schema)


def window_join(
    left: Node,
    right: Node,
    predicate: Expression,
    window: Expression,
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> WindowJoin:
    """Return ⋈ of two streams."""
    require_window(window, functions)
    require(predicate, pair_types(left, right), functions)
    schema = paired_schema(left.schema, right.schema, span)
    return WindowJoin(left, right, predicate, window, schema)


def absence(
    left: Node,
    right: Node,
    predicate: Expression,
    window: Expression,
    functions: Functions = FUNCTIONS,
) -> Absence:
    """Return NOT FOLLOWED BY of two streams: rows of the left."""
    require_window(window, functions)
    require(predicate, pair_types(left, right), functions)
    return Absence(left, right, predicate, window, False, left.schema)


def timer(
    left: Node,
    right: Node,
    predicate: Expression,
    time: Expression,
    functions: Functions = FUNCTIONS,
) -> Absence:
    """Return E@time: a moment so long after each left row that no right row has ended."""
    return replace(absence(left, right, predicate, time, functions), moment=True)


def alternative(
    left: Node,
    right: Node,
    predicate: Expression,
    window: Expression,
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> Absence:
    """Return FOLLOWED BY .. ELSE of two streams: pairs, without a right row if nothing answered."""
    require_window(window, functions)
    require(predicate, pair_types(left, right), functions)
    schema = paired_schema(left.schema, right.schema, span)
    return Absence(left, right, predicate, window, True, schema)


def successor(
    left: Node,
    right: Node,
    predicate: Expression = TRUE,
    rank: Expression | None = None,
    kept: Ordered[tuple[str, Expression]] = (),
    guards: Ordered[Guard] = (),
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
    names: Ordered[str] | None = None,
) -> Successor:
    """Return ;φ of two streams, with SUCC; ``names`` are those of the result, if not the usual."""
    types = pair_types(left, right)
    require(predicate, types, functions)
    _require_rank(rank, right, functions)
    _require_guards(guards, left.schema, functions)
    kinds = [_kind_of(one, types, functions) or int for _, one in kept]
    if names is None:
        pair = paired_schema(left.schema, right.schema, span)
        names = [*pair.names, *(name for name, _ in kept)]
    schema = schema_of(names, [*left.schema.types, *right.schema.types, *kinds], span)
    expressions = tuple(one for _, one in kept)
    return Successor(left, right, predicate, rank, expressions, tuple(guards), schema)


def repeat(
    left: Node,
    right: Node,
    filter: Expression,
    rebind: Expression,
    columns: Ordered[Expression],
    rank: Expression | None = None,
    guards: Ordered[Guard] = (),
    functions: Functions = FUNCTIONS,
    span: Span | None = None,
) -> Repeat:
    """Return the steps of an iteration; the columns have the names and types of the left rows."""
    types = pair_types(left, right)
    require(filter, types, functions)
    require(rebind, types, functions)
    _require_rank(rank, right, functions)
    _require_guards(guards, left.schema, functions)
    kinds = [_kind_of(one, types, functions) for one in columns]
    fits = len(kinds) == len(left.schema) and all(
        found in (kind, None) or (kind is float and found is int)
        for found, kind in zip(kinds, left.schema.types, strict=True)
    )
    if not fits:
        raise AlgebraError(
            f"the steps of an iteration make what it begins with, {left.schema}",
            span=span,
            kind=SchemaFault,
        )
    sides = (left, right, filter, rebind, tuple(columns))
    return Repeat(*sides, rank, tuple(guards), left.schema)


def unless(
    left: Node, right: Node, predicate: Expression = TRUE, functions: Functions = FUNCTIONS
) -> Unless:
    """Return the left rows that no right row ends together with, given the predicate."""
    require(predicate, pair_types(left, right), functions)
    return Unless(left, right, predicate, left.schema)


def sources_of(node: Node) -> tuple[Node, ...]:
    """Return the expressions directly below one, from left to right."""
    match node:
        case Stream():
            return ()
        case Select(source) | Project(source) | InstanceAggregate(source):
            return (source,)
        case WindowAggregate(source):
            return (source,)
        case Sequence(left, right) | Iterate(left, right) | Union(left, right):
            return (left, right)
        case WindowJoin(left, right) | Absence(left, right) | Unless(left, right):
            return (left, right)
        case Successor(left, right, guards=guards) | Repeat(left, right, guards=guards):
            return (left, right, *(guard.source for guard in guards))
        case SequenceScan(inputs):
            return inputs
        case Negation(source, inputs):
            return (source, *inputs)
        case _:
            assert_never(node)


def streams_of(node: Node) -> dict[str, Stream]:
    """Return the streams that an expression reads, by name, from left to right."""
    if isinstance(node, Stream):
        return {node.name: node}
    found: dict[str, Stream] = {}
    for source in sources_of(node):
        found |= streams_of(source)
    return found


def pair_types(left: Node, right: Node) -> dict[int, tuple[type, ...]]:
    """Return the types of the columns that a predicate over two streams may read."""
    return {1: left.schema.types, 2: right.schema.types}


def paired_schema(left: Schema, right: Schema, span: Span | None = None) -> Schema:
    """Return the schema of pairs: if any name occurs twice, all of the left get the suffix "_1"."""
    collide = set(left.names) & set(right.names)
    own = [f"{name}_1" for name in left.names] if collide else list(left.names)
    return schema_of([*own, *right.names], [*left.types, *right.types], span)


def require(predicate: Expression, types: Types, functions: Functions) -> None:
    """Raise AlgebraError unless an expression is a condition that can be compiled."""
    require_compilable(predicate)
    require_condition(predicate, types, functions)


def _require_rank(rank: Expression | None, right: Node, functions: Functions) -> None:
    """Raise AlgebraError unless a rank is a value of a right row that has an order."""
    if rank is None:
        return
    kind = _kind_of(rank, {2: right.schema.types}, functions)
    if not is_ordered(kind):
        word = kind.__name__ if kind else "null"
        raise AlgebraError(f"a rank has an order, which {word} has not", span=rank.span)


def _require_guards(guards: Ordered[Guard], left: Schema, functions: Functions) -> None:
    for guard in guards:
        types = {1: left.types, 2: guard.source.schema.types}
        require(guard.predicate, types, functions)


def require_window(window: Expression, functions: Functions) -> None:
    """Raise AlgebraError unless a window is a constant number of ticks."""
    require_compilable(window)
    if any(isinstance(part, Column | Duration | Missing) for part in walk(window)):
        raise AlgebraError("a window is a constant", span=window.span)
    kind = type_of(window, {}, functions)
    if kind is not int:
        word = "null" if kind is None else f"a {kind.__name__}"
        raise AlgebraError(f"a window is a whole number of ticks, not {word}", span=window.span)


def _kind_of(node: Expression, types: Types, functions: Functions) -> type | None:
    """Return the type of an expression that can be compiled."""
    require_compilable(node)
    return type_of(node, types, functions)


def _aggregated(
    source: Node,
    group_by: Ordered[int],
    aggregates: Ordered[tuple[str, Aggregate]],
    functions: Functions,
    span: Span | None,
) -> Schema:
    types = {2: source.schema.types}
    for column in group_by:
        if type(column) is not int or not 0 <= column < len(source.schema):
            raise AlgebraError(f"there is no column {shown(column)} to group by", span=span)
    names = [source.schema.names[i] for i in group_by]
    kinds = [source.schema.types[i] for i in group_by]
    for name, aggregate in aggregates:
        names.append(name)
        kinds.append(_aggregate_type(aggregate, types, functions, span))
    return schema_of(names, kinds, span)


def _aggregate_type(
    aggregate: Aggregate,
    types: dict[int, tuple[type, ...]],
    functions: Functions,
    span: Span | None,
) -> type:
    function, argument, by = aggregate.function, aggregate.argument, aggregate.by
    if function not in AGGREGATES:
        raise AlgebraError(f"there is no aggregate {shown(function)}", span=span)
    if argument is None and function != "COUNT":
        raise AlgebraError(f"{function} needs an argument", span=span)
    kinds = [_kind_of(part, types, functions) for part in (argument, by) if part is not None]
    if argument is None or function == "COUNT":
        return int
    kind = kinds[0]
    place = argument.span or span
    if function not in ("SUM", "AVG"):
        for one in kinds:
            if one is not None and not is_ordered(one):
                raise AlgebraError(
                    f"{function} takes values that have an order, not {one.__name__}",
                    span=place,
                    kind=SchemaFault,
                )
    if function in ("SUM", "AVG") and kind not in (int, float, None):
        raise AlgebraError(
            f"{function} takes numbers, not {kind.__name__ if kind else 'null'}",
            span=place,
            kind=SchemaFault,
        )
    if (by is not None) is not function.startswith("ARG"):
        number = "one argument" if by is not None else "two arguments"
        raise AlgebraError(f"{function} takes {number}", span=place)
    return float if function == "AVG" else (kind or float)


def schema_of(names: Ordered[str], types: Ordered[type], span: Span | None = None) -> Schema:
    """Return the schema of a result; raises AlgebraError if a name occurs twice."""
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise AlgebraError(
            f"the result would have the attribute {twice[0]} twice",
            hint="rename one of them with AS",
            span=span,
            kind=SchemaFault,
        )
    return Schema(tuple(names), tuple(types))
