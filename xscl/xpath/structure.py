"""What a document is without its texts: names and nesting, as numbers.

Nodes are numbered as in `xscl.xpath.tree`.  The items of a feed have few
structures; whatever follows from the structure alone is worked out once for
each (`xscl.xpath.shape`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, assert_never

from lxml import etree

from xscl.language.syntax import And, Compare, Condition, Exists, Not, Or, Path, Step, TextMatch
from xscl.xpath.atoms import Kind
from xscl.xpath.names import Key, Symbol, key_of, keys_of


class Outline(NamedTuple):
    """What lxml says of a document's structure at once; equal outlines, equal structures.

    For each element, comment and processing instruction in document order: its
    tag, the number of its children; and for each that has attributes, their names.
    """

    tags: tuple[Any, ...]
    lengths: tuple[int, ...]
    names: tuple[tuple[int, tuple[str, ...]], ...]


def outline(nodes: Sequence[etree._Element]) -> Outline:
    """Return the outline of a document, given its elements, comments and instructions."""
    names: list[Any] = [node.keys() for node in nodes]
    return Outline(
        tuple([node.tag for node in nodes]),
        tuple(map(len, nodes)),
        tuple([(place, tuple(some)) for place, some in enumerate(names) if some]),
    )


class Structure:
    """The nodes of a document: names, parents, and where the subtree of each ends."""

    __slots__ = ("_below", "_children", "_here", "ends", "leaves", "parents", "places", "symbols")

    def __init__(self, outlined: Outline) -> None:
        self.symbols: list[Symbol] = []
        self.parents: list[int] = []
        self.places: list[tuple[int, str | None]] = []  # in the outline; an attribute's name
        self.ends: list[int] = []
        self.leaves = frozenset(at for at, length in enumerate(outlined.lengths) if not length)
        self._number(outlined)
        self._children: list[list[int]] | None = None
        self._here: dict[int, frozenset[Key]] = {}
        self._below: dict[int, frozenset[Key]] = {}

    def _number(self, outlined: Outline) -> None:
        symbols, parents, places, ends = self.symbols, self.parents, self.places, self.ends
        above: list[list[int]] = []  # the open elements, with how many children are to come
        attributes = dict(outlined.names)
        elements = zip(outlined.tags, outlined.lengths, strict=True)
        for place, (tag, length) in enumerate(elements):
            while above and not above[-1][1]:
                ends[above.pop()[0]] = len(symbols)
            parent = -1
            if above:
                parent = above[-1][0]
                above[-1][1] -= 1
            if not isinstance(tag, str):
                continue
            number = len(symbols)
            symbols.append(tag)
            parents.append(parent)
            places.append((place, None))
            ends.append(number + 1)
            for name in attributes.get(place, ()):
                symbols.append(f"@{name}")
                parents.append(number)
                places.append((place, name))
                ends.append(len(symbols))
            above.append([number, length])
        for number, _ in above:
            ends[number] = len(symbols)

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def children(self) -> list[list[int]]:
        """The children and attributes of each node, the root being the last list's only one."""
        if self._children is None:
            self._children = [[] for _ in range(len(self.symbols) + 1)]
            for number, parent in enumerate(self.parents):
                self._children[parent].append(number)
        return self._children

    def _end(self, node: int) -> int:
        return len(self.symbols) if node < 0 else self.ends[node]

    def names(self, node: int) -> frozenset[Key]:
        """Return the name tests that some child or attribute of a node passes."""
        known = self._here.get(node)
        if known is None:
            symbols = {self.symbols[child] for child in self.children[node]}
            known = frozenset(key for symbol in symbols for key in keys_of(symbol))
            self._here[node] = known
        return known

    def names_below(self, node: int) -> frozenset[Key]:
        """Return the name tests that something below a node passes."""
        known = self._below.get(node)
        if known is None:
            symbols = set(self.symbols[node + 1 : self._end(node)])
            known = frozenset(key for symbol in symbols for key in keys_of(symbol))
            self._below[node] = known
        return known

    def select(self, path: Path, node: int) -> list[int]:
        """Return the nodes that the steps of a path select from a node, each once.

        Their order is that of `navigate.select`.
        """
        nodes = [node]
        for step in path.steps:
            found = (one for above in nodes for one in self._step(step, above))
            nodes = list(dict.fromkeys(found))
        return nodes

    def step(self, step: Step, nodes: Sequence[int]) -> list[int]:
        """Return the nodes that a step leads to from others, ascending; -1 is the document."""
        return sorted({one for node in nodes for one in self._step(step, node)})

    def answer(self, kind: Kind, node: int) -> frozenset[Key]:
        """Return the names at a node that a question of this kind asks for."""
        return self.names(node) if kind == "child" else self.names_below(node)

    def _step(self, step: Step, node: int) -> list[int]:
        key = key_of(step.attribute, step.test)
        candidates: Sequence[int]
        if step.descendant:
            if key not in self.names_below(node):
                return []
            candidates = range(node + 1, self._end(node))
        else:
            candidates = self.children[node]
        symbols = self.symbols
        return [
            one
            for one in candidates
            if key in keys_of(symbols[one])
            and all(self.holds(condition, one) for condition in step.conditions)
        ]

    def holds(self, condition: Condition, node: int) -> bool:
        """Whether a condition on the structure (see `is_structural`) holds at a node."""
        match condition:
            case Exists(path):
                return bool(self.select(path, node))
            case And(parts):
                return all(self.holds(part, node) for part in parts)
            case Or(parts):
                return any(self.holds(part, node) for part in parts)
            case Not(part):
                return not self.holds(part, node)
            case Compare() | TextMatch():
                raise AssertionError("a condition on the structure asks for no values")
            case _:
                assert_never(condition)


def is_structural(condition: Condition) -> bool:
    """Whether a condition asks for the structure alone."""
    match condition:
        case Exists(path):
            return path.text is None and all(
                is_structural(inner) for step in path.steps for inner in step.conditions
            )
        case And(parts) | Or(parts):
            return all(map(is_structural, parts))
        case Not(part):
            return is_structural(part)
        case Compare() | TextMatch():
            return False
        case _:
            assert_never(condition)
