"""What all documents of one structure have in common.

The items of a feed have few structures.  A *shape* is a structure and what the
automaton finds in it: the nodes of each state, the witnesses of the patterns
that ask for no values, as columns, and the spots where others may match, whose
index is asked for each document.  It is remembered when it is met again, within
a budget; and it learns the automaton's changes instead of being worked out anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from xscl.language.syntax import Condition, Path
from xscl.xpath.index import Candidate
from xscl.xpath.nfa import Automaton
from xscl.xpath.places import Configuration, Entry, Place, Spot, State
from xscl.xpath.rows import Remembered, bindings
from xscl.xpath.structure import Outline, Structure

BUDGET = 3_000_000  # nodes and rows of all shapes that are remembered
SEEN = 100_000  # outlines of which is known that they were met
LEARNT = (
    10_000  # changes, beyond its size, after which a shape is made anew: it keeps what has gone
)

Numbers: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Witnesses of a structure: columns, and the nodes whose values are wanted.

    `wanted` is the place of a row's value among those of `valued`, or -1.
    """

    valued: tuple[int, ...]
    pairs: Numbers
    firsts: Numbers
    seconds: Numbers
    wanted: Numbers

    def __len__(self) -> int:
        return len(self.pairs)


class Shape:
    """A structure on some streams, and what the automaton finds in it."""

    __slots__ = (
        *("_matched", "_selected", "_streams", "_under", "changes", "derived", "found"),
        *("learned", "remembered", "rows", "spots", "structure", "wanted"),
    )

    def __init__(
        self,
        automaton: Automaton,
        start: Configuration,
        roots: tuple[Place, ...],
        streams: tuple[str, ...],
        structure: Structure,
    ) -> None:
        self.structure = structure
        self._streams = streams
        self.changes = automaton.now
        self.learned = 0
        self.remembered: Remembered | None = None  # rows: only if the shape is, too
        self.wanted: dict[int, int] = {}  # nodes whose values packed rows want, with their places
        self.spots: list[tuple[Spot, Sequence[int]]] = []
        self.derived: dict[Entry, Sequence[int]] = {}
        self._matched: dict[Place, Sequence[int]] = {}
        self._selected: dict[int, tuple[Path, dict[int, list[int]]]] = {}
        self._under: dict[tuple[State, int], Sequence[int]] = {}
        found = _reached(automaton, start, structure)
        self.found: dict[State, Sequence[int]] = {root.state: (-1,) for root in roots} | found
        entries: list[tuple[Entry, Sequence[int]]] = []
        for state, nodes in found.items():
            if state.plain is not None:
                entries.extend((entry, nodes) for entry in state.plain.entries)
            if state.spot is not None:
                self._visit(state.spot, nodes, entries)
        self.rows = self._extended(None, entries)

    # -- Nodes -----------------------------------------------------------------------------

    def reach(self, state: State) -> Sequence[int]:
        """Return the nodes that reach a state, ascending."""
        return self.found.get(state, ())

    def matching(self, place: Place) -> Sequence[int]:
        """Return the nodes that match a structural place, ascending."""
        if place.plain:
            return self.reach(place.state)
        nodes = self._matched.get(place)
        if nodes is None:
            assert place.parent is not None, "a stream's own place is plain"
            holds = self.structure.holds
            nodes = self._matched[place] = [
                node
                for node in self.under(place.state, self.matching(place.parent))
                if all(holds(condition, node) for condition in place.conditions)
            ]
        return nodes

    def under(self, state: State, nodes: Sequence[int]) -> Sequence[int]:
        """Return those of a state's nodes that its last step leads to from given ones."""
        if len(nodes) != 1:
            return self._below(state, nodes)
        key = state, nodes[0]
        below = self._under.get(key)
        if below is None:
            below = self._under[key] = self._below(state, nodes)
        return below

    def _below(self, state: State, nodes: Sequence[int]) -> Sequence[int]:
        reached = self.reach(state)
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

    def select(self, path: Path, node: int) -> list[int]:
        """Return the nodes that a plain path selects from a node."""
        known = self._selected.get(id(path))
        if known is None:
            known = self._selected[id(path)] = path, {}  # with the path its id remains its own
        nodes = known[1].get(node)
        if nodes is None:
            nodes = known[1][node] = self.structure.select(path, node)
        return nodes

    # -- Matches ---------------------------------------------------------------------------

    def _visit(
        self, spot: Spot, nodes: Sequence[int], entries: list[tuple[Entry, Sequence[int]]]
    ) -> None:
        """Find the structural places of a spot, of which some nodes may match them."""
        if spot.valued is not None:
            self.spots.append((spot, nodes))
        if spot.structural:
            matched: dict[Place, list[int]] = {}
            for node in nodes:
                found = spot.structural.find(partial(self.structure.answer, node=node))
                for place in dict.fromkeys(self._holding(found, node)):
                    matched.setdefault(place, []).append(node)
            for place, matching in matched.items():
                self._descend(place, matching, entries)

    def _holding(self, found: Iterable[Candidate[Place]], node: int) -> list[Place]:
        held: dict[int, bool] = {}

        def holds(condition: Condition) -> bool:
            known = held.get(id(condition))
            if known is None:
                known = held[id(condition)] = self.structure.holds(condition, node)
            return known

        return [place for place, todo in found if all(map(holds, todo))]

    def _descend(
        self, place: Place, nodes: Sequence[int], entries: list[tuple[Entry, Sequence[int]]]
    ) -> None:
        """Note that nodes match a place, and find what matches below."""
        self._matched[place] = nodes
        entries.extend((entry, nodes) for entry in place.entries)
        for child in place.children_at(self.found):
            if below := self.under(child.state, nodes):
                self._descend(child, below, entries)
        for spot in place.spots:
            if below := self.under(spot.state, nodes):
                self._visit(spot, below, entries)

    # -- Rows ------------------------------------------------------------------------------

    def _extended(self, rows: Rows | None, entries: Iterable[tuple[Entry, Sequence[int]]]) -> Rows:
        """Return rows with those of more entries; derived ones are noted for later."""
        pairs: list[int] = []
        firsts: list[int] = []
        seconds: list[int] = []
        wanted: list[int] = []
        valued = {} if rows is None else {node: at for at, node in enumerate(rows.valued)}
        for entry, nodes in entries:
            if entry.derived is not None:
                self.derived[entry] = nodes
                continue
            for first, second in bindings(entry, nodes, self.structure.parents, self.matching):
                pairs.append(entry.pair)
                firsts.append(first)
                seconds.append(second)
                wanted.append(valued.setdefault(second, len(valued)) if entry.valued else -1)
        columns = [np.array(c, np.int32) for c in (pairs, firsts, seconds, wanted)]
        if rows is not None:
            before = (rows.pairs, rows.firsts, rows.seconds, rows.wanted)
            columns = [np.concatenate(both) for both in zip(before, columns, strict=True)]
        return Rows(tuple(valued), *columns)

    def learn(self, automaton: Automaton) -> bool:
        """Take the automaton's changes in; False if they are forgotten."""
        changes = automaton.since(self.changes)
        if changes is None:
            return False
        self.changes = automaton.now
        self.learned += len(changes)
        self.found |= {root.state: (-1,) for root in automaton.roots(self._streams)}
        self.spots = [(spot, nodes) for spot, nodes in self.spots if spot.places]
        added: dict[int, Entry] = {}
        gone: set[int] = set()
        for change in changes:
            if isinstance(change, State):
                assert change.parent is not None, "a stream's own state is there from the start"
                if reached := self.structure.step(change.step, self.reach(change.parent)):
                    self.found[change] = reached
            elif isinstance(change, Spot):
                if change.places and (
                    nodes := self.under(change.state, self.matching(change.parent))
                ):
                    self.spots.append((change, nodes))
            elif isinstance(change, Entry):
                added[change.pair] = change
            else:
                gone.add(change)
                added.pop(change, None)
        if gone:
            self.rows = _without(self.rows, gone)
            self.derived = {e: n for e, n in self.derived.items() if e.pair not in gone}
        if added:
            entries = [(entry, self.matching(entry.second)) for entry in added.values()]
            self.rows = self._extended(self.rows, entries)
        return True


def _reached(
    automaton: Automaton, start: Configuration, structure: Structure
) -> dict[State, Sequence[int]]:
    """Return the nodes that reach each state, ascending."""
    configurations: list[Configuration] = []
    nodes: dict[Configuration, list[int]] = {}
    step = automaton.step
    for number, (symbol, parent) in enumerate(
        zip(structure.symbols, structure.parents, strict=True)
    ):
        above = start if parent < 0 else configurations[parent]
        here = above.next.get(symbol) or step(above, symbol)
        configurations.append(here)
        nodes.setdefault(here, []).append(number)
    found: dict[State, list[int]] = {}
    mixed: set[State] = set()
    for configuration, numbers in nodes.items():
        for state in configuration.reached:
            known = found.setdefault(state, numbers)
            if known is not numbers:
                found[state] = known + numbers
                mixed.add(state)
    for state in mixed:
        found[state].sort()
    return dict(found)


def _without(rows: Rows, pairs: set[int]) -> Rows:
    kept = ~np.isin(rows.pairs, list(pairs))
    if kept.all():
        return rows
    used = np.unique(rows.wanted[kept])
    places = np.cumsum(np.isin(np.arange(len(rows.valued)), used), dtype=np.int32) - 1
    wanted = np.append(places, np.int32(-1))[rows.wanted[kept]]
    valued = tuple(rows.valued[place] for place in used if place >= 0)
    return Rows(valued, rows.pairs[kept], rows.firsts[kept], rows.seconds[kept], wanted)


def matches(shape: Shape, hits: Mapping[Place, Sequence[int]], place: Place) -> Sequence[int]:
    """Return the nodes that match a place, given those of places with conditions on values."""
    if place.structural:
        return shape.matching(place)
    if place.conditions:
        return hits.get(place, ())
    assert place.parent is not None, "a stream's own place is plain"
    return shape.under(place.state, matches(shape, hits, place.parent))


# -- Remembering ---------------------------------------------------------------------------


class Shapes:
    """The shapes that documents had, as far as the budget goes.

    One is remembered when it is met the second time: where all documents
    differ, as deeply nested ones do, there would be no use in it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, ...], Outline], tuple[Shape, int]] = {}
        self._seen: set[int] = set()
        self._remembered = Remembered()
        self._size = 0

    def shape(
        self, automaton: Automaton, streams: tuple[str, ...], outlined: Outline
    ) -> Shape | None:
        """Return the shape of a document; None if no pattern reads its streams."""
        key = streams, outlined
        known = self._known.get(key)
        if known is not None:
            shape, size = known
            if shape.changes == automaton.now or (
                shape.learned <= size + LEARNT and shape.learn(automaton)
            ):
                return shape
            self._forget(key)
        start = automaton.start(streams)
        if start is None:
            return None
        shape = Shape(automaton, *start, streams, Structure(outlined))
        number = hash(key)
        if number in self._seen:
            self._remember(key, shape)
        else:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            self._seen.add(number)
        return shape

    def _remember(self, key: tuple[tuple[str, ...], Outline], shape: Shape) -> None:
        """Keep a shape, and drop those kept longest if it is too much."""
        size = len(shape.structure) + len(shape.rows) + sum(map(len, shape.found.values()))
        shape.remembered = self._remembered
        self._known[key] = shape, size
        self._size += size
        while self._size > BUDGET:
            self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[tuple[str, ...], Outline]) -> None:
        shape, size = self._known.pop(key)
        self._remembered.forget(shape)
        shape.remembered = None  # who still has it must not bring it back
        self._size -= size


def shape_of(automaton: Automaton, streams: tuple[str, ...], outlined: Outline) -> Shape | None:
    """Return the shape of a document; None if no pattern reads its streams."""
    if automaton.shapes is None:
        automaton.shapes = Shapes()
    assert isinstance(automaton.shapes, Shapes)
    return automaton.shapes.shape(automaton, streams, outlined)
