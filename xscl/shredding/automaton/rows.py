"""Rows of witnesses: the bindings of pairs of variables, also packed, for many documents at once.

A bundle is the set of entries at a place without further conditions on values.  At
a node of a known structure its rows are equal in all documents, except for the
values: they are cached as bytes, which a batch concatenates.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence, Set
from typing import Any, TypeAlias

from xscl.shredding.automaton.automaton_states import Bundle, Entry, Place

BUNDLES = 200_000  # bundles whose rows are remembered, of all shapes

Column: TypeAlias = "array[int]"
Packed: TypeAlias = bytes
"""Rows of four numbers: pair, first and second node, place of its value in `Shape.wanted` or -1."""

WIDTH = 4


def bindings(
    entry: Entry,
    nodes: Sequence[int],
    parents: Sequence[int],
    matching: Callable[[Place], Collection[int]],
) -> Iterable[tuple[int, int]]:
    """Return the bindings of a pair of variables, given the nodes that match the second."""
    if entry.distance == 1:
        return [(parents[node], node) for node in nodes]
    if entry.distance == 0:
        return [(node, node) for node in nodes]
    if entry.distance is None and len(uppers := matching(entry.first)) == 1:
        (upper,) = uppers  # whatever matches the second is below it
        return [(upper, node) for node in nodes]
    return _far_bindings(entry, nodes, parents, matching)


def _far_bindings(
    entry: Entry,
    nodes: Sequence[int],
    parents: Sequence[int],
    matching: Callable[[Place], Collection[int]],
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
    """Yield those of the matched nodes from which a step's axis leads to a node."""
    above = parents[node]
    while True:
        if above in matched:
            yield above
        if above < 0 or not descendant:
            return
        above = parents[above]


class Known:
    """The cache of one shape: rows by bundle and node, and views by index and node."""

    __slots__ = ("_shown", "_views", "rows")

    def __init__(self) -> None:
        self.rows: dict[tuple[Bundle, int], Packed] = {}
        self._views: dict[tuple[Hashable, int], Any] = {}  # see `xscl.shredding.batch.index_view`
        self._shown = -1

    def views(self, changes: int) -> dict[tuple[Hashable, int], Any]:
        """Return the views of an automaton with a number of changes; a change drops all."""
        if self._shown != changes:
            self._views.clear()
            self._shown = changes
        return self._views

    def clear(self) -> None:
        """Clear the cache."""
        self.rows.clear()
        self._views.clear()


class Remembered:
    """The bounded cache of all shapes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Known] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, shape: Hashable) -> Known:
        """Return the cache of a shape; `keep` adds rows."""
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = Known()
        return known

    def keep(self, shape: Hashable, bundle: Bundle, node: int, rows: Packed) -> None:
        """Cache rows; if they exceed the bound, drop all others."""
        if self._count >= BUNDLES:
            for known in self._known.values():
                known.clear()
            self._count = 0
        self.of(shape).rows[bundle, node] = rows
        self._count += 1

    def forget(self, shape: Hashable) -> None:
        """Drop the cache of a shape."""
        known = self._known.pop(shape, None)
        if known is not None:
            self._count -= len(known.rows)
