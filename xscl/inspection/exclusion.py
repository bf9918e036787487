"""Exclusion of matches: a query with one more condition, which a document of a match fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from xscl.errors import QueryError
from xscl.inspection.by_example import Leaf, leaves
from xscl.inspection.names_seen import step_written
from xscl.language.parser import parse, parse_block
from xscl.language.scope import rewritten, walk
from xscl.language.syntax import Block, NameTest, Query
from xscl.language.unparse import literal, unparse
from xscl.planning.compile import compile_query
from xscl.shredding.nodes.tree import DocumentTree

LONGEST = 200
"""Characters of a value that a condition names."""
MOST = 20
"""Conditions of one match; each document has the same share."""

_FIRST = ("title", "category", "author", "feed")
_LEFT_OUT = frozenset(
    [
        *("id", "feed_url", "channel_url", "raw_title", "description", "content", "summary"),
        *("published", "updated", "seen_at", "comments", "rights", "image", "duration"),
    ]
)
"""Leaves of items that say nothing about further items, or in other words than others."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A condition that no document with the value at a leaf meets, and the query with it."""

    leaf: Leaf
    value: str
    condition: str
    query: str


def exclusions(text: str, trees: Sequence[DocumentTree]) -> list[list[Exclusion]]:
    """Return the exclusions of each document of a match of a query, the most useful first.

    The documents are those of its blocks, in their order.  Raises QueryError.
    """
    query, components = parse(text), compile_query(text).components
    if len(components) != len(trees):
        return [[] for _ in trees]
    return [
        list(islice(_of_document(text, query, component, tree), max(1, MOST // len(trees))))
        for component, tree in zip(components, trees, strict=True)
    ]


def _of_document(
    text: str, query: Query, component: int, tree: DocumentTree
) -> Iterator[Exclusion]:
    block = _blocks(query)[component]
    told: dict[str, tuple[Leaf, str]] = {}
    for leaf, value in leaves(tree):
        path = _below(block, leaf)
        if path is None or leaf[-1] in _LEFT_OUT or len(value) > LONGEST:
            continue
        if not ('"' in value and "'" in value):
            told.setdefault(f"not({path} = {literal(value)})", (leaf, value))
    ranked = sorted(told.items(), key=lambda one: _rank(one[1][0]))
    for condition, (leaf, value) in ranked:
        found = _with(text, query, component, condition)
        yield Exclusion(leaf, value, condition, found)


def _rank(leaf: Leaf) -> int:
    return _FIRST.index(leaf[-1]) if leaf[-1] in _FIRST else len(_FIRST)


def _below(block: Block, leaf: Leaf) -> str | None:
    """Return the path of a leaf from the node of a block; None for one that is not below it."""
    test = block.steps[-1].test
    if block.steps[-1].attribute:
        return None
    if test == NameTest(None, None):
        at = len(block.steps) - 1
    else:
        name = step_written(block.steps[-1])
        at = leaf.index(name) if name in leaf else len(leaf)
    if at >= len(leaf):
        return None
    return "/".join((".", *leaf[at + 1 :]))


# -- The query with the condition ----------------------------------------------------------


def _with(text: str, query: Query, component: int, condition: str) -> str:
    """Return a query with a condition at the node of one block, in its form if that is possible."""
    (added,) = parse_block(f"S//x[{condition}]").steps[-1].conditions
    block = _blocks(query)[component]
    last = block.steps[-1]
    last = replace(last, conditions=(added, *last.conditions))
    changed = replace(block, steps=(*block.steps[:-1], last))
    wanted = rewritten(query, lambda one: changed if one is block else one)
    at = last.span.end
    for written in (f"[{condition}]", f"/*[{condition}]"):
        found = f"{text[:at]}{written}{text[at:]}"
        try:
            if parse(found) == wanted:
                return found
        except QueryError:
            continue  # the block is written in another way
    return unparse(wanted)


def _blocks(query: Query) -> list[Block]:
    """Return the blocks of a query from left to right."""
    return [one for one in walk(query) if isinstance(one, Block)]
