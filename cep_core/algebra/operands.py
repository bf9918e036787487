"""Operands of syntax trees, found by the declared types of their fields.

Nodes, expressions and patterns are frozen dataclasses.  A field of type `X`, `X | None` or
`tuple[X, ...]` holds operands of the kind `X`; the declarations are the only list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

Tree = TypeVar("Tree")


@cache
def _fields_of(tree: Any, kind: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a class with operands of a kind, each with its declared type."""
    declared = (kind, f"{kind} | None", f"tuple[{kind}, ...]")
    return tuple((one.name, one.type) for one in fields(tree) if one.type in declared)


def _declared(tree: object, kind: str) -> Iterator[tuple[str, str, Any]]:
    """Yield name, declared type and value of the fields with operands of a kind."""
    tree_class: Any = type(tree)
    for name, declared in _fields_of(tree_class, kind):
        yield name, declared, getattr(tree, name)


def operands(tree: object, kind: str) -> Iterator[Any]:
    """Yield the direct operands of a tree, in order of the fields; ``kind`` names their type."""
    for _, declared, found in _declared(tree, kind):
        if declared.startswith("tuple"):
            yield from found
        elif found is not None or declared == kind:
            yield found


def with_operands(tree: Tree, kind: str, change: Callable[[Any], Any]) -> Tree:
    """Return a tree with its direct operands of a kind changed; itself if it has none."""
    changed: dict[str, Any] = {}
    for name, declared, found in _declared(tree, kind):
        if declared.startswith("tuple"):
            changed[name] = tuple(map(change, found))
        elif found is not None:
            changed[name] = change(found)
    return replace(tree, **changed) if changed else tree  # type: ignore[type-var]  # a dataclass
