"""Lark's tree: the few questions that are asked of it everywhere."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lark import Token, Tree

from xscl.language.syntax import (
    And,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Span,
    TextMatch,
)

Node: TypeAlias = "Tree[Token] | Token"


def tree_of(node: Node | None) -> Tree[Token]:
    assert isinstance(node, Tree)
    return node


def is_token(node: Node, kind: str) -> bool:
    return isinstance(node, Token) and node.type == kind


def formulas(tree: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree)]


def sign(tree: Tree[Token]) -> Span:
    """Return where the first AND, OR or NOT of a formula stands."""
    return span_of(next(child for child in tree.children if isinstance(child, Token)))


def function_name(call: Tree[Token]) -> str:
    return ":".join(child for child in call.children if isinstance(child, Token))


def calls(tree: Tree[Token]) -> bool:
    first = tree.children[0]
    return isinstance(first, Tree) and first.data == "call"


def binds(item: Path | Condition) -> bool:
    match item:
        case Path(steps) | Exists(Path(steps)):
            return any(s.variable is not None or any(map(binds, s.conditions)) for s in steps)
        case Compare(path) | TextMatch(_, path):
            return binds(path)
        case And(parts) | Or(parts):
            return any(map(binds, parts))
        case Not(part):
            return binds(part)


def span_of(node: Node) -> Span:
    """Return where a node's first and last tokens stand."""
    first, last = _edge(node, 0), _edge(node, -1)
    if first is None or last is None:
        return Span()
    return Span(first.start_pos or 0, last.end_pos or 0)


def _edge(node: Node, index: Literal[0, -1]) -> Token | None:
    """Return the first or the last token of a node."""
    if isinstance(node, Token):
        return node
    for child in node.children if index == 0 else reversed(node.children):
        found = _edge(child, index)
        if found is not None:
            return found
    return None
