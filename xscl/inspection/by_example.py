"""Query by example: the values that two documents share, and the query that asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from xscl.inspection.vocabulary import LONGEST, leaf_value, steps_of
from xscl.language.unparse import literal
from xscl.shredding.nodes.tree import DocumentTree, string_value

MOST = 40
"""Maximum number of shared values, the best first."""

Leaf = tuple[str, ...]
"""The path of a leaf: names from the root, as a query writes them."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Leaves of two documents with the same value, in any capitals unless it `is_exact`."""

    left: Leaf
    right: Leaf
    value: str
    is_exact: bool = True

    @property
    def key(self) -> str:
        """Name the pair of leaves for a form."""
        return f"{'/'.join(self.left)} = {'/'.join(self.right)}"


@dataclass(frozen=True, slots=True)
class Side:
    """A document of an example: the stream and the name of the root element."""

    stream: str
    root: str


def shared(left: DocumentTree, right: DocumentTree) -> list[Shared]:
    """Return the values that both documents have, same names and long values first."""
    by_text: dict[str, list[tuple[Leaf, str]]] = {}
    for path, value in leaves(right):
        by_text.setdefault(value.lower(), []).append((path, value))
    found: dict[tuple[Leaf, Leaf], Shared] = {}
    for path, value in leaves(left):
        for other, text in by_text.get(value.lower(), ()):
            pair = Shared(path, other, value, value == text)
            known = found.setdefault((path, other), pair)
            if pair.is_exact and not known.is_exact:
                found[path, other] = pair
    return sorted(found.values(), key=_rank)[:MOST]


def differing(left: DocumentTree, right: DocumentTree) -> list[Leaf]:
    """Return the leaves that both documents have once and with different values."""
    sides = [_single(tree) for tree in (left, right)]
    return [
        path for path, value in sides[0].items() if path in sides[1] and sides[1][path] != value
    ][:MOST]


def query_of(
    left: Side,
    right: Side,
    pairs: Sequence[Shared],
    others: Sequence[Leaf] = (),
    *,
    window: str,
    is_ordered: bool = True,
) -> str:
    """Return the query for documents that share some leaves and differ in others.

    `window` is a duration.  Unless it `is_ordered`, either document may come first.
    """
    names = _Names()
    blocks = [names.new(side.root) for side in (left, right)]
    bound: tuple[list[str], list[str]] = [], []

    def variable(side: int, leaf: Leaf) -> str:
        """Return a new variable, as another pair may need another node of that path."""
        if len(leaf) == 1:
            return blocks[side]
        name = names.new(leaf[-1])
        bound[side].append(f"[./{'/'.join(leaf[1:])}->{name}]")
        return name

    tests = []
    for pair in pairs:
        sides = variable(0, pair.left), variable(1, pair.right)
        one, other = sides if pair.is_exact else (f"lower-case({side})" for side in sides)
        tests.append(f"{one} = {other}")
    tests += [f"{variable(0, leaf)} != {variable(1, leaf)}" for leaf in others]
    operator = "FOLLOWED BY" if is_ordered else "JOIN"
    lines = [
        f"{left.stream}//{left.root}->{blocks[0]}{''.join(bound[0])}",
        f"  {operator}{{{' AND '.join(tests)}, {window}}}",
        f"{right.stream}//{right.root}->{blocks[1]}{''.join(bound[1])}",
    ]
    return "\n".join(lines)


def query_for(side: Side, leaf: Leaf, value: str) -> str:
    """Return the query for documents with a value at a leaf."""
    name = _Names().new(side.root)
    if len(value) > LONGEST or ('"' in value and "'" in value):
        return f"{side.stream}//{side.root}->{name}{_within(leaf)}"
    test = "." if len(leaf) == 1 else f"./{'/'.join(leaf[1:])}"
    return f"{side.stream}//{side.root}->{name}[{test} = {literal(value)}]"


def _within(leaf: Leaf) -> str:
    return f"[./{'/'.join(leaf[1:])}]" if len(leaf) > 1 else ""


class _Names:
    """The variables of a query: names of nodes, with a number where one is taken."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, name: str) -> str:
        """Return a free variable for a node of that name."""
        plain = re.sub(r"\W", "_", name.rpartition(":")[2].removeprefix("@"))
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        numbered = (f"{plain}{number}" for number in count(1))
        free = next(one for one in numbered if one not in self._used)
        self._used.add(free)
        return free


def leaves(tree: DocumentTree) -> Iterator[tuple[Leaf, str]]:
    """Yield the paths and values of leaves, without empty ones."""
    for path, item in zip(steps_of(tree), tree.items, strict=True):
        if leaf_value(item):
            yield path, string_value(item)


def _single(tree: DocumentTree) -> dict[Leaf, str]:
    """Return the values of leaves that occur once."""
    values: dict[Leaf, list[str]] = {}
    for path, value in leaves(tree):
        values.setdefault(path, []).append(value)
    return {path: found[0] for path, found in values.items() if len(found) == 1}


def _rank(pair: Shared) -> tuple[bool, bool, int]:
    return pair.left[-1] != pair.right[-1], not pair.is_exact, -min(len(pair.value), LONGEST)
