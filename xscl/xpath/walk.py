"""One document: what its patterns match, found from the top down.

What follows from a document's structure alone is known from its shape
(`xscl.xpath.shape`).  At the spots where places with conditions on values may
match, their index is asked, with the texts of this document; what lies below a
place that matches is looked at then, and nothing below one that does not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence, Set

from lxml import etree

from xscl.language.syntax import Compare, Condition, Operand, Path
from xscl.xpath.atoms import Constant, is_plain
from xscl.xpath.constants import Constants
from xscl.xpath.index import Candidate
from xscl.xpath.navigate import holds, select
from xscl.xpath.nfa import Automaton
from xscl.xpath.places import Bundle, Entry, Place, Spot, State
from xscl.xpath.residual import texts_of
from xscl.xpath.rows import Column, Packed, bindings
from xscl.xpath.shape import Shape, matches, shape_of
from xscl.xpath.structure import is_structural, outline
from xscl.xpath.values import Attribute, Item, compares, string_value

TOO_MANY = 64  # branches of a place from which on its rows are not remembered


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
        deeper: list[Place] = []
        for node in nodes:
            proved: list[Place] = []
            found: list[Candidate[Place]] = []
            index.find(_Answers(self, node), proved, found)
            if found:
                proved += [place for place, todo in found if self._hold(todo, node)]
            only = (node,)
            for place in proved:
                known = hits.setdefault(place, only)
                if known is only:
                    if place.deeper:
                        deeper.append(place)
                elif known[-1] != node:  # found by two alternatives of an OR
                    hits[place] = (*known, node)
        for place in dict.fromkeys(deeper):
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

    def known(self) -> Mapping[tuple[Bundle | None, int], Packed]:
        """Return the packed rows that are known of the structure, by bundle and node."""
        remembered = self.shape.remembered
        return {} if remembered is None else remembered.of(self.shape)

    def packed(self, place: Place, nodes: Sequence[int]) -> Packed | None:
        """Return the rows of what is asked for at a place that matches, and below it.

        None if they are not the same wherever the place matches in this structure, or too many.
        """
        remembered = self.shape.remembered
        assert place.parent is not None, "a stream's own place has no conditions"
        if remembered is None or len(nodes) > 1 or not place.parent.structural:
            return None
        rows = array("i")
        if len(place.children) >= TOO_MANY or not self._pack(place, nodes, rows):
            return None
        packed = rows.tobytes()
        remembered.keep(self.shape, place.bundled(), nodes[0], packed)
        return packed

    def _pack(self, place: Place, nodes: Sequence[int], rows: Column) -> bool:
        """Append the rows of a place and of those below it; False if there are derived nodes."""
        shape = self.shape
        parents, wanted = shape.structure.parents, shape.wanted
        for entry in place.entries:
            if entry.derived is not None:
                return False
            for first, second in bindings(entry, nodes, parents, self.matching):
                value = wanted.setdefault(second, len(wanted)) if entry.valued else -1
                rows.extend((entry.pair, first, second, value))
        for child in place.children_at(shape.found):
            below = shape.under(child.state, nodes)
            if below and not self._pack(child, below, rows):
                return False
        return True

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
