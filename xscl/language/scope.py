"""Names: which variables steps bind, and what the operands of a predicate refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from xscl.errors import QueryError
from xscl.language.faults import fault, near_miss, unsupported
from xscl.language.syntax import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Condition,
    Constant,
    Decorated,
    Exists,
    Not,
    Operand,
    Or,
    Path,
    Predicate,
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
    """What names mean between the two inputs of an operator: those that each of them binds."""

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
