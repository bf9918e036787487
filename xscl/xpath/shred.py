"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

A document is walked once for all patterns on its streams; the automaton says
which states its nodes reach.  From there the witnesses are exact: a place of
a pattern matches a node only if its conditions hold at that node and the step
before matches the node above, and a pair of bindings is a witness only if the
steps between the two hold between these very nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lxml import etree

from templates.relations import BINDINGS, NODES, TIMES, VALUES, Witnesses
from xscl.language.syntax import Condition
from xscl.xpath.navigate import holds
from xscl.xpath.nfa import Automaton, Configuration, Entry, Place, State
from xscl.xpath.values import Attribute, Item, string_value


@dataclass(frozen=True, slots=True)
class Arrival:
    """A parsed document with its numbers: see `templates.relations.Witnesses`."""

    doc: int
    streams: tuple[str, ...]
    root: etree._Element
    ts: int
    clock: int
    rank: int
    base: int
    first: int


def shred(automaton: Automaton, arrivals: Iterable[Arrival]) -> Witnesses:
    """Return the witnesses of a batch of documents."""
    columns = _Columns()
    for arrival in arrivals:
        columns.times.append(
            (arrival.doc, arrival.ts, arrival.clock, arrival.rank, arrival.base, arrival.first)
        )
        walk = run(automaton, arrival.streams, arrival.root)
        if walk is not None:
            columns.add(arrival.doc, walk)
    return columns.tables()


def run(automaton: Automaton, streams: tuple[str, ...], root: etree._Element) -> Walk | None:
    """Walk a document through the automaton; None if no pattern reads its streams."""
    start = automaton.start(streams)
    if start is None:
        return None
    configuration, roots = start
    walk = Walk([], [], {}, {place: [-1] for place in roots})
    _walk(automaton, configuration, root, walk)
    return walk


def _walk(automaton: Automaton, start: Configuration, root: etree._Element, walk: Walk) -> None:
    items, parents, found = walk.items, walk.parents, walk.found
    pending: list[tuple[etree._Element, int, Configuration]] = [(root, -1, start)]
    while pending:
        element, parent, above = pending.pop()
        number = len(items)
        items.append(element)
        parents.append(parent)
        tag = str(element.tag)
        here = above.next.get(tag) or automaton.step(above, tag)
        for state in here.hits:
            found.setdefault(state, []).append(number)
        for name, value in element.attrib.items():
            symbol = "@" + str(name)
            reached = here.next.get(symbol) or automaton.step(here, symbol)
            for state in reached.hits:
                found.setdefault(state, []).append(len(items))
            items.append(Attribute(element, str(name), str(value)))
            parents.append(number)
        if len(element):
            pending.extend(
                [(child, number, here) for child in element.iterchildren("*", reversed=True)]
            )


@dataclass(slots=True)
class Walk:
    """One document's nodes, the states that each reached, and the places that match them.

    `items` and `parents` are indexed by node number; -1 is the document node
    above the root.
    """

    items: list[Item]
    parents: list[int]
    found: dict[State, list[int]]
    matched: dict[Place, list[int]]
    _sets: dict[Place, frozenset[int]] = field(default_factory=dict)
    _held: dict[tuple[Condition, int], bool] = field(default_factory=dict)

    def witnesses(self) -> Iterator[tuple[Entry, list[tuple[int, int]]]]:
        """Yield, for each pair of variables with bindings, the pairs of nodes."""
        for state in self.found:
            for entry in state.entries.values():
                rows = list(self._rows(entry))
                if rows:
                    yield entry, rows

    def matches(self, place: Place) -> list[int]:
        """Return the nodes that a place matches, ascending."""
        known = self.matched.get(place)
        if known is None:
            reached = self.found.get(place.state, [])
            if not place.plain:
                reached = [node for node in reached if self._fits(place, node)]
            known = self.matched[place] = reached
        return known

    def _fits(self, place: Place, node: int) -> bool:
        """Whether a node that reached the place's state matches the place."""
        return any(True for _ in self._above(place, node)) and all(
            self._holds(condition, node) for condition in place.conditions
        )

    def _holds(self, condition: Condition, node: int) -> bool:
        held = self._held.get((condition, node))
        if held is None:
            held = self._held[condition, node] = holds(condition, self.items[node])
        return held

    def _above(self, place: Place, node: int) -> Iterator[int]:
        """Yield the nodes above a node that match the place before, by the step's axis."""
        assert place.parent is not None, "the document node is never asked for"
        upper = self._set(place.parent)
        above = self.parents[node]
        if not place.descendant:
            if above in upper:
                yield above
            return
        while True:
            if above in upper:
                yield above
            if above < 0:
                return
            above = self.parents[above]

    def _set(self, place: Place) -> frozenset[int]:
        known = self._sets.get(place)
        if known is None:
            known = self._sets[place] = frozenset(self.matches(place))
        return known

    def _rows(self, entry: Entry) -> Iterator[tuple[int, int]]:
        for node in self.matches(entry.second):
            for upper in self._uppers(entry, node):
                yield upper, node

    def _uppers(self, entry: Entry, node: int) -> Iterable[int]:
        if entry.distance is not None:
            for _ in range(entry.distance):
                node = self.parents[node]
            return (node,)
        nodes = {node}
        for place in entry.path:
            nodes = {above for lower in nodes for above in self._above(place, lower)}
        return sorted(nodes)


class _Columns:
    """The columns of a batch's witnesses while they grow."""

    def __init__(self) -> None:
        self.times: list[tuple[int, int, int, int, int, int]] = []
        self._bindings: tuple[list[int], list[int], list[int], list[int], list[int | None]]
        self._bindings = ([], [], [], [], [])
        self._nodes: tuple[list[int], list[int], list[int | None]] = ([], [], [])
        self._rows: dict[str, int] = {}
        self._documents: list[int] = []

    def add(self, doc: int, walk: Walk) -> None:
        """Add the witnesses of one document."""
        docs, pairs, firsts, seconds, values = self._bindings
        nodes: dict[int, int | None] = {}
        seen: set[int] = set()
        for entry, rows in walk.witnesses():
            for first, second in rows:
                if entry.valued:
                    value = nodes.get(second)
                    if value is None:
                        value = nodes[second] = self._value(walk.items[second], seen)
                else:
                    value = None
                    nodes.setdefault(second, None)
                nodes.setdefault(first, None)
                docs.append(doc)
                pairs.append(entry.pair)
                firsts.append(first)
                seconds.append(second)
                values.append(value)
        ordered = sorted(nodes)
        self._nodes[0].extend([doc] * len(ordered))
        self._nodes[1].extend(ordered)
        self._nodes[2].extend([nodes[node] for node in ordered])

    def _value(self, item: Item, seen: set[int]) -> int:
        """Return the row of an item's string value, counting each document once."""
        text = string_value(item)
        row = self._rows.setdefault(text, len(self._documents))
        if row == len(self._documents):
            self._documents.append(0)
        if row not in seen:
            seen.add(row)
            self._documents[row] += 1
        return row

    def tables(self) -> Witnesses:
        return Witnesses(
            _table(self._bindings, BINDINGS),
            _table(self._nodes, NODES),
            _table(list(zip(*self.times, strict=True)) or [()] * len(TIMES), TIMES),
            _table((list(self._rows), self._documents), VALUES),
        )


def _table(columns: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
