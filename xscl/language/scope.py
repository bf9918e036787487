"""Scope of variables: which steps bind them, which operands refer to them, and distinct names.

What both inputs of NEXT or FOLD bind is renamed: the left input's variable gets the suffix `_1`
(Hong 2009, section 4.2.2), in its block and in the predicates below; the operator's own predicate
calls it `$1.x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from xscl.errors import QueryError
from xscl.language.faults import fault, near_miss, unsupported
from xscl.language.syntax import (
    And,
    Arithmetic,
    Block,
    Call,
    Comparison,
    Condition,
    Constant,
    Decorated,
    Element,
    Embedded,
    Exists,
    Expression,
    Fold,
    FollowedBy,
    Join,
    Next,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
    Query,
    Span,
    Step,
    VariablePath,
)


def bound_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps of a path and of the branches that may bind, in order."""
    for step in steps:
        yield step
        for condition in step.conditions:
            yield from _condition_steps(condition)


def _condition_steps(condition: Condition) -> Iterator[Step]:
    match condition:
        case Exists(path):
            yield from bound_steps(path.steps)
        case And(parts):
            for part in parts:
                yield from _condition_steps(part)
        case _:
            return


def with_operands(predicate: Predicate, change: Callable[[Operand], Operand]) -> Predicate:
    """Return a predicate with its operands changed."""
    match predicate:
        case And(parts):
            return replace(predicate, parts=tuple(with_operands(p, change) for p in parts))
        case Or(parts):
            return replace(predicate, parts=tuple(with_operands(p, change) for p in parts))
        case Not(part):
            return replace(predicate, part=with_operands(part, change))
        case Comparison(_, left, right):
            return replace(predicate, left=change(left), right=change(right))
        case Call(_, arguments):
            return replace(predicate, arguments=tuple(map(change, arguments)))
        case _:
            assert_never(predicate)


def with_leaves(operand: Operand, change: Callable[[Operand], Operand]) -> Operand:
    """Return an operand with the names and constants in it changed."""
    match operand:
        case VariablePath() | Decorated() | Constant():
            return change(operand)
        case Call(_, arguments):
            return replace(operand, arguments=tuple(with_leaves(a, change) for a in arguments))
        case Arithmetic(_, left, right):
            return replace(
                operand, left=with_leaves(left, change), right=with_leaves(right, change)
            )
        case _:
            assert_never(operand)


def leaves(node: Predicate | Operand) -> Iterator[VariablePath | Decorated | Constant]:
    """Yield the names and constants of a predicate or an operand, from left to right."""
    match node:
        case VariablePath() | Decorated() | Constant():
            yield node
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            yield from leaves(left)
            yield from leaves(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from leaves(argument)
        case _:
            assert_never(node)


def variables(node: Predicate | Operand) -> list[str]:
    """Return the variables that occur, each once, in order of appearance."""
    found = (leaf.variable for leaf in leaves(node) if isinstance(leaf, VariablePath))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of names between the two inputs of an operator: those that each of them binds."""

    source: str
    left: tuple[str, ...]
    right: tuple[str, ...]

    def resolved(self, predicate: Predicate, *, paths: bool) -> Predicate:
        """Return a predicate in which variables stand by their own names only.

        Without `paths` only variables can be compared, not paths on them.
        """

        def plain(leaf: Operand) -> Operand:
            if isinstance(leaf, VariablePath) and leaf.path != Path() and not paths:
                raise self.unsupported_path(leaf.span)
            return self._plain(leaf)

        return with_operands(predicate, lambda operand: with_leaves(operand, plain))

    def unsupported_path(self, span: Span) -> QueryError:
        """Return the error for a path on a variable in an operator over time."""
        what = "a path on a variable in an operator over time"
        return unsupported(self.source, span, what, "bind it in the block: [./author->x2]")

    def _plain(self, leaf: Operand) -> Operand:
        match leaf:
            case VariablePath(name):
                self.side(name, leaf.span)
                return leaf
            case Decorated(0, _):
                raise fault(
                    self.source, leaf.span, "'$.' is the last row of a FOLD", "write $1. or $2."
                )
            case Decorated(side, name):
                return VariablePath(self.own_name(side, name, leaf.span), span=leaf.span)
            case _:
                return leaf

    def own_name(self, side: int, name: str, span: Span) -> str:
        """Return the name of a variable of the left (1) or right (2) input."""
        names = self.left if side == 1 else self.right
        for candidate in (name, f"{name}_1") if side == 1 else (name,):
            if candidate in names:
                return candidate
        where = "left" if side == 1 else "right"
        raise self._unbound(f"${side}.{name}", span, names, f" in the {where} input")

    def side(self, name: str, span: Span) -> int:
        """Return which input binds a name: 1 or 2."""
        if name in self.right and f"{name}_1" in self.left:
            raise fault(
                self.source,
                span,
                f"the variable {name!r} is bound on both sides",
                f"write $1.{name} or $2.{name}",
            )
        if name in self.left or name in self.right:
            return 1 if name in self.left else 2
        raise self._unbound(name, span, (*self.left, *self.right))

    def _unbound(self, name: str, span: Span, known: Iterable[str], where: str = "") -> QueryError:
        hint = near_miss(name.rpartition(".")[2], known)
        return fault(self.source, span, f"the variable {name!r} is not bound{where}", hint)


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
