"""The structure of a document without its texts: names and nesting, as numbers.

Nodes are numbered as in `xscl.shredding.nodes`.  The items of a feed have few
structures; results that follow from the structure alone are computed once for
each (`xscl.shredding.batch.shape`).

Subtrees are the equivalence classes of nodes under conditions on structure.  These conditions test
existence below, not number or order.  Nodes of one name with the same kinds of children agree in
all of them (forward bisimulation, Kaushik and others 2002).  So documents of different structure
share most subtrees: an auction of a hundred nodes has four or five new ones.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple, assert_never

from lxml import etree

from xscl.language import syntax
from xscl.shredding.conditions.atoms import QuestionKind
from xscl.shredding.nodes import Key, Steps, Symbol, keys_of


class Subtree:
    """A node's name and the subtrees of its children and attributes, each once."""

    __slots__ = ("_below", "_names", "children", "symbol")

    def __init__(self, symbol: Symbol, children: frozenset[Subtree]) -> None:
        self.symbol = symbol
        self.children = children
        self._names: frozenset[Key] | None = None
        self._below: frozenset[Key] | None = None

    @property
    def names(self) -> frozenset[Key]:
        """The keys of the name tests that some child or attribute passes."""
        if self._names is None:
            symbols = {child.symbol for child in self.children}
            self._names = frozenset(key for symbol in symbols for key in keys_of(symbol))
        return self._names

    @property
    def below(self) -> frozenset[Key]:
        """The keys of the name tests that some node below passes."""
        if self._below is None:
            self._below = self.names.union(*[child.below for child in self.children])
        return self._below

    def answer(self, kind: QuestionKind) -> frozenset[Key]:
        """Return the answer to a question about names, of the kind "child" or "below"."""
        return self.names if kind == "child" else self.below

    def holds(self, condition: syntax.Condition) -> bool:
        """Return True if a condition on the structure (`is_structural`) holds at the node."""
        match condition:
            case syntax.Exists(path):
                return bool(self._select(path))
            case syntax.And(parts):
                return all(map(self.holds, parts))
            case syntax.Or(parts):
                return any(map(self.holds, parts))
            case syntax.Not(part):
                return not self.holds(part)
            case syntax.ValueTest() | syntax.Residual():
                raise AssertionError("a condition on the structure asks for no values")
            case _:
                assert_never(condition)

    def _select(self, path: syntax.Path) -> Set[Subtree]:
        some: Set[Subtree] = {self}
        for step in path.steps:
            some = {found for one in some for found in one._step(step)}
        return some

    def _step(self, step: syntax.Step) -> Set[Subtree]:
        key = step.key
        if key not in (self.below if step.descendant else self.names):
            return frozenset()
        found = {
            child
            for child in self.children
            if key in keys_of(child.symbol) and all(map(child.holds, step.conditions))
        }
        if step.descendant:
            found.update(*[child._step(step) for child in self.children])
        return found


class Subtrees(dict[tuple[Symbol, frozenset[Subtree]], Subtree]):
    """Subtrees by name and children: equal ones are one object."""

    def __missing__(self, key: tuple[Symbol, frozenset[Subtree]]) -> Subtree:
        made = self[key] = Subtree(*key)
        return made


def is_structural(condition: syntax.Condition) -> bool:
    """Return True if a condition tests the structure alone."""
    match condition:
        case syntax.Exists(path):
            return path.text is None and all(
                is_structural(inner) for step in path.steps for inner in step.conditions
            )
        case syntax.And(parts) | syntax.Or(parts):
            return all(map(is_structural, parts))
        case syntax.Not(part):
            return is_structural(part)
        case syntax.ValueTest() | syntax.Residual():
            return False
        case _:
            assert_never(condition)


class Skeleton(NamedTuple):
    """The structure of a document as lxml yields it; equal skeletons mean equal structures.

    For each element, comment and processing instruction in document order: its
    tag and the number of its children.  `names` has, for each with attributes,
    its place in that order and their names.
    """

    tags: tuple[Any, ...]
    lengths: tuple[int, ...]
    names: tuple[tuple[int, tuple[str, ...]], ...]


def skeleton(nodes: Sequence[etree._Element]) -> Skeleton:
    """Return the skeleton of a document, given its elements, comments and instructions."""
    names: list[Any] = [node.keys() for node in nodes]
    return Skeleton(
        tuple([node.tag for node in nodes]),
        tuple(map(len, nodes)),
        tuple([(place, tuple(some)) for place, some in enumerate(names) if some]),
    )


class Structure:
    """The nodes of a document: names, parents, and where the subtree of each ends."""

    __slots__ = (*("_children", "_known", "_subtrees", "ends", "parents", "places", "symbols"),)

    def __init__(self, skeleton: Skeleton, subtrees: Subtrees) -> None:
        self.symbols: list[Symbol] = []
        self.parents: list[int] = []
        # by node: (index of the element in the skeleton, name of the attribute or None)
        self.places: list[tuple[int, str | None]] = []
        self.ends: list[int] = []
        self._number(skeleton)
        self._children: list[list[int]] | None = None
        self._known = subtrees
        self._subtrees: list[Subtree] | None = None

    def _number(self, skeleton: Skeleton) -> None:
        symbols, parents, places, ends = self.symbols, self.parents, self.places, self.ends
        # (number, count of children still to come) of the open elements but the innermost
        above: list[tuple[int, int]] = []
        parent, left = -1, -1  # those of the innermost open element
        attributes = dict(skeleton.names)
        elements = zip(skeleton.tags, skeleton.lengths, strict=True)
        for place, (tag, length) in enumerate(elements):
            while not left:
                ends[parent] = len(symbols)
                parent, left = above.pop()
            left -= 1
            if not isinstance(tag, str):
                continue
            number = len(symbols)
            symbols.append(tag)
            parents.append(parent)
            places.append((place, None))
            ends.append(number + 1)
            if place in attributes:
                for name in attributes[place]:
                    symbols.append(f"@{name}")
                    parents.append(number)
                    places.append((place, name))
                    ends.append(len(symbols))
                ends[number] = len(symbols)
            if length:
                above.append((parent, left))
                parent, left = number, length
        while parent >= 0:
            ends[parent] = len(symbols)
            parent, _ = above.pop()

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def children(self) -> list[list[int]]:
        """The children and attributes of each node by number; the last list has only the root."""
        if self._children is None:
            self._children = [[] for _ in range(len(self.symbols) + 1)]
            for number, parent in enumerate(self.parents):
                self._children[parent].append(number)
        return self._children

    @property
    def subtrees(self) -> list[Subtree]:
        """The subtree of each node, in the order of the nodes' numbers."""
        if self._subtrees is None:
            known, parents, symbols = self._known, self.parents, self.symbols
            below: list[list[Subtree]] = [[] for _ in range(len(symbols) + 1)]
            self._subtrees = []
            for number in range(len(symbols) - 1, -1, -1):
                subtree = known[symbols[number], frozenset(below[number])]
                below[parents[number]].append(subtree)
                self._subtrees.append(subtree)
            self._subtrees.reverse()
        return self._subtrees

    def select(self, steps: Steps, node: int) -> list[int]:
        """Return the nodes that the steps of a plain path select from a node, each once.

        Their order is that of `navigate.select`.
        """
        nodes = [node]
        for descendant, key in steps:
            found: list[int] = []
            for above in nodes:
                found += self._step(descendant, key, above)
            nodes = list(dict.fromkeys(found)) if len(nodes) > 1 else found
        return nodes

    def _step(self, descendant: bool, key: Key, node: int) -> list[int]:
        candidates: Sequence[int]
        candidates = range(node + 1, self.ends[node]) if descendant else self.children[node]
        symbols = self.symbols
        return [candidate for candidate in candidates if key in keys_of(symbols[candidate])]
