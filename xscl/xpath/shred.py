"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

What follows from a document's structure alone is known from its shape
(`xscl.xpath.shape`).  The rest is found from the top down: at the spots where
places with conditions on values may match, their index is asked, with the
texts of this document; what lies below a place that matches is looked at then,
and nothing below one that does not.  The witnesses are exact: a place matches a
node only if its conditions hold at that node and the place before matches the
node above, and a pair of bindings is a witness only if the steps between the
two hold between these very nodes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
from lxml import etree

from templates.relations import BINDINGS, VALUES
from xscl.language.syntax import Compare, Condition, Operand, Path
from xscl.residual import texts_of
from xscl.xpath.atoms import Constant, is_plain
from xscl.xpath.constants import Constants
from xscl.xpath.index import Candidate
from xscl.xpath.navigate import holds, select
from xscl.xpath.nfa import Automaton, Entry, Place, Spot, State
from xscl.xpath.shape import Bundled, Column, Rows, Shape, bindings, columns, matches, shape_of
from xscl.xpath.structure import is_structural, outline
from xscl.xpath.values import Attribute, Item, compares, string_value

MANY, TOO_MANY = 3, 64  # branches of a place, between which its rows are remembered


def run(automaton: Automaton, streams: tuple[str, ...], root: etree._Element) -> Walk | None:
    """Return what patterns match in a document; None if no pattern reads its streams."""
    nodes = list(root.iter())
    shape = shape_of(automaton, streams, outline(nodes))
    if shape is None:
        return None
    walk = Walk(shape, nodes)
    for spot, candidates in shape.spots:
        walk.search(spot, candidates)
    return walk


class Walk:
    """One document: its shape, its texts, and the places with conditions on these that match."""

    __slots__ = ("_derived", "_held", "_made", "_nodes", "_texts", "hits", "shape")

    def __init__(self, shape: Shape, nodes: Sequence[etree._Element]) -> None:
        self.shape = shape
        self.hits: dict[Place, Sequence[int]] = {}  # with the nodes that match, ascending
        self._nodes = nodes
        self._texts: dict[int, str] = {}
        self._held: dict[tuple[int, int], bool] = {}
        self._derived: dict[tuple[Operand, int], list[tuple[int, str]]] = {}
        self._made = 0

    @property
    def found(self) -> dict[State, Sequence[int]]:
        """The nodes that reached each state, ascending."""
        return self.shape.found

    def guarded(self, state: State) -> Iterator[Entry]:
        """Yield the entries of a state whose conditions on values hold somewhere."""
        for place in self.hits:
            for entry in place.bundled().entries:
                if entry.second.state is state:
                    yield entry

    def item(self, number: int) -> Item:
        """Return a node by its number."""
        place, name = self.shape.structure.places[number]
        node = self._nodes[place]
        return node if name is None else Attribute(node, name, str(node.get(name)))

    def text(self, number: int) -> str:
        """Return the string value of a node."""
        text = self._texts.get(number)
        if text is None:
            place, name = self.shape.structure.places[number]
            node = self._nodes[place]
            text = string_value(node) if name is None else str(node.get(name))
            self._texts[number] = text
        return text

    def matching(self, place: Place) -> Sequence[int]:
        """Return the nodes that match a place."""
        return matches(self.shape, self.hits, place)

    def search(self, spot: Spot, nodes: Sequence[int]) -> None:
        """Find the places of a spot that match some of these nodes, and what matches below."""
        index, hits = spot.valued, self.hits
        assert index is not None, "only spots with such places are searched"
        matched: list[Place] = []
        for node in nodes:
            proved: list[Place] = []
            found: list[Candidate[Place]] = []
            index.find(_Answers(self, node), proved, found)
            proved += [place for place, todo in found if self._hold(todo, node)]
            only = (node,)
            for place in proved:
                known = hits.get(place)
                if known is None:
                    hits[place] = only
                    matched.append(place)
                elif known[-1] != node:  # found by two alternatives of an OR
                    hits[place] = (*known, node)
        for place in matched:
            if place.deeper:
                self._look_below(place, hits[place])

    def _look_below(self, place: Place, nodes: Sequence[int]) -> None:
        """Find what matches below a place that matches some nodes."""
        under = self.shape.under
        for spot in place.spots:
            if spot.valued is not None and (below := under(spot.state, nodes)):
                self.search(spot, below)
        for child in place.children_at(self.shape.found):
            if child.deeper and (below := under(child.state, nodes)):
                self._look_below(child, below)

    def _hold(self, conditions: tuple[Condition, ...], node: int) -> bool:
        """Whether conditions hold at a node, each tried once."""
        for condition in conditions:
            key = id(condition), node
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = self._tried(condition, node)
            if not held:
                return False
        return True

    def _tried(self, condition: Condition, node: int) -> bool:
        """Whether a condition holds at a node."""
        if isinstance(condition, Compare) and is_plain(condition.path):
            operator, value = condition.operator, condition.value
            return any(compares(t, operator, value) for t in self.texts(condition.path, node))
        if is_structural(condition):
            return self.shape.structure.holds(condition, node)
        return holds(condition, self.item(node))

    def texts(self, path: Path, node: int) -> list[str]:
        """Return the string values of the nodes that a plain path selects from a node."""
        return [self.text(one) for one in self.shape.select(path, node)]

    def rows(self, place: Place, nodes: Sequence[int]) -> Bundled:
        """Return the rows of what is asked for at a place that matches, and below it."""
        shape, bundle = self.shape, place.bundled()
        assert place.parent is not None, "a stream's own place has no conditions"
        if shape.bundles is not None and len(nodes) == 1 and place.parent.structural:
            return shape.bundles.rows(shape, bundle, place, nodes[0])
        return columns(bundle.entries, shape.structure.parents, self.matching)

    def bindings(self, entry: Entry) -> Iterable[tuple[int, int]]:
        """Return the bindings of a pair of variables."""
        nodes = self.matching(entry.second)
        return bindings(entry, nodes, self.shape.structure.parents, self.matching)

    def derive(self, operand: Operand, node: int) -> list[tuple[int, str]]:
        """Return the derived nodes of an operand at a node, numbered behind all others."""
        known = self._derived.get((operand, node))
        if known is None:
            texts = texts_of(operand)(self.item(node))
            first = len(self.shape.structure) + self._made
            known = self._derived[operand, node] = list(enumerate(texts, first))
            self._made += len(known)
        return known


class _Answers:
    """A node that answers an index, each question once."""

    __slots__ = ("_known", "_node", "_texts", "_walk")

    def __init__(self, walk: Walk, node: int) -> None:
        self._walk = walk
        self._node = node
        self._known: dict[Constants, Set[Constant]] = {}
        self._texts: dict[int, list[str]] = {}  # by the paths of questions, which are kept there

    def suitable(self, constants: Constants) -> Set[Constant]:
        """Return the constants that suit the node's answer."""
        known = self._known.get(constants)
        if known is None:
            kind = constants.question.kind
            if kind == "child" or kind == "below":
                known = self._walk.shape.structure.answer(kind, self._node)
            else:
                known = constants.suitable(self._asked(constants))
            self._known[constants] = known
        return known

    def extremes(self, constants: Constants) -> tuple[Constant, Constant] | None:
        """Return the least and the greatest value of the node's answer."""
        return constants.extremes(self._asked(constants))

    def _asked(self, constants: Constants) -> list[str]:
        """Return the node's answer."""
        path = constants.question.path
        texts = self._texts.get(id(path))
        if texts is None:
            walk, node = self._walk, self._node
            if constants.plain:
                texts = walk.texts(path, node)
            else:
                texts = [string_value(item) for item in select(path, walk.item(node))]
            self._texts[id(path)] = texts
        return texts[:1] or [""] if constants.question.first else texts


class _Numbered(dict[str, int]):
    """Texts with numbers: one that is asked for the first time gets the next."""

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self)
        return number


class _Values(dict[int, int]):
    """The numbers of the values of one document's nodes, as far as they are wanted; -1 for -1."""

    def __init__(self, walk: Walk, numbers: _Numbered) -> None:
        self[-1] = -1
        self._walk = walk
        self._numbers = numbers

    def __missing__(self, node: int) -> int:
        number = self[node] = self._numbers[self._walk.text(node)]
        return number

    def numbers(self) -> set[int]:
        """Return the different numbers."""
        return set(self.values()) - {-1}


class Columns:
    """The columns of a batch's witnesses while they grow."""

    def __init__(self) -> None:
        self._shaped: dict[Rows, tuple[list[int], list[int]]] = {}  # documents; values of each
        self._docs: Column = array("q")
        self._bindings: tuple[Column, Column, Column, Column]
        self._bindings = array("i"), array("i"), array("i"), array("i")
        self._numbers = _Numbered()
        self._occurring: list[int] = []  # numbers of values, once for each document that has them

    def add(
        self, automaton: Automaton, doc: int, streams: tuple[str, ...], root: etree._Element
    ) -> None:
        """Add the witnesses of one document."""
        walk = run(automaton, streams, root)
        if walk is None:
            return
        shape = walk.shape
        value = _Values(walk, self._numbers)
        if len(shape.rows):
            docs, known = self._shaped.setdefault(shape.rows, ([], []))
            docs.append(doc)
            known += map(value.__getitem__, shape.rows.valued)
        pairs, firsts, seconds, values = self._bindings
        before = len(pairs)
        for entry in shape.derived:
            self._derived(entry, walk, value)
        for place, nodes in walk.hits.items():
            if not MANY <= len(place.children) < TOO_MANY:
                self._add_below(place, nodes, walk, value)
                continue
            found, uppers, lowers, wanted = walk.rows(place, nodes)
            pairs += found
            firsts += uppers
            seconds += lowers
            values.extend(map(value.__getitem__, wanted))
            for entry in place.bundled().derived:
                self._derived(entry, walk, value)
        self._docs += array("q", (doc,)) * (len(pairs) - before)
        self._occurring += value.numbers()

    def _add_below(self, place: Place, nodes: Sequence[int], walk: Walk, value: _Values) -> None:
        """Add the rows of what is asked for at a place that matches, and below it."""
        if place.entries:
            self._add(place.entries, nodes, walk, value)
        shape = walk.shape
        children = place.children
        for child in children if isinstance(children, tuple) else place.children_at(shape.found):
            if below := shape.under(child.state, nodes):
                if child.children:
                    self._add_below(child, below, walk, value)
                else:
                    self._add(child.entries, below, walk, value)

    def _add(
        self, entries: Iterable[Entry], nodes: Sequence[int], walk: Walk, value: _Values
    ) -> None:
        """Add the rows of entries, given the nodes that match the second variable of each."""
        pairs, firsts, seconds, values = self._bindings
        parents = walk.shape.structure.parents
        for entry in entries:
            if entry.derived is not None:
                self._derived(entry, walk, value)
            elif entry.distance == 1:
                for node in nodes:
                    pairs.append(entry.pair)
                    firsts.append(parents[node])
                    seconds.append(node)
                    values.append(value[node] if entry.valued else -1)
            else:
                for first, second in bindings(entry, nodes, parents, walk.matching):
                    pairs.append(entry.pair)
                    firsts.append(first)
                    seconds.append(second)
                    values.append(value[second] if entry.valued else -1)

    def _derived(self, entry: Entry, walk: Walk, value: _Values) -> None:
        """Add the rows of an entry for derived nodes, and note their values."""
        assert entry.derived is not None
        pairs, firsts, seconds, values = self._bindings
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                value[made] = self._numbers[text]
                pairs.append(entry.pair)
                firsts.append(made if entry.alone else upper)
                seconds.append(made)
                values.append(value[made] if entry.valued else -1)

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.relations.Witnesses`)."""
        parts = [_repeated(rows, *shaped) for rows, shaped in self._shaped.items()]
        parts.append([np.array(column) for column in (self._docs, *self._bindings)])
        united = [np.concatenate(column) for column in zip(*parts, strict=True)]
        without = [None, None, None, None, united[4] < 0]  # rows without a value
        arrays = [
            pa.array(column, field.type, mask=mask)
            for column, field, mask in zip(united, BINDINGS, without, strict=True)
        ]
        documents = np.bincount(self._occurring, minlength=len(self._numbers))
        values = [pa.array(list(self._numbers), pa.string()), pa.array(documents, pa.int32())]
        return pa.table(arrays, schema=BINDINGS), pa.table(values, schema=VALUES)


def _repeated(rows: Rows, docs: list[int], values: list[int]) -> list[Any]:
    """Return the columns of all documents that have the same rows, each with its own values."""
    count = len(docs)
    numbered = np.full((count, len(rows.valued) + 1), -1, np.int32)  # the last for those without
    numbered[:, :-1] = np.array(values, np.int32).reshape(count, -1)
    return [
        np.repeat(np.array(docs, np.int64), len(rows)),
        np.tile(rows.pairs, count),
        np.tile(rows.firsts, count),
        np.tile(rows.seconds, count),
        numbered[:, rows.wanted].ravel(),
    ]
