"""Traversal and rewriting of trees, and the scope of variables: their steps, distinct names.

What both inputs of NEXT or FOLD bind is renamed: the left input's variable gets the suffix `_1`
(Hong 2009, section 4.2.2), in its block and in the predicates below; the operator's own predicate
calls it `$1.x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from itertools import repeat
from operator import is_
from typing import Any, TypeVar, assert_never

from xscl.errors import near_miss
from xscl.language import syntax
from xscl.language.faults import fault, unbound, unsupported

T = TypeVar("T")


class _Fields(dict[type, "tuple[str, ...] | None"]):
    """Maps a class of nodes to the names of its compared fields, any other class to None."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        names = (
            tuple(one.name for one in fields(kind) if one.compare) if is_dataclass(kind) else None
        )
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
            pending.extend(filter(None, map(getattr, repeat(one), reversed(names))))


def rewritten(node: T, change: Callable[[Any], Any]) -> T:
    """Return a tree or a tuple of trees with each node changed, inner ones first.

    A node stays the same object if `change` returns it and all inside of it unchanged.
    """
    if isinstance(node, tuple):
        parts = tuple(map(rewritten, node, repeat(change)))
        same = all(map(is_, parts, node))
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


def bound_steps(node: object) -> Iterator[syntax.Step]:
    """Yield the steps of a tree that bind a variable, in the order of the text."""
    for one in walk(node):
        if isinstance(one, syntax.Step) and one.variable is not None:
            yield one


def binds(node: object) -> bool:
    """Return True if a step of a tree binds a variable."""
    return next(bound_steps(node), None) is not None


def leaves(node: object) -> Iterator[syntax.VariablePath | syntax.DecoratedName | syntax.Constant]:
    """Yield the names and constants of predicates and operands, from left to right."""
    for one in walk(node):
        if isinstance(one, syntax.VariablePath | syntax.DecoratedName | syntax.Constant):
            yield one


def conjuncts(*formulas: object) -> list[Any]:
    """Return the formulas that hold together, each AND as its parts; None is no formula."""
    found: list[Any] = []
    for formula in formulas:
        if isinstance(formula, syntax.And):
            found += conjuncts(*formula.parts)
        elif formula is not None:
            found.append(formula)
    return found


def variables(node: syntax.Predicate | syntax.Operand) -> list[str]:
    """Return the names of the variables in `node`, each once, in order of appearance."""
    found = (leaf.variable for leaf in leaves(node) if isinstance(leaf, syntax.VariablePath))
    return list(dict.fromkeys(found))


def has_path(node: object) -> bool:
    """Return True for a path on a variable, which may select several nodes or none."""
    return isinstance(node, syntax.VariablePath) and bool(node.path.steps or node.path.text)


def here(leaf: Any) -> Any:
    """Return a variable, or a path on one, as one on the node `.`; other leaves as they are."""
    return replace(leaf, variable="") if isinstance(leaf, syntax.VariablePath) else leaf


# -- The shortest form of conditions -------------------------------------------------------


def shortest(node: T) -> T:
    """Return a condition or a block with longer paths in place of nested conditions on paths.

    `./a[./b = 'x']` is `./a/b = 'x'`, and takes a third of the memory; equal paths are one object.
    """
    return rewritten(node, _shorter)


def _shorter(node: Any) -> Any:
    match node:
        case syntax.Exists(syntax.Path((syntax.Step(conditions=(only,)) as step,), None)):
            bare = replace(step, conditions=())
            match only:
                case syntax.ValueTest(path, operator, value, None) if only.is_comparison:
                    return syntax.ValueTest(below((bare,), path), operator, value)
                case syntax.Exists(path):
                    return syntax.Exists(below((bare,), path))
                case _:
                    return node
        case syntax.Path():
            return _shared(node)
        case _:
            return node


@lru_cache(maxsize=4096)
def _shared(path: syntax.Path) -> syntax.Path:
    return path


def below(steps: tuple[syntax.Step, ...], path: syntax.Path) -> syntax.Path:
    """Return the path of some steps and, behind them, another path; equal paths are one object."""
    return _shared(syntax.Path((*steps, *path.steps), path.text))


# -- Variables -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinScope:
    """The scope of names between the two inputs of an operator: those that each of them binds.

    `aggregates` are the names of a FOLD's aggregates.
    """

    source: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    aggregates: tuple[str, ...] = ()

    def resolved(self, predicate: syntax.Predicate, *, paths: bool) -> syntax.Predicate:
        """Return a predicate with plain variables in place of decorated names (`$1.x`).

        Raises QueryError for a name that neither input binds, and for one that both bind.
        Without `paths` only variables can be compared, not paths on them.
        """

        def plain(leaf: syntax.Operand) -> syntax.Operand:
            if not paths:
                self._expect_one_value(leaf)
            match leaf:
                case syntax.VariablePath(name):
                    self.side(name, leaf.span)
                    return leaf
                case syntax.DecoratedName(0, _):
                    message, hint = "'$.' is the last row of a FOLD", "write $1. or $2."
                    raise fault(self.source, leaf.span, message, hint)
                case syntax.DecoratedName(side, name):
                    return syntax.VariablePath(self.own_name(side, name, leaf.span), span=leaf.span)
                case _:
                    return leaf

        return rewritten(predicate, plain)

    def decorated(self, leaf: syntax.Operand) -> syntax.Operand:
        """Return a name in a FOLD as `$1.x` or `$2.x` for a variable, as `$.x` for an aggregate.

        Raises QueryError for an unknown name; other leaves stay the same.
        """
        self._expect_one_value(leaf)
        match leaf:
            case syntax.VariablePath(name):
                side = 0 if name in self.aggregates else self.side(name, leaf.span)
                return syntax.DecoratedName(side, name, leaf.span)
            case syntax.DecoratedName(0, name):
                known = (*self.aggregates, *self.right)
                if name not in known:
                    message = f"'$.{name}' is neither an aggregate nor a variable on the right"
                    raise fault(self.source, leaf.span, message, near_miss(name, known))
                return leaf
            case syntax.DecoratedName(side, name):
                return replace(leaf, name=self.own_name(side, name, leaf.span))
            case _:
                return leaf

    def first(self, name: str) -> str | None:
        """Return the left input's variable for a name, perhaps with the suffix; None without it."""
        return next((known for known in (f"{name}_1", name) if known in self.left), None)

    def _expect_one_value(self, operand: syntax.Operand) -> None:
        """Raise QueryError for an operand with several values: no operator over time reads it."""
        if has_path(operand):
            what, hint = "a path on a variable", "bind it in the block: [./author->x2]"
        elif isinstance(operand, syntax.Call) and operand.function == "tokenize":
            what, hint = "tokenize(), which has several values,", "use matches(x, 'expression')"
        else:
            return
        raise unsupported(self.source, operand.span, f"{what} in an operator over time", hint)

    def own_name(self, side: int, name: str, span: syntax.Span) -> str:
        """Return the variable that `$1.name` or `$2.name` denotes; raises QueryError without one.

        `side` is 1 or 2.  In the left input the variable may have the suffix `_1`.
        """
        where, names = ("left", self.left) if side == 1 else ("right", self.right)
        for candidate in (name, f"{name}_1") if side == 1 else (name,):
            if candidate in names:
                return candidate
        raise unbound(self.source, span, f"${side}.{name}", names, f" in the {where} input")

    def side(self, name: str, span: syntax.Span) -> int:
        """Return 1 if the left input binds a name, 2 for the right; raises QueryError otherwise."""
        if name in self.right and f"{name}_1" in self.left:
            message = f"the variable {name!r} is bound on both sides"
            raise fault(self.source, span, message, f"write $1.{name} or $2.{name}")
        if name in self.left or name in self.right:
            return 1 if name in self.left else 2
        raise unbound(self.source, span, name, (*self.left, *self.right))


def distinct_names(expression: syntax.StreamExpression) -> syntax.StreamExpression:
    """Return an expression in which no name is bound by both inputs of a NEXT or FOLD."""
    match expression:
        case syntax.Block():
            return expression
        case syntax.Query(inner):
            return replace(expression, expression=distinct_names(inner))
        case syntax.Join() | syntax.Next() | syntax.Fold():
            left, right = distinct_names(expression.left), distinct_names(expression.right)
            if isinstance(expression, syntax.Next | syntax.Fold):
                names = {name: f"{name}_1" for name in _names_bound(left) & _names_bound(right)}
                left = _renamed(left, names) if names else left
            return replace(expression, left=left, right=right)
        case _:
            assert_never(expression)


def _names_bound(expression: syntax.StreamExpression) -> set[str]:
    """Return the names of the variables and aggregates that an expression binds."""
    folds = (node for node in walk(expression) if isinstance(node, syntax.Fold))
    aggregates = {name for fold in folds for name, _ in fold.aggregates}
    return aggregates | {step.variable or "" for step in bound_steps(expression)}


def _renamed(
    expression: syntax.StreamExpression, names: Mapping[str, str]
) -> syntax.StreamExpression:
    """Return an expression with other names of variables, in predicates and constructors, too."""

    def renamed(node: Any) -> Any:
        match node:
            case (
                syntax.Step(variable=str(name))
                | syntax.VariablePath(name)
                | syntax.EmbeddedPath(name)
            ):
                return replace(node, variable=names.get(name, name))
            case syntax.DecoratedName(_, name):
                return replace(node, name=names.get(name, name))
            case syntax.Fold(aggregates=aggregates):
                own = tuple((names.get(name, name), operand) for name, operand in aggregates)
                return replace(node, aggregates=own)
            case _:
                return node

    return rewritten(expression, renamed)
