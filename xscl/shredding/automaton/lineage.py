"""Lineages: the structural matches of a node, given those of the nodes above it.

The automaton of states is evaluated as a deterministic one that is built lazily from documents.
Its state at a node is a *lineage*: the states reached there, and the matching places with
conditions on structure.  Lineages form a tree, because the nodes above matter: in a row of a pair
the first variable is a fixed number of levels above the second, in all documents.

A step follows the name of a child and, where conditions are tested, its subtree
(`xscl.shredding.automaton.structure`).  Both together are the forward and backward index of Kaushik
and others (2002), over the documents seen.  After a change of structural conditions the tree grows
again, as far as documents need it.

At a node of a known structure the rows of a lineage, and those of a place without further
conditions on values, are equal in all documents, except for the values: they are cached as bytes,
which a batch concatenates.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from xscl.language.syntax import Condition
from xscl.shredding.automaton.automaton_states import (
    AutomatonState,
    ConditionIndex,
    IndexedPlaces,
    PairEntry,
    PatternPlace,
)
from xscl.shredding.automaton.structure import Structure, Subtree, Subtrees
from xscl.shredding.nodes import Symbol, keys_of

Packed: TypeAlias = bytes
"""Rows of four numbers: pair, first and second node, value (in `DocumentShape.wanted`) or -1."""

WIDTH = 4


def bindings(
    entry: PairEntry,
    nodes: Sequence[int],
    parents: Sequence[int],
    matching: Callable[[PatternPlace], Collection[int]],
) -> Iterable[tuple[int, int]]:
    """Return the bindings (first node, second node) of a pair of variables.

    `nodes` are the nodes that match the second one's place, and `parents` has the parent of each
    node.  `matching` returns the nodes that match a place.
    """
    if entry.distance == 1:
        return [(parents[node], node) for node in nodes]
    if entry.distance == 0:
        return [(node, node) for node in nodes]
    if entry.distance is None and len(uppers := matching(entry.first)) == 1:
        (upper,) = uppers  # each node is below one that matches the first place
        return [(upper, node) for node in nodes]
    return _far_bindings(entry, nodes, parents, matching)


def _far_bindings(
    entry: PairEntry,
    nodes: Sequence[int],
    parents: Sequence[int],
    matching: Callable[[PatternPlace], Collection[int]],
) -> Iterator[tuple[int, int]]:
    if entry.distance is not None:
        for node in nodes:
            upper = node
            for _ in range(entry.distance):
                upper = parents[upper]
            yield upper, node
        return
    path = [
        (place.state.step.descendant, frozenset(matching(place.parent)))
        for place in entry.second.path_from(entry.first)
        if place.parent is not None
    ]
    for node in nodes:
        uppers = {node}
        for descendant, matched in path:
            uppers = {u for lower in uppers for u in _above(lower, descendant, matched, parents)}
        for upper in sorted(uppers):
            yield upper, node


def _above(node: int, descendant: bool, matched: Set[int], parents: Sequence[int]) -> Iterator[int]:
    """Yield those of the matched nodes from which a step, `//` if `descendant`, leads to a node."""
    above = parents[node]
    while True:
        if above in matched:
            yield above
        if above < 0 or not descendant:
            return
        above = parents[above]


LIMIT = 500_000  # beyond this many states, places and rows, all lineages are dropped
ALONE = 10  # added to the size of a lineage, which is its number of states, places and rows
SUBTREES = 10_000  # beyond this many known subtrees, they and all lineages are dropped

Int32s: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]
_NONE = b"", b"", b""


class Lineage:
    """The matches at a node: states and places, rows, and spots with conditions on values.

    `rows` are three columns of numbers as bytes: the pair, the number of levels from its second
    variable, which is bound here, up to the first, and whether the value is needed.
    """

    __slots__ = (
        *("_open", "_wide", "count", "depth", "derived", "forks", "matched", "parent"),
        *("rows", "spots", "states", "valued"),
    )

    def __init__(
        self,
        parent: Lineage | None,
        states: dict[AutomatonState, None],
        matched: Collection[PatternPlace],
        spots: Sequence[IndexedPlaces],
    ) -> None:
        self.parent = parent
        self.states = states
        # matching places with conditions, there or above, all of which test the structure only
        self.matched = matched
        self.spots = spots
        self.forks: dict[Symbol, Fork] = {}
        self.depth: int = -1 if parent is None else parent.depth + 1
        self._open: dict[AutomatonState, None] = {} if parent is None else parent._open
        if opened := [state for state in states if state.below]:
            self._open = self._open | dict.fromkeys(opened)
        # places that match a node above and have places below
        self._wide: dict[PatternPlace, None] = {}
        if parent is not None:
            self._wide = parent._wide
            if parent.matched:
                more = [place for place in parent.matched if place.children or place.spots]
                self._wide = self._wide | dict.fromkeys(more)
        self.derived: list[PairEntry] = []
        self.rows = _NONE
        self.count = 0  # the number of rows
        self.valued = False  # whether some row needs the value of the node
        if entries := list(self._entries()):
            self._bind(entries)

    def __len__(self) -> int:
        return ALONE + len(self.states) + len(self.matched) + self.count

    def _entries(self) -> Iterator[PairEntry]:
        for state in self.states:
            if state.plain is not None:
                yield from state.plain.entries
        for place in self.matched:
            yield from place.entries

    def _bind(self, entries: Sequence[PairEntry]) -> None:
        """Set `rows`, `count` and `valued` from entries whose second variable is bound here.

        Entries of derived nodes are added to `derived` instead.
        """
        pairs, levels, valued = array("i"), array("i"), array("b")
        above = range(-1, self.depth)  # by depth of a node: the depth of its parent
        for entry in entries:
            if entry.derived is not None:
                self.derived.append(entry)
                continue
            for first, _ in bindings(entry, (self.depth,), above, self._depths):
                pairs.append(entry.pair)
                levels.append(self.depth - first)
                valued.append(entry.valued)
        self.rows = pairs.tobytes(), levels.tobytes(), valued.tobytes()
        self.count = len(pairs)
        self.valued = 1 in valued

    def _depths(self, place: PatternPlace) -> list[int]:
        """Return the depths of the nodes, from this one up to the root, that match a place."""
        depths: list[int] = []
        one: Lineage | None = self
        while one is not None:
            if place.state in one.states if place.plain else place in one.matched:
                depths.append(one.depth)
            one = one.parent
        return depths

    def fork(self, symbol: Symbol) -> Fork:
        """Compute the fork of the children and attributes with a name; it is not cached here."""
        keys = keys_of(symbol)
        states: dict[AutomatonState, None] = {}
        for state in self.states:
            states |= {state.children[key]: None for key in keys if key in state.children}
        for state in self._open:
            states |= {state.below[key]: None for key in keys if key in state.below}
        spots = [state.spot for state in states if state.spot is not None]
        matched: dict[PatternPlace, None] = {}
        for places, near in ((self.matched, True), (self._wide, False)):
            for place in places:
                for child in place.children_at(states):
                    if near or child.state.step.descendant:
                        matched[child] = None
                for spot in place.spots:
                    if spot.state in states and (near or spot.state.step.descendant):
                        spots.append(spot)
        return Fork(self, states, matched, spots)

    def cut(self) -> None:
        """Drop the lineages below, which would be cyclic garbage."""
        pending = [self]
        while pending:
            forks = pending.pop().forks
            for fork in forks.values():
                pending += fork.known.values()
            forks.clear()


class Fork:
    """The children of one name: their lineage, or the rule by which it follows from their subtrees.

    `matched` are the places that match them in any case.
    """

    __slots__ = ("_asked", "_matched", "_parent", "_spots", "_states", "known", "lines", "only")

    def __init__(
        self,
        parent: Lineage,
        states: dict[AutomatonState, None],
        matched: dict[PatternPlace, None],
        spots: Sequence[IndexedPlaces],
    ) -> None:
        self._parent = parent
        self._states = states
        self._matched = matched
        self._spots = [spot for spot in dict.fromkeys(spots) if spot.valued]
        asked = (spot.structural for spot in dict.fromkeys(spots))
        self._asked: list[ConditionIndex] = [index for index in asked if index]
        self.known: dict[frozenset[PatternPlace], Lineage] = {}
        self.lines: dict[Subtree, Lineage] = {}
        self.only: Lineage | None = None if self._asked else self._line(frozenset(matched))

    def choose(self, subtree: Subtree) -> Lineage:
        """Compute and cache the lineage of those nodes of the name that have this subtree."""
        held: dict[int, bool] = {}

        def holds(condition: Condition) -> bool:
            known = held.get(id(condition))
            if known is None:
                known = held[id(condition)] = subtree.holds(condition)
            return known

        matched = set(self._matched)
        for index in self._asked:
            for place, todo in index.find(subtree.answer):
                if all(map(holds, todo)):
                    matched.add(place)
        line = self.lines[subtree] = self._line(frozenset(matched))
        return line

    def _line(self, matched: frozenset[PatternPlace]) -> Lineage:
        line = self.known.get(matched)
        if line is None:
            line = self.known[matched] = Lineage(self._parent, self._states, matched, self._spots)
        return line


class Lineages:
    """Computes the lineages of documents; caches them, and the subtrees of the documents so far."""

    def __init__(self) -> None:
        self._starts: dict[tuple[PatternPlace, ...], tuple[Lineage, int]] = {}
        self._size = 0
        self.subtrees = Subtrees()

    def follow(self, roots: Sequence[PatternPlace], structure: Structure) -> list[Lineage]:
        """Return the lineage of a document, then those of its nodes in ascending order.

        `roots` are the places of its streams.
        """
        lines = [self._start(tuple(roots))]
        nodes = zip(structure.symbols, structure.parents, strict=True)
        for number, (symbol, parent) in enumerate(nodes):
            above = lines[parent + 1]
            fork = above.forks.get(symbol)
            if fork is None:
                fork = above.fork(symbol)
                if self._size <= LIMIT:
                    above.forks[symbol] = fork
                self._size += ALONE if fork.only is None else len(fork.only)
            line = fork.only
            if line is None:
                subtree = structure.subtrees[number]
                line = fork.lines.get(subtree)
                if line is None:
                    line = fork.choose(subtree)
                    self._size += len(line)
            lines.append(line)
        return lines

    def _start(self, roots: tuple[PatternPlace, ...]) -> Lineage:
        """Return the lineage of documents whose streams have the places `roots`.

        It is cached until matches that the structure alone decides change on these streams.
        """
        now = sum(root.changes for root in roots)
        start, then = self._starts.get(roots, (None, now))
        if start is None or then != now:
            if start is not None:
                start.cut()
            start = Lineage(None, {root.state: None for root in roots}, (), ())
            self._starts[roots] = start, now
        return start

    @property
    def are_too_many(self) -> bool:
        """True if lineages and subtrees exceed their limits, and have to be dropped."""
        return self._size > LIMIT or len(self.subtrees) > SUBTREES

    def clear(self) -> None:
        """Drop all lineages and subtrees."""
        for start, _ in self._starts.values():
            start.cut()
        self._starts.clear()
        self._size = 0
        self.subtrees.clear()


def columns_of(
    lines: Sequence[Lineage], parents: Sequence[int]
) -> tuple[Int32s, Int32s, Int32s, Flags]:
    """Return for all rows, as columns: pair, first node, second node, True if its value is needed.

    `lines` and `parents` are the lineages and parents of nodes, of one document or of several
    one after the other.
    """
    sizes = [line.count for line in lines]
    columns = zip(*[line.rows for line in lines if line.count], strict=True)
    pairs, levels, valued = (b"".join(column) for column in columns) if any(sizes) else _NONE
    seconds = np.repeat(np.arange(len(lines), dtype=np.int32), sizes)
    firsts, up, above = seconds.copy(), np.frombuffer(levels, np.int32), np.array(parents, np.int32)
    level, higher = 0, np.flatnonzero(up)
    while len(higher):
        firsts[higher] = above[firsts[higher]]
        level += 1
        higher = higher[up[higher] > level]
    return np.frombuffer(pairs, np.int32), firsts, seconds, np.frombuffer(valued, np.bool_)
