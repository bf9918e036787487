"""Expressions and operators in words, for `explain` and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from cep_core.algebra import (
    Aggregate,
    InstanceAggregate,
    Iterate,
    Node,
    Project,
    Select,
    Stream,
    Union,
    WindowAggregate,
    WindowJoin,
)
from cep_core.algebra import Sequence as SequenceNode
from cep_core.expressions import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
    Missing,
    Negative,
    Not,
    Or,
    Parameter,
)

Names = Sequence[str]


class Words:
    """Writes expressions: columns by the names of each side, parameters by their values."""

    def __init__(self, literals: Sequence[Any], older: Names, newer: Names, paired: bool) -> None:
        self._literals = literals
        self._names = {1: older, 2: newer}
        self._paired = paired

    def __call__(self, node: Expression) -> str:
        """Return an expression in words."""
        match node:
            case Column(side, index):
                names = self._names[side]
                name = names[index] if index < len(names) else f"#{index}"
                return f"${side}.{name}" if self._paired and name[0] != "$" else name
            case Constant(value):
                return _value(value)
            case Parameter(index):
                known = index < len(self._literals)
                return _value(self._literals[index]) if known else f"?{index}"
            case Duration():
                return "DUR"
            case Missing():
                return "MISSING"
            case Negative(operand):
                return f"-{self._inner(operand)}"
            case Arithmetic(operator, left, right) | Compare(operator, left, right):
                return f"{self._inner(left)} {operator} {self._inner(right)}"
            case Call(function, arguments):
                return f"{function}({', '.join(map(self, arguments))})"
            case And(items):
                return " AND ".join(map(self._inner, items)) or "TRUE"
            case Or(items):
                return " OR ".join(map(self._inner, items)) or "FALSE"
            case Not(item):
                return f"NOT {self._inner(item)}"
            case _:
                assert_never(node)

    def _inner(self, node: Expression) -> str:
        compound = isinstance(node, And | Or | Arithmetic)
        return f"({self(node)})" if compound else self(node)


def operator_in_words(node: Node, literals: Sequence[Any]) -> str:
    """Return an operator of the algebra on one line, without its inputs."""
    match node:
        case Stream(name):
            return name
        case Select(source, predicate):
            return f"FILTER{{{_unary(source, literals)(predicate)}}}"
        case Project(source, columns, schema):
            say = _unary(source, literals)
            pairs = zip(schema.names, map(say, columns), strict=True)
            return "SELECT " + ", ".join(
                name if name == text else f"{text} AS {name}" for name, text in pairs
            )
        case Union():
            return "UNION"
        case SequenceNode(left, right, predicate):
            return f"NEXT{{{_binary(left, right, literals)(predicate)}}}"
        case Iterate():
            return _iterate(node, literals)
        case InstanceAggregate(source, group_by, aggregates, schema):
            return f"{_aggregates(source, group_by, aggregates, literals)} AT INSTANT"
        case WindowAggregate(source, group_by, aggregates, window, schema):
            ticks = _unary(source, literals)(window)
            return f"{_aggregates(source, group_by, aggregates, literals)} WINDOW {ticks}"
        case WindowJoin(left, right, predicate, window):
            say = _binary(left, right, literals)
            return f"JOIN{{{say(predicate)}, {say(window)}}}"
        case _:
            assert_never(node)


def _iterate(node: Iterate, literals: Sequence[Any]) -> str:
    later = node.schema.names[len(node.left.schema) :]
    shown = [*(f"$1.{name}" for name in node.left.schema.names), *(f"$.{name}" for name in later)]
    say = Words(literals, shown, node.right.schema.names, True)
    names = node.schema.names[len(node.schema.names) - len(node.aggregates) :]
    pairs = zip(node.aggregates, names, strict=True)
    parts = [say(node.filter), say(node.rebind), *[f"{say(one)} AS {name}" for one, name in pairs]]
    return f"FOLD{{{', '.join(parts)}}}"


def _aggregates(
    source: Node, group_by: Sequence[int], aggregates: Sequence[Aggregate], literals: Sequence[Any]
) -> str:
    say = _unary(source, literals)
    texts = []
    for one in aggregates:
        arguments = [say(part) for part in (one.argument, one.by) if part is not None]
        texts.append(f"{one.function}({', '.join(arguments) or '*'})")
    groups = [source.schema.names[column] for column in group_by]
    return ", ".join(texts) + (f" GROUP BY {', '.join(groups)}" if groups else "")


def _unary(source: Node, literals: Sequence[Any]) -> Words:
    return Words(literals, (), source.schema.names, False)


def _binary(left: Node, right: Node, literals: Sequence[Any]) -> Words:
    return Words(literals, left.schema.names, right.schema.names, True)


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    return f"'{value}'" if isinstance(value, str) else str(value)
