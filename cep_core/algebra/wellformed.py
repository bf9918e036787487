"""Algebra from outside: whatever was built by hand is made again by the constructors.

A node can be made without the functions of `cep_core.algebra`, or come from a document; nothing
says then that its schema is what it makes, or that its columns exist.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from cep_core import algebra
from cep_core.algebra.expressions import Functions, Parameter, require_compilable, walk
from cep_core.algebra.nodes import Node, expressions_of, sources_of
from cep_core.algebra.operands import with_operands
from cep_core.errors import AlgebraError, SchemaFault
from cep_core.events import Schema, shown

MOST_OPERATORS = 10_000  # of a query; one that occurs twice counts twice
MOST_LEVELS = 150  # of operators above one another


def well_formed(node: Node, functions: Functions) -> Node:
    """Return the node as the constructors make it; raises AlgebraError if they do not."""
    _require_bounded(node)
    made: dict[int, Node] = {}  # by `id`: a node that occurs twice is made once

    def again(part: Node) -> Node:
        if id(part) not in made:
            made[id(part)] = _checked(part, with_operands(part, "Node", again), functions)
        return made[id(part)]

    try:
        return again(node)
    except (AttributeError, TypeError, ValueError) as error:
        raise AlgebraError(f"the query is not well-formed: {error}") from None


def _require_bounded(node: Node) -> None:
    """Raise AlgebraError if an input is no node, or the nodes are too many or nested too deeply."""
    found, left = 0, [(node, 1)]
    while left:
        part, depth = left.pop()
        found += 1
        if not isinstance(part, Node):
            raise AlgebraError(f"{type(part).__name__} is no operator of the algebra")
        if not isinstance(part.schema, Schema):
            raise AlgebraError(f"the schema of {type(part).__name__} is none")
        if depth > MOST_LEVELS:
            raise AlgebraError(
                f"the query is nested too deeply: {MOST_LEVELS} operators above one another are"
                " the most"
            )
        if found > MOST_OPERATORS:
            raise AlgebraError(f"the query has more than {MOST_OPERATORS} operators")
        left += [(source, depth + 1) for source in sources_of(part)]


def _checked(node: Node, over: Node, functions: Functions) -> Node:
    for part in expressions_of(node):
        require_compilable(part)
        for one in walk(part):
            if isinstance(one, Parameter):
                raise AlgebraError(f"there is no literal {one.index}: the query has no text")
    made = _remade(over, functions)
    if made.schema != node.schema:
        raise AlgebraError(
            f"{type(node).__name__} makes {made.schema}, not {node.schema}", kind=SchemaFault
        )
    return made


def _remade(node: Node, functions: Functions) -> Node:
    """Return a node as its constructor makes it from the same sources and parameters."""
    names = node.schema.names
    match node:
        case algebra.Stream(name):
            if not isinstance(name, str):
                raise AlgebraError(f"the name of a stream is a str, not {shown(name)}")
            return node
        case algebra.Select(source, predicate):
            return algebra.select(source, predicate, functions)
        case algebra.Project(source, columns):
            pairs = tuple(zip(names, columns, strict=True))
            nulls = node.schema.types
            return algebra.project(source, pairs, functions, nulls=nulls)
        case algebra.Union(left, right):
            return algebra.union(left, right)
        case algebra.Sequence(left, right, predicate, rank=rank):
            return algebra.sequence(left, right, predicate, functions, rank=rank)
        case algebra.Iterate(left, right, filter, rebind, aggregates):
            first = len(names) - len(aggregates)
            kinds = node.schema.types[first:]
            added = tuple(zip(names[first:], aggregates, kinds, strict=True))
            iterated = algebra.iterate(left, right, filter, rebind, added, functions)
            if iterated.initial != node.initial:
                message = f"the iteration begins with {iterated.initial}, not {node.initial}"
                raise AlgebraError(message)
            return replace(iterated, longest=node.longest)
        case algebra.GroupAggregate(source, group_by, aggregates, window):
            named = tuple(zip(names[len(group_by) :], aggregates, strict=True))
            made = algebra.group_aggregate(source, group_by, named, window, functions)
            return replace(made, schema=Schema(names, made.schema.types))
        case algebra.WindowJoin(left, right, predicate, window):
            return algebra.window_join(left, right, predicate, window, functions)
        case algebra.OuterJoin(left, right, predicate, lower, upper, alone, paired, moment):
            return algebra.outer_join(
                left,
                right,
                predicate,
                bounds=(lower, upper),
                alone=alone,
                functions=functions,
                paired=paired,
                moment=moment,
            )
        case algebra.PatternMatch():
            return algebra.pattern_match(
                node.inputs,
                node.components,
                node.tree,
                node.parts,
                names,
                predicate=node.predicate,
                rules=node.rules,
                functions=functions,
            )
        case _:
            assert_never(node)
