"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

A document is walked once for all patterns on its streams; the automaton says
which states its nodes reach.  From there the witnesses are exact: a place of
a pattern matches a node only if its conditions hold at that node and the step
before matches the node above, and a pair of bindings is a witness only if the
steps between the two hold between these very nodes.

Witnesses of patterns without conditions depend on a document's structure
alone, and the items of a feed have few structures: they are computed once for
each (`Shape`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from lxml import etree

from templates.relations import BINDINGS, VALUES
from xscl.language.syntax import Condition, Operand, Path
from xscl.residual import texts_of
from xscl.xpath.navigate import holds, select
from xscl.xpath.nfa import Automaton, Configuration, Entry, Place, State, guard
from xscl.xpath.values import Attribute, Item, string_value

SHAPES = 10_000  # structures that are remembered


def run(automaton: Automaton, streams: tuple[str, ...], root: etree._Element) -> Walk | None:
    """Walk a document through the automaton; None if no pattern reads its streams."""
    start = automaton.start(streams)
    if start is None:
        return None
    configuration, roots = start
    walk = Walk([], [], [], {place: [-1] for place in roots})
    _walk(automaton, configuration, root, walk)
    return walk


def _walk(automaton: Automaton, start: Configuration, root: etree._Element, walk: Walk) -> None:
    items, parents, reached = walk.items, walk.parents, walk.reached
    pending: list[tuple[etree._Element, int, Configuration]] = [(root, -1, start)]
    while pending:
        element, parent, above = pending.pop()
        number = len(items)
        tag = str(element.tag)
        here = above.next.get(tag) or automaton.step(above, tag)
        items.append(element)
        parents.append(parent)
        reached.append(here)
        for name, value in element.attrib.items():
            symbol = "@" + str(name)
            reached.append(here.next.get(symbol) or automaton.step(here, symbol))
            items.append(Attribute(element, str(name), str(value)))
            parents.append(number)
        if len(element):
            pending.extend(
                [(child, number, here) for child in element.iterchildren("*", reversed=True)]
            )


@dataclass(slots=True)
class Walk:
    """One document's nodes, the configuration that each reached, and the places that match them.

    `items`, `parents` and `reached` are indexed by node number; -1 is the
    document node above the root.
    """

    items: list[Item]
    parents: list[int]
    reached: list[Configuration]
    matched: dict[Place, list[int]]
    _found: dict[State, list[int]] | None = None
    _sets: dict[Place, frozenset[int]] = field(default_factory=dict)
    _held: dict[tuple[int, int], bool] = field(default_factory=dict)
    _texts: dict[tuple[State, Path], frozenset[str]] = field(default_factory=dict)
    _derived: dict[tuple[Operand, int], list[tuple[int, str]]] = field(default_factory=dict)
    _made: int = 0

    @property
    def found(self) -> dict[State, list[int]]:
        """The nodes that reached each state, ascending."""
        if self._found is None:
            self._found = {}
            for number, configuration in enumerate(self.reached):
                for state in configuration.hits:
                    self._found.setdefault(state, []).append(number)
        return self._found

    def rows(self, entry: Entry) -> list[tuple[int, int]]:
        """Return the bindings of a pair of variables."""
        return [
            (upper, node)
            for node in self.matches(entry.second)
            for upper in self._uppers(entry, node)
        ]

    def derive(self, operand: Operand, node: int) -> list[tuple[int, str]]:
        """Return the derived nodes of an operand at a node, numbered behind all others."""
        known = self._derived.get((operand, node))
        if known is None:
            texts = texts_of(operand)(self.items[node])
            first = len(self.items) + self._made
            known = self._derived[operand, node] = list(enumerate(texts, first))
            self._made += len(known)
        return known

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
        key = id(condition), node
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = holds(condition, self.items[node])
        return held

    def guarded(self, state: State) -> Iterator[Entry]:
        """Yield the entries of a state whose conditions may hold in this document."""
        guarded = guard(state)
        for (where, path), by_value in guarded.by_value.items():
            for text in self._values(where, path):
                yield from by_value.get(text, ())
        yield from guarded.others

    def _values(self, state: State, path: Path) -> frozenset[str]:
        """Return the string values that a path has from the nodes that reached a state."""
        known = self._texts.get((state, path))
        if known is None:
            nodes = self.found.get(state, ())
            known = self._texts[state, path] = frozenset(
                string_value(item) for node in nodes for item in select(path, self.items[node])
            )
        return known

    def _above(self, place: Place, node: int) -> Iterator[int]:
        """Yield the nodes above a node that match the place before, by the step's axis."""
        assert place.parent is not None, "the document node is never asked for"
        upper = self._set(place.parent)
        above = self.parents[node]
        if not place.step.descendant:
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

    def _uppers(self, entry: Entry, node: int) -> Iterable[int]:
        if entry.distance is not None:
            for _ in range(entry.distance):
                node = self.parents[node]
            return (node,)
        nodes = {node}
        for place in entry.path:
            nodes = {above for lower in nodes for above in self._above(place, lower)}
        return sorted(nodes)


@dataclass(frozen=True, slots=True)
class Shape:
    """What all documents of one structure have in common: the witnesses without conditions.

    Columns of the rows, the nodes that occur in them, those of the nodes whose
    values are wanted; and the states with conditions, to be decided for each document.
    """

    pairs: tuple[int, ...]
    firsts: tuple[int, ...]
    seconds: tuple[int, ...]
    wanted: tuple[int | None, ...]
    valued: tuple[int, ...]
    conditional: tuple[State, ...]


def _shape(automaton: Automaton, walk: Walk) -> Shape:
    """Return the shape of a document; feeds have few, so it is looked up."""
    key = (tuple(walk.parents), tuple(walk.reached))
    shape = automaton.shapes.get(key)
    if shape is None:
        if len(automaton.shapes) >= SHAPES:
            automaton.shapes.clear()
        shape = automaton.shapes[key] = _shape_of(walk)
    assert isinstance(shape, Shape)
    return shape


def _shape_of(walk: Walk) -> Shape:
    entries = [entry for state in walk.found for entry in state.entries.values()]
    rows = [
        (entry.pair, first, second, second if entry.valued else None)
        for entry in entries
        if entry.plain
        for first, second in walk.rows(entry)
    ]
    pairs, firsts, seconds, wanted = zip(*rows, strict=True) if rows else ((), (), (), ())
    valued = tuple(sorted({node for node in wanted if node is not None}))
    conditional = tuple(
        state for state in walk.found if any(not entry.plain for entry in state.entries.values())
    )
    return Shape(pairs, firsts, seconds, wanted, valued, conditional)


class _Numbered(dict[str, int]):
    """Texts with numbers: one that is asked for the first time gets the next."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class Columns:
    """The columns of a batch's witnesses while they grow."""

    def __init__(self) -> None:
        self._bindings: tuple[list[int], list[int], list[int], list[int], list[int | None]]
        self._bindings = ([], [], [], [], [])
        self._rows = _Numbered()
        self._occurring: list[int] = []  # rows of values, once for each document that has them

    def add(
        self, automaton: Automaton, doc: int, streams: tuple[str, ...], root: etree._Element
    ) -> None:
        """Add the witnesses of one document."""
        walk = run(automaton, streams, root)
        if walk is not None:
            self._add(doc, walk, _shape(automaton, walk))

    def _add(self, doc: int, walk: Walk, shape: Shape) -> None:
        docs, pairs, firsts, seconds, values = self._bindings
        items, numbered = walk.items, self._rows
        value = {node: numbered[string_value(items[node])] for node in shape.valued}
        docs.extend([doc] * len(shape.pairs))
        pairs.extend(shape.pairs)
        firsts.extend(shape.firsts)
        seconds.extend(shape.seconds)
        values.extend([None if node is None else value[node] for node in shape.wanted])
        for entry in (e for state in shape.conditional for e in walk.guarded(state)):
            rows = walk.rows(entry)
            if entry.derived is not None:
                rows = self._derive(entry, entry.derived, rows, walk, value)
            for first, second in rows:
                if entry.valued and second not in value:
                    value[second] = numbered[string_value(items[second])]
                docs.append(doc)
                pairs.append(entry.pair)
                firsts.append(first)
                seconds.append(second)
                values.append(value[second] if entry.valued else None)
        self._occurring.extend(set(value.values()))

    def _derive(
        self,
        entry: Entry,
        operand: Operand,
        rows: list[tuple[int, int]],
        walk: Walk,
        value: dict[int, int],
    ) -> list[tuple[int, int]]:
        """Return the rows of derived nodes, and note their values."""
        made = []
        for upper, node in rows:
            for number, text in walk.derive(operand, node):
                value[number] = self._rows[text]
                made.append((number if entry.alone else upper, number))
        return made

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.relations.Witnesses`)."""
        documents = np.bincount(self._occurring, minlength=len(self._rows)).tolist()
        return (
            _table(self._bindings, BINDINGS),
            _table((list(self._rows), documents), VALUES),
        )


def _table(columns: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
