"""Constructors of nodes, a function for each kind, which refuse what is not well-formed.

Behind them are the schemas of results, and the checks of conditions, windows and aggregates.  The
constructor of patterns is in `cep_core.algebra.pattern_constructors`.
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered

from cep_core.algebra import expressions as ex
from cep_core.algebra import nodes
from cep_core.algebra.operands import with_operands
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError, Extent, SchemaFault
from cep_core.events import Schema, shown

_NUMBERS = (int, float, BoundedDecimal)


def stream(name: str, schema: Schema) -> nodes.Stream:
    """Return the events of a stream."""
    return nodes.Stream(name, schema)


def select(
    source: nodes.Node, predicate: ex.Expression, functions: ex.Functions = ex.FUNCTIONS
) -> nodes.Select:
    """Return σ over a source."""
    predicate = require(predicate, {2: source.schema.types}, functions)
    return nodes.Select(source, predicate, source.schema)


def project(
    source: nodes.Node,
    columns: Ordered[tuple[str, ex.Expression]],
    functions: ex.Functions = ex.FUNCTIONS,
    span: Extent | None = None,
    nulls: Ordered[type] = (),
) -> nodes.Project:
    """Return a projection of a source to named expressions.

    ``nulls`` has for each column the type that it gets if its expression is always null; without
    ``nulls`` it is str.
    """
    types = {2: source.schema.types}
    made = [ex.with_literals(column, types, functions) for _, column in columns]
    kinds = [ex.type_of(column, types, functions) for column in made]
    others = nulls or [str] * len(kinds)
    known = [kind or other for kind, other in zip(kinds, others, strict=True)]
    schema = schema_of([name for name, _ in columns], known, span)
    return nodes.Project(source, tuple(made), schema)


def union(left: nodes.Node, right: nodes.Node, span: Extent | None = None) -> nodes.Union:
    """Return the bag union of streams with the same names and types of attributes."""
    if left.schema != right.schema:
        raise AlgebraError(
            f"UNION needs the same attributes on both sides, not {left.schema} and {right.schema}",
            hint="rename or drop attributes with SELECT",
            span=span,
            kind=SchemaFault,
        )
    return nodes.Union(left, right, left.schema)


def sequence(
    left: nodes.Node,
    right: nodes.Node,
    predicate: ex.Expression = ex.TRUE,
    functions: ex.Functions = ex.FUNCTIONS,
    span: Extent | None = None,
    rank: int | None = None,
) -> nodes.Sequence:
    """Return ;θ of two streams; ``rank`` is a column of the right one (`nodes.Sequence`)."""
    predicate = require(predicate, pair_types(left, right), functions)
    if rank is not None and right.schema.types[rank : rank + 1] != (int,):
        raise AlgebraError("a rank is a column of numbers of the right side", span=span)
    return nodes.Sequence(
        left, right, predicate, paired_schema(left.schema, right.schema, span), rank
    )


def iterate(
    left: nodes.Node,
    right: nodes.Node,
    filter: ex.Expression,
    rebind: ex.Expression,
    aggregates: Ordered[tuple[str, ex.Expression, type]] = (),
    functions: ex.Functions = ex.FUNCTIONS,
    span: Extent | None = None,
) -> nodes.Iterate:
    """Return μ; each aggregate has a name, an expression, and its type."""
    names, kinds = [name for name, _, _ in aggregates], [kind for _, _, kind in aggregates]
    schema, initial = iterated_schema(left.schema, right.schema, names, kinds, span)
    types = {1: schema.types, 2: right.schema.types}
    filter, rebind = (require(one, types, functions) for one in (filter, rebind))
    expressions = [ex.with_literals(one, types, functions) for _, one, _ in aggregates]
    for name, expression, kind in zip(names, expressions, kinds, strict=True):
        found = ex.type_of(expression, types, functions)
        if found not in (kind, None) and not ex.is_narrower(found, kind):
            becomes = found.__name__ if found else "null"
            raise AlgebraError(
                f"{name} begins as {kind.__name__} and would become {becomes}",
                hint=f"start it with a value of type {becomes}",
                span=expression.span or span,
                kind=SchemaFault,
            )
    return nodes.Iterate(left, right, filter, rebind, tuple(expressions), initial, schema)


def group_aggregate(
    source: nodes.Node,
    group_by: Ordered[int],
    aggregates: Ordered[tuple[str, nodes.Aggregate]],
    window: ex.Expression | None = None,
    functions: ex.Functions = ex.FUNCTIONS,
    span: Extent | None = None,
) -> nodes.GroupAggregate:
    """Return GROUP BY; its rows have the grouped columns, then the aggregates.

    With a window each row gets the aggregates of its group in the window before it (α); without
    one each group of an instant gets one row with those of that instant (β).
    """
    if window is not None:
        require_window(window, functions)
    for column in group_by:
        if type(column) is not int or not 0 <= column < len(source.schema):
            raise AlgebraError(f"there is no column {shown(column)} to group by", span=span)
    types = {2: source.schema.types}
    names = [source.schema.names[column] for column in group_by]
    kinds = [source.schema.types[column] for column in group_by]
    found: list[nodes.Aggregate] = []
    for name, one in aggregates:
        made = with_operands(
            one, "Expression", lambda part: ex.with_literals(part, types, functions)
        )
        names.append(name)
        kinds.append(_aggregate_type(made, types, functions, span))
        found.append(made)
    schema = schema_of(names, kinds, span)
    return nodes.GroupAggregate(source, tuple(group_by), tuple(found), window, schema)


def window_join(
    left: nodes.Node,
    right: nodes.Node,
    predicate: ex.Expression,
    window: ex.Expression,
    functions: ex.Functions = ex.FUNCTIONS,
    span: Extent | None = None,
) -> nodes.WindowJoin:
    """Return ⋈ of two streams: pairs at most ``window`` ticks apart that satisfy the predicate."""
    require_window(window, functions)
    predicate = require(predicate, pair_types(left, right), functions)
    schema = paired_schema(left.schema, right.schema, span)
    return nodes.WindowJoin(left, right, predicate, window, schema)


def outer_join(
    left: nodes.Node,
    right: nodes.Node,
    predicate: ex.Expression,
    bounds: tuple[ex.Expression | None, ex.Expression],
    alone: tuple[bool, bool] = (True, False),
    functions: ex.Functions = ex.FUNCTIONS,
    *,
    paired: bool = True,
    moment: bool = False,
) -> nodes.OuterJoin:
    """Return an outer join: pairs (if ``paired``) and rows without a partner (`nodes.OuterJoin`).

    ``bounds`` are the least and the greatest b.t1 - a.t1 of a pair, in ticks.  ``alone`` says for
    the left and the right side whether a row without a partner comes out.
    """
    lower, upper = bounds
    if alone != (True, False) if lower is None else moment or not paired:
        raise AlgebraError("pairs without a lower bound, and they alone, may have left rows only")
    for bound in bounds:
        if bound is not None:
            require_window(bound, functions)
    predicate = require(predicate, pair_types(left, right), functions)
    schema = paired_schema(left.schema, right.schema, None) if paired else left.schema
    return nodes.OuterJoin(left, right, predicate, lower, upper, alone, paired, moment, schema)


# -- schemas and checks -----------------------------------------------------------------------


def pair_types(left: nodes.Node, right: nodes.Node) -> dict[int, tuple[type, ...]]:
    """Return the types of the columns that a predicate over two streams may read, by side."""
    return {1: left.schema.types, 2: right.schema.types}


def paired_schema(left: Schema, right: Schema, span: Extent | None = None) -> Schema:
    """Return the schema of pairs: if any name occurs twice, all of the left get the suffix "_1"."""
    collide = set(left.names) & set(right.names)
    own = [f"{name}_1" for name in left.names] if collide else list(left.names)
    return schema_of([*own, *right.names], [*left.types, *right.types], span)


def iterated_schema(
    left: Schema,
    right: Schema,
    names: Ordered[str],
    kinds: Ordered[type],
    span: Extent | None = None,
) -> tuple[Schema, tuple[int | None, ...]]:
    """Return the layout of μ's instances, and the column of a first row for each later attribute.

    The layout has the left stream's attributes (with "_1" if a later one has the name too), then
    the right stream's, then the aggregates' ``names`` with their ``kinds``.  The second value is by
    attribute from the right stream's first one on; None: the first row has no such column.
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


def schema_of(names: Ordered[str], types: Ordered[type], span: Extent | None = None) -> Schema:
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


def _aggregate_type(
    aggregate: nodes.Aggregate,
    types: dict[int, tuple[type, ...]],
    functions: ex.Functions,
    span: Extent | None,
) -> type:
    function, argument, by = aggregate.function, aggregate.argument, aggregate.by
    if function not in nodes.AGGREGATES:
        raise AlgebraError(f"there is no aggregate {shown(function)}", span=span)
    if argument is None and function != "COUNT":
        raise AlgebraError(f"{function} needs an argument", span=span)
    kinds = [ex.type_of(part, types, functions) for part in (argument, by) if part is not None]
    if argument is None or function == "COUNT":
        return int
    kind = kinds[0]
    place = argument.span or span
    for one in kinds[:1] if function in ("SUM", "AVG") else kinds:
        require_aggregable(function, one, place)
    if (by is not None) is not function.startswith("ARG"):
        number = "one argument" if by is not None else "two arguments"
        raise AlgebraError(f"{function} takes {number}", span=place)
    return average_type(kind) if function == "AVG" else (kind or float)


def average_type(kind: type | None) -> type:
    """Return the type of an average of values of a type: decimal for decimals, else float."""
    return BoundedDecimal if kind is BoundedDecimal else float


def require_aggregable(function: str, kind: type | None, span: Extent | None) -> None:
    """Raise AlgebraError unless a function aggregates values of a type; None: only null."""
    wanted = ""
    if function in ("SUM", "AVG") and kind not in (*_NUMBERS, None):
        wanted = "numbers"
    elif function in ("MIN", "MAX", "ARGMIN", "ARGMAX") and not ex.is_ordered(kind):
        wanted = "values that have an order"
    if wanted and kind is not None:
        raise AlgebraError(
            f"{function} takes {wanted}, not {kind.__name__}", span=span, kind=SchemaFault
        )


def require(
    predicate: ex.Expression, types: ex.SideTypes, functions: ex.Functions
) -> ex.Expression:
    """Return a predicate with typed literals; raise AlgebraError if it is no condition."""
    predicate = ex.with_literals(predicate, types, functions)
    ex.require_condition(predicate, types, functions)
    return predicate


def require_window(window: ex.Expression, functions: ex.Functions) -> None:
    """Raise AlgebraError unless a window is a constant number of ticks."""
    ex.require_compilable(window)
    if any(isinstance(part, ex.Column | ex.Duration | ex.Missing) for part in ex.walk(window)):
        raise AlgebraError("a window is a constant", span=window.span)
    kind = ex.type_of(window, {}, functions)
    if kind is not int:
        word = "null" if kind is None else f"a {kind.__name__}"
        raise AlgebraError(f"a window is a whole number of ticks, not {word}", span=window.span)
