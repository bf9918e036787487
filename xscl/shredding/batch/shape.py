"""Shapes: the common results of all documents of one structure.

The items of a feed have few structures.  A *shape* is a structure with the results of the automaton
on it, assembled from the lineages of its nodes (`xscl.shredding.automaton.lineage`).  It has the
witnesses of patterns without conditions on values, as columns, and the spots where others may
match.  The index of a spot is probed for each document.  A shape is cached when it occurs again,
within a budget, with the rows of places at its nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from xscl.shredding.automaton.automaton_states import (
    AutomatonState,
    IndexedPlaces,
    PatternPlace,
)
from xscl.shredding.automaton.lineage import Packed, columns_of
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.structure import Skeleton, Structure
from xscl.shredding.nodes import Steps

BUDGET = 3_000_000  # nodes and rows of all cached shapes, with the costs of lineages and rows
LINE = 3  # the cost of a lineage in a shape, which may be the only one that keeps it
ROWS = 15  # the cost of the cached rows of a place at a node
LARGEST = 20_000  # nodes of a cached structure at most: items are small, others rarely recur
SEEN = 100_000  # the most hashes kept of shapes that have occurred once


class DocumentShape:
    """A structure on some streams, with the automaton's results."""

    __slots__ = (
        *("_matched", "_packed", "_reached", "_selected", "_start", "_under", "cache", "changes"),
        *("derived", "lines", "now", "rows", "shown", "spots", "structure", "views", "wanted"),
    )

    def __init__(
        self, automaton: Automaton, streams: tuple[str, ...], structure: Structure
    ) -> None:
        self.structure = structure
        self.cache: DocumentShapes | None = None  # the cache that the shape is in
        # by (place, node): the rows of the place there, and of all places below
        self.rows: dict[tuple[PatternPlace, int], Packed] = {}
        self.views: dict[tuple[Hashable, int], Any] = {}  # `IndexView`s by index and node
        self.shown = -1  # the automaton's number of changes when rows and views were cached
        self.wanted: dict[int, int] = {}  # by node, if rows need its value: an index from 0
        self.learn(automaton, streams)

    def learn(self, automaton: Automaton, streams: tuple[str, ...]) -> None:
        """Compute the nodes that the present patterns of the automaton match by structure alone."""
        self.changes = automaton.changes
        self.now = automaton.now(streams)
        self._packed: Packed | None = None
        self._start, *self.lines = automaton.lineages(streams, self.structure)
        derived = [line.derived for line in self.lines if line.derived]
        self.derived = dict.fromkeys(chain.from_iterable(derived))
        spots: dict[IndexedPlaces, list[int]] = {}
        for node, line in enumerate(self.lines):
            for spot in line.spots:
                spots.setdefault(spot, []).append(node)
        self.spots = list(spots.items())
        self._reached: dict[AutomatonState, Sequence[int]] | None = None
        self._matched: dict[PatternPlace, Sequence[int]] = {}
        self._selected: dict[tuple[Steps, int], list[int]] = {}
        self._under: dict[tuple[AutomatonState, int], Sequence[int]] = {}

    def __len__(self) -> int:
        return sum(1 + line.count for line in self.lines) + LINE * len(set(self.lines))

    @property
    def packed(self) -> Packed:
        """The packed rows that all documents of the shape have."""
        if self._packed is None:
            pairs, firsts, seconds, valued = columns_of(self.lines, self.structure.parents)
            places = np.full(len(self.lines), -1, np.int32)
            for node in np.unique(seconds[valued]).tolist():
                places[node] = self.wanted.setdefault(node, len(self.wanted))
            wanted = np.where(valued, places[seconds], np.int32(-1))
            self._packed = np.stack((pairs, firsts, seconds, wanted), axis=1).tobytes()
        return self._packed

    # -- Nodes -----------------------------------------------------------------------------

    @property
    def reached(self) -> Mapping[AutomatonState, Sequence[int]]:
        """The nodes that reach each state, ascending."""
        if self._reached is None:
            reached: dict[AutomatonState, list[int]] = {}
            matched: dict[PatternPlace, list[int]] = {}
            for node, line in enumerate(self.lines):
                for state in line.states:
                    reached.setdefault(state, []).append(node)
                for place in line.matched:
                    matched.setdefault(place, []).append(node)
            self._reached = {**reached, **dict.fromkeys(self._start.states, (-1,))}
            self._matched = {**matched}
        return self._reached

    def matching(self, place: PatternPlace) -> Sequence[int]:
        """Return the nodes, ascending, that match a place with conditions on structure only."""
        reached = self.reached
        return reached.get(place.state, ()) if place.plain else self._matched.get(place, ())

    def under(self, state: AutomatonState, nodes: Sequence[int]) -> Sequence[int]:
        """Return the nodes to which a state's last step leads from some nodes."""
        if len(nodes) != 1:
            return self._below(state, nodes)
        key = state, nodes[0]
        below = self._under.get(key)
        if below is None:
            below = self._under[key] = self._below(state, nodes)
        return below

    def _below(self, state: AutomatonState, nodes: Sequence[int]) -> Sequence[int]:
        reached = self.reached.get(state, ())
        if not reached:
            return ()
        if not state.step.descendant:
            parents, above = self.structure.parents, set(nodes)
            return [node for node in reached if parents[node] in above]
        below: list[int] = []
        end = -2
        # `nodes` ascend: one before `end` lies below the last one taken, and adds nothing.
        for node in nodes:
            if node >= end:
                end = self.structure.ends[node] if node >= 0 else len(self.structure)
                below += reached[bisect_right(reached, node) : bisect_left(reached, end)]
        return below

    def select(self, steps: Steps, node: int) -> list[int]:
        """Return the nodes that the steps of a plain path select from a node."""
        nodes = self._selected.get((steps, node))
        if nodes is None:
            nodes = self._selected[steps, node] = self.structure.select(steps, node)
        return nodes


def matches(
    shape: DocumentShape, hits: Mapping[PatternPlace, Sequence[int]], place: PatternPlace
) -> Sequence[int]:
    """Return the nodes that match a place, ascending.

    `hits` has them for places with conditions on values; for others they are those of the shape.
    """
    if place.structural:
        return shape.matching(place)
    if place.form is not None:
        return hits.get(place, ())
    assert place.parent is not None, "a stream's own place is plain"
    return shape.under(place.state, matches(shape, hits, place.parent))


# -- Remembering ---------------------------------------------------------------------------


class DocumentShapes:
    """A cache of shapes within a budget.

    A shape is cached at its second occurrence: where all documents differ, as
    deeply nested ones do, a cache is useless.  Over the budget all shapes are dropped, with all
    lineages, which shapes share; both grow afresh.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], Skeleton], DocumentShape] = {}
        self._seen: set[int] = set()
        self._size = 0

    def shape(
        self, automaton: Automaton, streams: tuple[str, ...], skeleton: Skeleton
    ) -> DocumentShape | None:
        """Return the shape of a document; None if no pattern reads its streams."""
        key = streams, skeleton
        shape = self._known.get(key)
        if shape is not None and shape.changes == automaton.changes and self._size <= BUDGET:
            return shape
        if self._size > BUDGET or automaton.known.are_too_many:
            self._clear()
            automaton.known.clear()
            shape = None
        if shape is not None:  # the automaton has changed, perhaps only for other streams
            shape.changes = automaton.changes
            if shape.now != automaton.now(streams):
                self._size -= len(shape)
                shape.learn(automaton, streams)
                self._size += len(shape)
            return shape
        if not automaton.reads(streams):
            return None
        shape = DocumentShape(automaton, streams, Structure(skeleton, automaton.known.subtrees))
        number = hash(key)
        if len(shape.lines) > LARGEST:
            return shape
        if number in self._seen:
            shape.cache = self
            self._known[key] = shape
            self._size += len(shape)
        else:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            self._seen.add(number)
        return shape

    def _clear(self) -> None:
        for shape in self._known.values():
            shape.cache = None  # a batch that still uses the shape must not cache rows in it
        self._known.clear()
        self._size = 0

    def forget_rows(self, shape: DocumentShape) -> None:
        """Remove the cached rows of a shape."""
        self._size -= ROWS * len(shape.rows)
        shape.rows.clear()

    def keep(self, shape: DocumentShape, place: PatternPlace, node: int, rows: Packed) -> None:
        """Cache `rows`, the packed rows of a place of a shape at a node."""
        shape.rows[place, node] = rows
        self._size += ROWS
