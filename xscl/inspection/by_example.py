"""Queries by example: for documents that share values, and queries that exclude a match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from templates.model.join_graph import SYMMETRIC_JOIN
from xscl.errors import QueryError
from xscl.inspection.vocabulary import LONGEST, leaf_value, step_written, steps_of
from xscl.language.functions import FUNCTIONS
from xscl.language.parser import parse, parse_block
from xscl.language.scope import rewritten, walk
from xscl.language.syntax import Block, Join, NameTest, Query
from xscl.language.unparse import literal, unparse
from xscl.planning.compile import compile_query
from xscl.shredding.nodes import DocumentTree, string_value

MOST = 40
"""Maximum number of shared values, the best first."""
LEAVES = 300
"""Leaves of a document that are compared, the first ones: each may share its value with all."""

NEAR, FEWEST_WORDS = 0.6, 3
"""The Jaccard coefficient above which texts are nearly the same, and the least number of words."""
LONGEST_COMPARED = 1_000
"""Characters at the beginning of a text that are compared for that."""

Leaf = tuple[str, ...]
"""The path of a leaf: names from the root, as a query writes them."""


@dataclass(frozen=True, slots=True)
class SharedValue:
    """Leaves of two documents with the same value; the case may differ unless it `is_exact`.

    Values that are `nearly` the same share most of their words; `value` is the left one.
    """

    left: Leaf
    right: Leaf
    value: str
    is_exact: bool = True
    nearly: bool = False

    @property
    def key(self) -> str:
        """The paths of both leaves as one text: the name of a choice in a form of the page."""
        return f"{'/'.join(self.left)} = {'/'.join(self.right)}"


@dataclass(frozen=True, slots=True)
class ExampleSide:
    """A document of an example: the stream and the name of the root element."""

    stream: str
    root: str


def shared(left: DocumentTree, right: DocumentTree) -> list[SharedValue]:
    """Return the values that both documents have, at most `MOST`.

    Pairs of leaves with the same name come first; among equals exact and long values do.
    """
    by_text: dict[str, list[tuple[Leaf, str]]] = {}
    for path, value in leaves(right):
        by_text.setdefault(value.lower(), []).append((path, value))
    found: dict[tuple[Leaf, Leaf], SharedValue] = {}
    for path, value in leaves(left):
        for other, text in by_text.get(value.lower(), ()):
            pair = SharedValue(path, other, value, value == text)
            known = found.setdefault((path, other), pair)
            if pair.is_exact and not known.is_exact:
                found[path, other] = pair
    near = (
        SharedValue(path, path, one, is_exact=False, nearly=True)
        for path, one, other in _single_in_both(left, right)
        if (path, path) not in found and _is_near(one, other)
    )
    return sorted((*found.values(), *near), key=_rank)[:MOST]


def _is_near(one: str, other: str) -> bool:
    """Return True if two texts of several words share most of them."""
    words = [FUNCTIONS["tokens"].call(text[:LONGEST_COMPARED]) for text in (one, other)]
    if min(len(text.split()) for text in words) < FEWEST_WORDS:
        return False
    return bool(FUNCTIONS["jaccard"].call(*words) > NEAR)


def differing(left: DocumentTree, right: DocumentTree) -> list[Leaf]:
    """Return the leaves that both documents have once and with different values."""
    return [path for path, one, other in _single_in_both(left, right) if one != other][:MOST]


def _single_in_both(left: DocumentTree, right: DocumentTree) -> Iterator[tuple[Leaf, str, str]]:
    """Yield the leaves that both documents have once, with both values."""
    others = _single(right)
    for path, value in _single(left).items():
        if path in others:
            yield path, value, others[path]


def query_of(
    left: ExampleSide,
    right: ExampleSide,
    pairs: Sequence[SharedValue],
    others: Sequence[Leaf] = (),
    *,
    window: str,
    is_ordered: bool = True,
) -> str:
    """Return the query for documents with equal values at `pairs`, and different ones at `others`.

    `window` is a duration, such as `3 d`.  Unless it `is_ordered`, either document may come first.
    """
    names = _Names()
    blocks = [names.new(side.root) for side in (left, right)]
    bound: tuple[list[str], list[str]] = [], []

    def variable(side: int, leaf: Leaf) -> str:
        """Return the variable of a leaf: the block's for the root, else a new one that it binds.

        Equal leaves get different variables, as another pair may need another node of the path.
        """
        if len(leaf) == 1:
            return blocks[side]
        name = names.new(leaf[-1])
        bound[side].append(f"[./{'/'.join(leaf[1:])}->{name}]")
        return name

    tests = []
    for pair in pairs:
        sides = variable(0, pair.left), variable(1, pair.right)
        if pair.nearly:
            compared = ", ".join(f"tokens({side})" for side in sides)
            tests.append(f"jaccard({compared}) > {NEAR}")
            continue
        one, other = sides if pair.is_exact else (f"lower-case({side})" for side in sides)
        tests.append(f"{one} = {other}")
    tests += [f"{variable(0, leaf)} != {variable(1, leaf)}" for leaf in others]
    is_same = left == right and all(pair.left == pair.right for pair in pairs)
    either = "SYMMETRIC JOIN" if is_same else "JOIN"
    operator = "FOLLOWED BY" if is_ordered else either
    lines = [
        f"{left.stream}//{left.root}->{blocks[0]}{''.join(bound[0])}",
        f"  {operator}{{{' AND '.join(tests)}, {window}}}",
        f"{right.stream}//{right.root}->{blocks[1]}{''.join(bound[1])}",
    ]
    return "\n".join(lines)


def query_for(side: ExampleSide, leaf: Leaf, value: str) -> str:
    """Return the query for documents with a value at a leaf."""
    name = _Names().new(side.root)
    if len(value) > LONGEST or ('"' in value and "'" in value):
        return f"{side.stream}//{side.root}->{name}{_within(leaf)}"
    test = "." if len(leaf) == 1 else f"./{'/'.join(leaf[1:])}"
    return f"{side.stream}//{side.root}->{name}[{test} = {literal(value)}]"


def _within(leaf: Leaf) -> str:
    return f"[./{'/'.join(leaf[1:])}]" if len(leaf) > 1 else ""


class _Names:
    """Makes the variables of a query: a node's name and a number, such as `title1`."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, name: str) -> str:
        """Return a variable that is not used yet for a node with this name."""
        plain = re.sub(r"\W", "_", name.rpartition(":")[2].removeprefix("@"))
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        numbered = (f"{plain}{number}" for number in count(1))
        free = next(one for one in numbered if one not in self._used)
        self._used.add(free)
        return free


def leaves(tree: DocumentTree) -> Iterator[tuple[Leaf, str]]:
    """Return the paths and values of the first `LEAVES` leaves, without empty ones."""
    nodes = zip(steps_of(tree), tree.items, strict=True)
    filled = ((path, string_value(item)) for path, item in nodes if leaf_value(item))
    return islice(filled, LEAVES)


def _single(tree: DocumentTree) -> dict[Leaf, str]:
    """Return the values of those leaves of a document that occur once, by path."""
    values: dict[Leaf, list[str]] = {}
    for path, value in leaves(tree):
        values.setdefault(path, []).append(value)
    return {path: found[0] for path, found in values.items() if len(found) == 1}


def _rank(pair: SharedValue) -> tuple[bool, bool, bool, int]:
    length = -min(len(pair.value), LONGEST)
    return pair.left[-1] != pair.right[-1], pair.nearly, not pair.is_exact, length


# -- Exclusion of a match --------------------------------------------------------------------

# An exclusion is the query with one more condition, which a document of the match fails.

LONGEST_VALUE = 200
"""Characters of a value that a condition names."""
MOST_EXCLUSIONS = 20
"""Conditions of one match; each document has the same share."""

_FIRST = ("title", "category", "author", "feed")
_LEFT_OUT = frozenset(
    [
        *("id", "feed_url", "channel_url", "raw_title", "description", "content", "summary"),
        *("published", "updated", "seen_at", "comments", "rights", "image", "duration"),
    ]
)
"""Leaves of items that are not offered: they say nothing about further items, or repeat others."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A condition that excludes documents with a value at a leaf, and the query with it added."""

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
    share = max(1, MOST_EXCLUSIONS // len(trees))
    return [
        list(islice(_of_document(text, query, component, tree), share))
        for component, tree in zip(components, trees, strict=True)
    ]


def _of_document(
    text: str, query: Query, component: int, tree: DocumentTree
) -> Iterator[Exclusion]:
    block = _blocks(query)[component]
    told: dict[str, tuple[Leaf, str]] = {}
    for leaf, value in leaves(tree):
        path = _below(block, leaf)
        if path is None or leaf[-1] in _LEFT_OUT or len(value) > LONGEST_VALUE:
            continue
        if not ('"' in value and "'" in value):
            told.setdefault(f"not({path} = {literal(value)})", (leaf, value))
    ranked = sorted(told.items(), key=lambda one: _usefulness(one[1][0]))
    for condition, (leaf, value) in ranked:
        found = _with(text, query, component, condition)
        yield Exclusion(leaf, value, condition, found)


def _usefulness(leaf: Leaf) -> int:
    return _FIRST.index(leaf[-1]) if leaf[-1] in _FIRST else len(_FIRST)


def _below(block: Block, leaf: Leaf) -> str | None:
    """Return the path from the last step of a block to a leaf; None for a leaf not below it."""
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
    """Return a query with one more condition at a block; the rest of its text stays if possible.

    Both blocks of a symmetric join get the condition, as they are equal.
    """
    (added,) = parse_block(f"S//x[{condition}]").steps[-1].conditions
    blocks = _exchangeable(query, _blocks(query)[component])

    def changed(node: Any) -> Any:
        if not any(node is block for block in blocks):
            return node
        last = node.steps[-1]
        last = replace(last, conditions=(added, *last.conditions))
        return replace(node, steps=(*node.steps[:-1], last))

    wanted = rewritten(query, changed)
    for written in (f"[{condition}]", f"/*[{condition}]"):
        found = text
        for at in sorted((block.steps[-1].span.end for block in blocks), reverse=True):
            found = f"{found[:at]}{written}{found[at:]}"
        try:
            if parse(found) == wanted:
                return found
        except QueryError:
            continue  # with brackets written in this way it is no query
    return unparse(wanted)


def _exchangeable(query: Query, block: Block) -> list[Block]:
    """Return the blocks that get the condition of a block: both of a symmetric join."""
    for node in walk(query):
        if (
            isinstance(node, Join)
            and node.operator is SYMMETRIC_JOIN
            and (node.left is block or node.right is block)
        ):
            return [side for side in (node.left, node.right) if isinstance(side, Block)]
    return [block]


def _blocks(query: Query) -> list[Block]:
    """Return the blocks of a query from left to right."""
    return [node for node in walk(query) if isinstance(node, Block)]
