"""Names of their own for all variables: what both inputs of NEXT or FOLD bind is renamed.

The left input's variable gets the suffix `_1` (Hong 2009, section 4.2.2), in its block and in the
predicates below; the operator's own predicate calls it `$1.x`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from xscl.language.faults import fault
from xscl.language.scope import bound_steps, with_leaves, with_operands
from xscl.language.syntax import (
    And,
    Block,
    Condition,
    Decorated,
    Element,
    Embedded,
    Exists,
    Expression,
    Fold,
    FollowedBy,
    Join,
    Next,
    Operand,
    Predicate,
    Query,
    Span,
    Step,
    VariablePath,
)

Names = Mapping[str, str]


def distinct_names(expression: Expression, source: str) -> Expression:
    """Return an expression each of whose variables has a name of its own; raises QueryError."""
    match expression:
        case Block():
            _refuse_repeated(_bound(expression), set(), source)
            return expression
        case Query(inner):
            return replace(expression, expression=distinct_names(inner, source))
        case Join() | FollowedBy() | Next() | Fold():
            left = distinct_names(expression.left, source)
            right = distinct_names(expression.right, source)
            others = dict(_bound(right))
            common = [name for name, _ in _bound(left) if name in others]
            if common and not isinstance(expression, Next | Fold):
                _refuse_repeated(_bound(right), {name for name, _ in _bound(left)}, source)
            names = {name: f"{name}_1" for name in common}
            left = _renamed(left, names) if names else left
            _refuse_repeated(_bound(right), {name for name, _ in _bound(left)}, source)
            return replace(expression, left=left, right=right)
        case _:
            assert_never(expression)


def _refuse_repeated(bound: Iterator[tuple[str, Span]], known: set[str], source: str) -> None:
    for name, span in bound:
        if name in known:
            raise fault(source, span, f"the variable {name!r} is bound twice", "use two names")
        known.add(name)


def _bound(expression: Expression) -> Iterator[tuple[str, Span]]:
    """Yield the names that an expression binds, with their places; aggregates included."""
    match expression:
        case Block(_, steps):
            for step in bound_steps(steps):
                if step.variable is not None:
                    yield step.variable, step.variable_span
        case Query(inner):
            yield from _bound(inner)
        case Join() | FollowedBy() | Next() | Fold():
            yield from _bound(expression.left)
            yield from _bound(expression.right)
            if isinstance(expression, Fold):
                yield from ((name, expression.span) for name, _ in expression.aggregates)
        case _:
            assert_never(expression)


def _renamed(expression: Expression, names: Names) -> Expression:
    match expression:
        case Block(_, steps):
            return replace(expression, steps=_steps(steps, names))
        case Query(inner, select):
            made = None if select is None else _element(select, names)
            return replace(expression, expression=_renamed(inner, names), select=made)
        case Join() | FollowedBy() | Next() | Fold():
            left, right = _renamed(expression.left, names), _renamed(expression.right, names)
            changed = replace(
                expression, left=left, right=right, predicate=_predicate(expression, names)
            )
            if not isinstance(changed, Fold):
                return changed
            again = changed.again and with_operands(changed.again, lambda o: _operand(o, names))
            aggregates = tuple(
                (names.get(name, name), _operand(operand, names))
                for name, operand in changed.aggregates
            )
            return replace(changed, again=again, aggregates=aggregates)
        case _:
            assert_never(expression)


def _predicate(expression: Join | FollowedBy | Next | Fold, names: Names) -> Predicate | None:
    predicate = expression.predicate
    return predicate and with_operands(predicate, lambda operand: _operand(operand, names))


def _operand(operand: Operand, names: Names) -> Operand:
    return with_leaves(operand, lambda leaf: _leaf(leaf, names))


def _leaf(leaf: Operand, names: Names) -> Operand:
    match leaf:
        case VariablePath(variable):
            return replace(leaf, variable=names.get(variable, variable))
        case Decorated(_, name):
            return replace(leaf, name=names.get(name, name))
        case _:
            return leaf


def _steps(steps: tuple[Step, ...], names: Names) -> tuple[Step, ...]:
    return tuple(
        replace(
            step,
            variable=names.get(step.variable, step.variable) if step.variable else None,
            conditions=tuple(_condition(condition, names) for condition in step.conditions),
        )
        for step in steps
    )


def _condition(condition: Condition, names: Names) -> Condition:
    match condition:
        case Exists(path):
            return Exists(replace(path, steps=_steps(path.steps, names)))
        case And(parts):
            return replace(condition, parts=tuple(_condition(part, names) for part in parts))
        case _:
            return condition


def _element(element: Element, names: Names) -> Element:
    def part(one: str | Embedded | Element) -> str | Embedded | Element:
        match one:
            case Embedded(variable):
                return replace(one, variable=names.get(variable, variable))
            case Element():
                return _element(one, names)
            case _:
                return one

    attributes = tuple(
        (name, tuple(part(value) for value in values)) for name, values in element.attributes
    )
    return replace(
        element,
        attributes=attributes,  # type: ignore[arg-type]  # texts stay texts
        children=tuple(map(part, element.children)),
    )
