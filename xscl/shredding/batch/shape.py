"""Shapes: the common results of all documents of one structure.

The items of a feed have few structures.  A *shape* is a structure with the results of the automaton
on it, assembled from the lineages of its nodes (`xscl.shredding.automaton.lineage`).  It has the
witnesses of patterns without conditions on values, as columns, and the spots where others may
match.  The index of a spot is probed for each document.  A shape is cached when it occurs again,
within a budget.  `ShapeDocuments` are documents of one shape.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from xscl.language.syntax import Path
from xscl.shredding.automaton.automaton_states import AutomatonState, IndexedPlaces, PatternPlace
from xscl.shredding.automaton.lineage import Int32s, RowCache, columns_of
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.structure import Skeleton, Structure
from xscl.shredding.batch.known_markup import ParsedDocument, SplitDocument
from xscl.shredding.nodes.names import Steps, steps_of

BUDGET = 3_000_000  # nodes and rows of all shapes that are remembered, and their lineages
LINE = 3  # what a lineage counts for, as it may be kept by one shape alone
LARGEST = 20_000  # nodes of a structure that is remembered: items are small, others rarely recur
SEEN = 100_000  # skeletons of which is known that they were met


@dataclass(frozen=True, slots=True, eq=False)
class ShapeRows:
    """Witnesses of a structure: columns, and the nodes whose values are needed.

    `wanted` is the place of a row's value among those of `valued`, or -1.
    """

    valued: tuple[int, ...]
    pairs: Int32s
    firsts: Int32s
    seconds: Int32s
    wanted: Int32s

    def __len__(self) -> int:
        return len(self.pairs)


class DocumentShape:
    """A structure on some streams, with the automaton's results."""

    __slots__ = (
        *("_matched", "_paths", "_reached", "_rows", "_selected", "_start", "_under", "changes"),
        *("derived", "lines", "now", "remembered", "spots", "structure", "wanted"),
    )

    def __init__(
        self, automaton: Automaton, streams: tuple[str, ...], structure: Structure
    ) -> None:
        self.structure = structure
        self.remembered: RowCache | None = None  # rows: only if the shape is, too
        self.wanted: dict[int, int] = {}  # nodes whose values packed rows want, with their places
        self.learn(automaton, streams)

    def learn(self, automaton: Automaton, streams: tuple[str, ...]) -> None:
        """Compute the structural results of the current automaton."""
        self.changes = automaton.changes
        self.now = automaton.now(streams)
        self._rows: ShapeRows | None = None
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
        self._paths: dict[int, tuple[Path, dict[int, list[int]]]] = {}
        self._selected: dict[tuple[Steps, int], list[int]] = {}
        self._under: dict[tuple[AutomatonState, int], Sequence[int]] = {}

    def __len__(self) -> int:
        return sum(1 + line.count for line in self.lines) + LINE * len(set(self.lines))

    @property
    def rows(self) -> ShapeRows:
        """The rows common to all documents."""
        if self._rows is None:
            pairs, firsts, seconds, valued = columns_of(self.lines, self.structure.parents)
            nodes = np.unique(seconds[valued])
            wanted = np.where(valued, np.searchsorted(nodes, seconds), -1).astype(np.int32)
            self._rows = ShapeRows(tuple(nodes.tolist()), pairs, firsts, seconds, wanted)
        return self._rows

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
        """Return the nodes that match a structural place, ascending."""
        reached = self.reached
        return reached.get(place.state, ()) if place.plain else self._matched.get(place, ())

    def under(self, state: AutomatonState, nodes: Sequence[int]) -> Sequence[int]:
        """Return the nodes of a state that its last step reaches from given nodes."""
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
        for node in nodes:  # ascending, as are the ends of those that are not inside others
            if node >= end:
                end = self.structure.ends[node] if node >= 0 else len(self.structure)
                below += reached[bisect_right(reached, node) : bisect_left(reached, end)]
        return below

    def select(self, steps: Steps, node: int) -> list[int]:
        """Return the nodes that a plain path selects from a node."""
        nodes = self._selected.get((steps, node))
        if nodes is None:
            nodes = self._selected[steps, node] = self.structure.select(steps, node)
        return nodes

    def along(self, path: Path, node: int) -> list[int]:
        """Return the nodes that a plain path of a condition selects from a node."""
        known = self._paths.get(id(path))
        if known is None:
            known = self._paths[id(path)] = path, {}  # with the path its id remains its own
        nodes = known[1].get(node)
        if nodes is None:
            nodes = known[1][node] = self.select(steps_of(path), node)
        return nodes


def matches(
    shape: DocumentShape, hits: Mapping[PatternPlace, Sequence[int]], place: PatternPlace
) -> Sequence[int]:
    """Return the nodes that match a place, given those of places with conditions on values."""
    if place.structural:
        return shape.matching(place)
    if place.conditions:
        return hits.get(place, ())
    assert place.parent is not None, "a stream's own place is plain"
    return shape.under(place.state, matches(shape, hits, place.parent))


# -- Remembering ---------------------------------------------------------------------------


class ShapeCache:
    """A cache of shapes within a budget.

    A shape is cached at its second occurrence: where all documents differ, as
    deeply nested ones do, a cache is useless.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], Skeleton], DocumentShape] = {}
        self._seen: set[int] = set()
        self._remembered = RowCache()
        self._size = 0
        self._cleared = 0  # how often lineages had been

    def shape(
        self, automaton: Automaton, streams: tuple[str, ...], skeleton: Skeleton
    ) -> DocumentShape | None:
        """Return the shape of a document; None if no pattern reads its streams."""
        if self._cleared != automaton.cleared:
            self._cleared = automaton.cleared
            self._drop_old(automaton)
        key = streams, skeleton
        shape = self._known.get(key)
        if shape is not None:
            if shape.changes != automaton.changes:  # of whatever kind and stream
                shape.changes = automaton.changes
                if shape.now != automaton.now(streams):
                    self._learn(streams, shape, automaton)
            return shape
        if not automaton.reads(streams):
            return None
        shape = DocumentShape(automaton, streams, Structure(skeleton, automaton.subtrees))
        number = hash(key)
        if len(shape.lines) > LARGEST:
            return shape
        if number in self._seen:
            shape.remembered = self._remembered
            self._known[key] = shape
            self._grow(len(shape))
        else:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            self._seen.add(number)
        return shape

    def _learn(self, streams: tuple[str, ...], shape: DocumentShape, automaton: Automaton) -> None:
        """Update a shape after a change of the automaton."""
        before = len(shape)
        shape.learn(automaton, streams)
        self._grow(len(shape) - before)

    def _grow(self, size: int) -> None:
        """Count the growth of the cache, and evict the oldest shapes beyond the budget."""
        self._size += size
        while self._size > BUDGET:
            self._drop(next(iter(self._known)))

    def _drop_old(self, automaton: Automaton) -> None:
        """Drop the shapes that have not occurred since a change: nothing shares their lineages."""
        streams = {key[0] for key in self._known}
        now = {each: automaton.now(each) for each in streams}
        for key in [key for key, shape in self._known.items() if shape.now != now[key[0]]]:
            self._drop(key)

    def _drop(self, key: tuple[tuple[str, ...], Skeleton]) -> None:
        shape = self._known.pop(key)
        self._remembered.forget(shape)
        shape.remembered = None  # who still has it must not bring it back
        self._size -= len(shape)


def shape_of(
    automaton: Automaton, streams: tuple[str, ...], skeleton: Skeleton
) -> DocumentShape | None:
    """Return the shape of a document; None if no pattern reads its streams."""
    if automaton.shapes is None:
        automaton.shapes = ShapeCache()
    assert isinstance(automaton.shapes, ShapeCache)
    return automaton.shapes.shape(automaton, streams, skeleton)


class ShapeDocuments:
    """Documents of one shape, by their places from 0; `docs` are their numbers."""

    __slots__ = ("_texts", "docs", "read", "shape")

    def __init__(self, shape: DocumentShape) -> None:
        self.shape = shape
        self.docs: list[int] = []
        self.read: list[ParsedDocument | SplitDocument] = []
        self._texts: dict[int, list[Any]] = {}  # None: not read yet

    def add(self, doc: int, document: ParsedDocument | SplitDocument) -> None:
        """Add a document, before the evaluation."""
        self.docs.append(doc)
        self.read.append(document)

    def text(self, node: int, one: int) -> str:
        """Return the string value of a node in a document."""
        known = self._texts.get(node)
        if known is None:
            known = self._texts[node] = [None] * len(self.docs)
        text: str | None = known[one]
        if text is None:
            place, name = self.shape.structure.places[node]
            document = self.read[one]
            text = document.text(place) if name is None else str(document.nodes[place].get(name))
            known[one] = text
        return text

    def texts(self, node: int, which: Sequence[int]) -> list[str]:
        """Return the string values of a node in some documents."""
        if len(which) == 1:
            return [self.text(node, which[0])]
        known = self._texts.get(node)
        if known is None:
            known = self._texts[node] = [None] * len(self.docs)
        texts: list[str] = [known[one] for one in which]
        if None not in texts:
            return texts
        place, name = self.shape.structure.places[node]
        documents = [self.read[one] for one in which]
        if name is not None:
            texts = [str(document.nodes[place].get(name)) for document in documents]
        else:
            texts = [document.text(place) for document in documents]
        for one, text in zip(which, texts, strict=True):
            known[one] = text
        return texts
