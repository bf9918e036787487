"""Traversal and rewriting of trees, and the scope of variables: their steps, distinct names.

What both inputs of NEXT or FOLD bind is renamed: the left input's variable gets the suffix `_1`
(Hong 2009, section 4.2.2), in its block and in the predicates below; the operator's own predicate
calls it `$1.x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar, assert_never

from xscl.errors import QueryError
from xscl.language.faults import fault, near_miss, unsupported
from xscl.language.syntax import (
    Block,
    Call,
    Compare,
    Constant,
    Decorated,
    Embedded,
    Exists,
    Fold,
    Join,
    Next,
    Operand,
    Path,
    Predicate,
    Query,
    Span,
    Step,
    StreamExpression,
    VariablePath,
)

T = TypeVar("T")


class _Fields(dict[type, "tuple[str, ...] | None"]):
    """The fields that the nodes of each class are compared by; None for a class without nodes."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        is_node = is_dataclass(kind) and kind is not Span
        names = tuple(one.name for one in fields(kind) if one.compare) if is_node else None
        self[kind] = names
        return names


_FIELDS = _Fields()


def walk(node: object) -> Iterator[Any]:
    """Yield the nodes of a tree or of a tuple of trees in the order of the text, outer ones first.

    Spans are no nodes.
    """
    pending: list[object] = [node]  # no nested generators: each query shape is walked many times
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            pending.extend(reversed(one))
        elif (names := _FIELDS[type(one)]) is not None:
            yield one
            pending.extend([getattr(one, name) for name in reversed(names)])


def rewritten(node: T, change: Callable[[Any], Any]) -> T:
    """Return a tree or a tuple of trees with each node changed, inner ones first.

    What `change` returns as it is stays the same object.
    """
    if isinstance(node, tuple):
        parts = tuple(map(rewritten, node, repeat(change)))
        same = all(new is old for new, old in zip(parts, node, strict=True))
        return node if same else parts  # type: ignore[return-value]  # a tuple of the same trees
    names = _FIELDS[type(node)]
    if names is None:
        return node
    changed: dict[str, Any] = {}
    for name in names:
        part = getattr(node, name)
        new = rewritten(part, change)
        if new is not part:
            changed[name] = new
    made: T = change(replace(node, **changed) if changed else node)  # type: ignore[type-var]  # a dataclass
    return made


def bound_steps(node: object) -> Iterator[Step]:
    """Yield the steps of a tree that bind a variable, in the order of the text."""
    return (one for one in walk(node) if isinstance(one, Step) and one.variable is not None)


def binds(node: object) -> bool:
    """Return True if a step of a tree binds a variable."""
    return next(bound_steps(node), None) is not None


def leaves(node: object) -> Iterator[VariablePath | Decorated | Constant]:
    """Yield the names and constants of predicates and operands, from left to right."""
    return (one for one in walk(node) if isinstance(one, VariablePath | Decorated | Constant))


def variables(node: Predicate | Operand) -> list[str]:
    """Return the variables that occur, each once, in order of appearance."""
    found = (leaf.variable for leaf in leaves(node) if isinstance(leaf, VariablePath))
    return list(dict.fromkeys(found))


def here(leaf: Any) -> Any:
    """Return a variable as the node `.`, for `rewritten`."""
    return replace(leaf, variable="") if isinstance(leaf, VariablePath) else leaf


# -- The shortest form of conditions -------------------------------------------------------


def shortest(node: T) -> T:
    """Return a condition or a block without nesting where a longer path says the same.

    `./a[./b = 'x']` is `./a/b = 'x'`, and takes a third of the memory; equal paths are one object.
    """
    return rewritten(node, _shorter)


def _shorter(node: Any) -> Any:
    match node:
        case Exists(Path((Step(conditions=(only,)) as step,), None)):
            bare = replace(step, conditions=())
            match only:
                case Compare(path, operator, value, None):
                    return Compare(below((bare,), path), operator, value)
                case Exists(path):
                    return Exists(below((bare,), path))
                case _:
                    return node
        case Path():
            return _shared(node)
        case _:
            return node


@lru_cache(maxsize=4096)
def _shared(path: Path) -> Path:
    return path


def below(steps: tuple[Step, ...], path: Path) -> Path:
    """Return the path that goes on with another one, equal ones as one object."""
    return _shared(Path((*steps, *path.steps), path.text))


# -- Variables -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinScope:
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
            if not paths:
                self.refuse_several(leaf)
            return self._plain(leaf)

        return rewritten(predicate, plain)

    def refuse_several(self, operand: Operand) -> None:
        """Raise for a function of several values, which no operator over time takes."""
        if isinstance(operand, Call) and operand.function == "tokenize":
            what = "tokenize(), which has several values, in an operator over time"
            raise unsupported(self.source, operand.span, what, "use matches(x, 'expression')")

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


def distinct_names(expression: StreamExpression, source: str) -> StreamExpression:
    """Return an expression each of whose variables has a name of its own; raises QueryError."""
    match expression:
        case Block():
            _refuse_repeated(bound_names(expression), set(), source)
            return expression
        case Query(inner):
            return replace(expression, expression=distinct_names(inner, source))
        case Join() | Next() | Fold():
            left = distinct_names(expression.left, source)
            right = distinct_names(expression.right, source)
            others, own = list(_bound(right)), {name for name, _ in _bound(left)}
            common = own.intersection(name for name, _ in others)
            if common and isinstance(expression, Next | Fold):
                left = _renamed(left, {name: f"{name}_1" for name in common})
                own = {name for name, _ in _bound(left)}
            _refuse_repeated(others, own, source)
            return replace(expression, left=left, right=right)
        case _:
            assert_never(expression)


def _refuse_repeated(bound: Iterable[tuple[str, Span]], known: set[str], source: str) -> None:
    for name, span in bound:
        if name in known:
            raise fault(source, span, f"the variable {name!r} is bound twice", "use two names")
        known.add(name)


def bound_names(block: Block) -> tuple[tuple[str, Span], ...]:
    """Return the names that a block binds, in the order of the text, with their places."""
    return tuple((step.variable or "", step.variable_span) for step in bound_steps(block.steps))


def _bound(expression: StreamExpression) -> Iterator[tuple[str, Span]]:
    """Yield the names that an expression binds, with their places; aggregates come last."""
    if isinstance(expression, Block):
        yield from bound_names(expression)
        return
    aggregates: list[tuple[str, Span]] = []
    for node in walk(expression):
        if isinstance(node, Step) and node.variable is not None:
            yield node.variable, node.variable_span
        elif isinstance(node, Fold):
            aggregates.extend((name, node.span) for name, _ in node.aggregates)
    yield from aggregates


def _renamed(expression: StreamExpression, names: Mapping[str, str]) -> StreamExpression:
    """Return an expression with other names of variables, in predicates and constructors, too."""

    def renamed(node: Any) -> Any:
        match node:
            case Step(variable=str(name)) | VariablePath(name) | Embedded(name):
                return replace(node, variable=names.get(name, name))
            case Decorated(_, name):
                return replace(node, name=names.get(name, name))
            case Fold(aggregates=aggregates):
                own = tuple((names.get(name, name), operand) for name, operand in aggregates)
                return replace(node, aggregates=own)
            case _:
                return node

    return rewritten(expression, renamed)
