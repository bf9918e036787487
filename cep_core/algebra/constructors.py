"""Constructors of nodes, a function for each kind, which refuse what is not well-formed.

Those of SASE are in `cep_core.algebra.patterns`.
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered

from cep_core.algebra import expressions as ex
from cep_core.algebra import nodes
from cep_core.algebra.operands import with_operands
from cep_core.algebra.schemas import (
    Functions,
    aggregated_schema,
    iterated_schema,
    pair_types,
    paired_schema,
    require,
    require_window,
    schema_of,
)
from cep_core.errors import AlgebraError, Extent, SchemaFault
from cep_core.events import Schema


def stream(name: str, schema: Schema) -> nodes.Stream:
    """Return the events of a stream."""
    return nodes.Stream(name, schema)


def select(
    source: nodes.Node, predicate: ex.Expression, functions: Functions = ex.FUNCTIONS
) -> nodes.Select:
    """Return σ over a source."""
    predicate = require(predicate, {2: source.schema.types}, functions)
    return nodes.Select(source, predicate, source.schema)


def project(
    source: nodes.Node,
    columns: Ordered[tuple[str, ex.Expression]],
    functions: Functions = ex.FUNCTIONS,
    span: Extent | None = None,
    nulls: Ordered[type] = (),
) -> nodes.Project:
    """Return the named expressions over a source; ``nulls`` are the types of those always null."""
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
    functions: Functions = ex.FUNCTIONS,
    span: Extent | None = None,
    rank: int | None = None,
) -> nodes.Sequence:
    """Return ;θ of two streams."""
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
    functions: Functions = ex.FUNCTIONS,
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
    functions: Functions = ex.FUNCTIONS,
    span: Extent | None = None,
) -> nodes.GroupAggregate:
    """Return GROUP BY; its rows have the grouped columns, then the aggregates.

    With a window each row gets the aggregates of its group in the window before it (α); without
    one each group of an instant gets one row with those of that instant (β).
    """
    if window is not None:
        require_window(window, functions)
    types = {2: source.schema.types}
    made = [
        (
            name,
            with_operands(one, "Expression", lambda part: ex.with_literals(part, types, functions)),
        )
        for name, one in aggregates
    ]
    schema = aggregated_schema(source, group_by, made, functions, span)
    found = tuple(one for _, one in made)
    return nodes.GroupAggregate(source, tuple(group_by), found, window, schema)


def window_join(
    left: nodes.Node,
    right: nodes.Node,
    predicate: ex.Expression,
    window: ex.Expression,
    functions: Functions = ex.FUNCTIONS,
    span: Extent | None = None,
) -> nodes.WindowJoin:
    """Return ⋈ of two streams."""
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
    functions: Functions = ex.FUNCTIONS,
    *,
    paired: bool = True,
    moment: bool = False,
) -> nodes.OuterJoin:
    """Return pairs of two streams, unless they are not asked for, and rows that come alone."""
    lower, upper = bounds
    if alone != (True, False) if lower is None else moment or not paired:
        raise AlgebraError("pairs without a lower bound, and they alone, may have left rows only")
    for bound in bounds:
        if bound is not None:
            require_window(bound, functions)
    predicate = require(predicate, pair_types(left, right), functions)
    schema = paired_schema(left.schema, right.schema, None) if paired else left.schema
    return nodes.OuterJoin(left, right, predicate, lower, upper, alone, paired, moment, schema)
