"""Operands of syntax trees, found by the declared types of their fields.

Nodes, expressions and patterns are frozen dataclasses.  A field of type `X`, `X | None` or
`tuple[X, ...]` holds operands of the kind `X`; the declarations are the only list of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from operator import is_not
from typing import Any, NamedTuple, TypeVar

Tree = TypeVar("Tree")


class _Field(NamedTuple):
    """A field of a dataclass that holds operands.

    ``several``: a tuple of them; ``optional``: one of them or None; neither: one of them.
    """

    name: str
    several: bool
    optional: bool


@cache
def _fields_of(tree: Any, kind: str) -> tuple[_Field, ...]:
    """Return the fields of a class of nodes that are annotated as operands of ``kind``.

    These are fields of that kind, optional ones, and tuples of it.
    """
    several, optional = f"tuple[{kind}, ...]", f"{kind} | None"
    return tuple(
        _Field(field.name, field.type == several, field.type == optional)
        for field in fields(tree)
        if field.type in (kind, several, optional)
    )


def operands(tree: Any, kind: str) -> list[Any]:
    """Return the direct operands of a tree, in order of the fields; ``kind`` names their type."""
    tree_class: Any = type(tree)
    found: list[Any] = []
    for name, several, optional in _fields_of(tree_class, kind):
        operand = getattr(tree, name)
        if several:
            found += operand
        elif operand is not None or not optional:
            found.append(operand)
    return found


def with_operands(tree: Tree, kind: str, change: Callable[[Any], Any]) -> Tree:
    """Return a tree with ``change`` applied to its direct operands of a kind.

    If no operand changes it is the same object.
    """
    tree_class: Any = type(tree)
    changed: dict[str, Any] = {}
    for name, several, _ in _fields_of(tree_class, kind):
        operand = getattr(tree, name)
        if several:
            made: Any = tuple(map(change, operand))
            if any(map(is_not, made, operand)):
                changed[name] = made
        elif operand is not None and (made := change(operand)) is not operand:
            changed[name] = made
    return replace(tree, **changed) if changed else tree  # type: ignore[type-var]  # a dataclass
