"""Schemas of results, and the checks of conditions, windows, ranks and aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from typing import TypeAlias

from cep_core.algebra import expressions as ex
from cep_core.algebra.nodes import AGGREGATES, Aggregate, Node
from cep_core.decimals import BoundedDecimal
from cep_core.errors import AlgebraError, Extent, SchemaFault
from cep_core.events import Schema, shown

_NUMBERS = (int, float, BoundedDecimal)
Functions: TypeAlias = Mapping[str, ex.Function]


def pair_types(left: Node, right: Node) -> dict[int, tuple[type, ...]]:
    """Return the types of the columns that a predicate over two streams may read."""
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


def aggregated_schema(
    source: Node,
    group_by: Ordered[int],
    aggregates: Ordered[tuple[str, Aggregate]],
    functions: Functions,
    span: Extent | None,
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
    span: Extent | None,
) -> type:
    function, argument, by = aggregate.function, aggregate.argument, aggregate.by
    if function not in AGGREGATES:
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
    """Return the type of an average."""
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


def require(predicate: ex.Expression, types: ex.SideTypes, functions: Functions) -> ex.Expression:
    """Return a condition that can be compiled, with types of its literals; raise AlgebraError."""
    predicate = ex.with_literals(predicate, types, functions)
    ex.require_condition(predicate, types, functions)
    return predicate


def require_window(window: ex.Expression, functions: Functions) -> None:
    """Raise AlgebraError unless a window is a constant number of ticks."""
    ex.require_compilable(window)
    if any(isinstance(part, ex.Column | ex.Duration | ex.Missing) for part in ex.walk(window)):
        raise AlgebraError("a window is a constant", span=window.span)
    kind = ex.type_of(window, {}, functions)
    if kind is not int:
        word = "null" if kind is None else f"a {kind.__name__}"
        raise AlgebraError(f"a window is a whole number of ticks, not {word}", span=window.span)
