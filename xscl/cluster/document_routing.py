"""The routes of documents on the grid: the cells to which their values of designated joins hash.

One automaton has the paths of all designated nodes, without their conditions, so that it is small
and changes seldom.  A document may go to more cells than its matches need, and never to fewer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from feeds.xml.xmlparse import parse
from templates.model.relations import Pair
from xscl.cluster.designated_joins import Designated, relaxed, shared_values
from xscl.cluster.grid import Grid, Routes, share_of
from xscl.shredding.arrivals import Arrivals
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import install_pairs
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shred import WitnessColumns
from xscl.store.store import Store

SAMPLE = 256
"""Kept documents, the newest ones, of which values are counted when a join is designated."""


class _Paths:
    """An automaton of paths, each by a number."""

    def __init__(self, definitions: Iterable[str] = ()) -> None:
        self.automaton = Automaton()
        self.numbers: dict[str, int] = {}
        self._next = 1
        for one in definitions:
            self.add(one)

    def add(self, definition: str) -> None:
        """Install a path, unless it is installed."""
        if definition not in self.numbers:
            self.numbers[definition], self._next = self._next, self._next + 1
            pair = Pair(self.numbers[definition], definition, definition, valued=True)
            install_pairs(self.automaton, [pair])

    def remove(self, definition: str) -> None:
        self.automaton.remove(self.numbers.pop(definition))


class Router:
    """The routes of documents.  The engine's lock guards it."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._paths = _Paths()
        self._groups = defaultdict[str, Counter[int]](Counter)  # uses by path and group

    def add(self, designated: Iterable[Designated]) -> None:
        """Route the documents of some subscriptions."""
        for one in designated:
            for path in (relaxed(one.first), relaxed(one.second)):
                self._paths.add(path)
                self._groups[path][one.cell] += 1

    def remove(self, designated: Iterable[Designated]) -> None:
        """Route the documents of some subscriptions no more, as far as others do not need them."""
        for one in designated:
            for path in (relaxed(one.first), relaxed(one.second)):
                groups = self._groups[path]
                groups[one.cell] -= 1
                if not groups[one.cell]:
                    del groups[one.cell]
                if not groups:
                    del self._groups[path]
                    self._paths.remove(path)

    def routes(self, arrivals: Arrivals) -> Routes:
        """Return the cells of each document, in their order: one for each value in each group."""
        count, cells = len(arrivals), self._grid.cells
        if not (count and self._groups):
            return [()] * count
        read = (arrivals.document(place) for place in range(count))
        docs, pairs, values, texts = _bound(self._paths, arrivals.streams, read)
        shares = np.array([share_of(one, self._grid.width) for one in texts], np.int64)
        found = [np.empty(0, np.int64)]
        for path, groups in self._groups.items():
            at = pairs == self._paths.numbers[path]
            to = docs[at] * cells + shares[values[at]]
            found += (to + first for first in groups)
        each = np.unique(np.concatenate(found))
        ends = np.searchsorted(each // cells, np.arange(1, count))
        return [tuple(some.tolist()) for some in np.split(each % cells, ends)]


def kept_values(store: Store, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the share of equal values of pairs of paths, in the newest kept documents."""
    rows = store.fetch(
        "SELECT streams, xml FROM state.document JOIN state.text USING (doc)"
        f" ORDER BY doc DESC LIMIT {SAMPLE}"
    )
    paths = _Paths(path for pair in pairs for path in pair)
    counts = {path: Counter[str]() for path in paths.numbers}
    if rows:
        read = (parse(xml) for _, xml in rows)
        _, numbers, values, texts = _bound(paths, [tuple(names) for names, _ in rows], read)
        for path, number in paths.numbers.items():
            counts[path].update(texts[value] for value in values[numbers == number].tolist())
    return shared_values(counts, pairs)


def _bound(
    paths: _Paths, streams: Sequence[tuple[str, ...]], read: Iterable[ReadDocument]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Return the bindings of paths, and the values.

    A binding has the place of a document, and the numbers of a path and of a value.
    """
    columns = WitnessColumns(paths.automaton)
    for place, document in enumerate(read):
        columns.add(place, streams[place], document)
    bindings, values = columns.tables()
    docs, pairs, numbers = (bindings[name].to_numpy() for name in ("doc", "pair", "value"))
    return docs, pairs, numbers, values["strVal"].to_pylist()
