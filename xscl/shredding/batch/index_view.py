"""Views: the answers of an index at one node of a shape, computed lazily.

The constants that a node satisfies are computed for each document.  Their results are
not: the places whose conditions they prove have equal rows in all documents of a
shape, and are assembled once, until the automaton changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeAlias

from xscl.language.syntax import Condition
from xscl.shredding.automaton.automaton_states import PairEntry, PatternPlace
from xscl.shredding.automaton.lineage import Packed, bindings
from xscl.shredding.batch.shape import DocumentShape, matches
from xscl.shredding.conditions.atoms import Constant
from xscl.shredding.conditions.constants import ConstantSet
from xscl.shredding.conditions.index import Branch, ConditionIndex, Level

TOO_MANY = 64  # branches of a place from which on its rows are not remembered


ConditionalPlace: TypeAlias = tuple[PatternPlace, tuple[Condition, ...], "Packed | None"]
"""A place that matches if conditions hold, and its rows if they are the same everywhere."""

ViewResult: TypeAlias = "tuple[Packed, Sequence[ConditionalPlace], IndexView | None]"
"""What a constant leads to: rows of places that match, other places, more to be asked."""


class ViewQuestion:
    """A question to a node, with the results of the constants that have satisfied it so far.

    `nodes` are those whose texts are the answer, None if conditions on the way decide.  Questions
    of one `key` have one answer; with `equal` it is the text of the only node.
    """

    __slots__ = ("constants", "equal", "found", "key", "level", "node", "nodes")

    def __init__(
        self,
        constants: ConstantSet,
        level: Level[PatternPlace],
        node: int,
        nodes: Sequence[int] | None,
    ) -> None:
        self.constants = constants
        self.level = level
        self.node = node
        self.nodes = nodes
        asks = constants.question.kind == "=" and constants.question.through is None
        self.equal = asks and nodes is not None and len(nodes) == 1
        self.key: tuple[Hashable, ...] = constants, node
        if nodes is not None and constants.ordered:  # for all bounds of one kind the same
            self.key = constants.numeric, constants.question.through, *nodes
        self.found: dict[Constant, ViewResult] = {}


class IndexView:
    """An index at a node: its unconditional results, and the questions to ask.

    With `alone` no other node of a document can match a place of the index.
    """

    __slots__ = ("_alone", "asked", "here", "node", "shape")

    def __init__(
        self, shape: DocumentShape, index: ConditionIndex[PatternPlace], node: int, alone: bool
    ) -> None:
        self.shape = shape
        self.node = node
        self._alone = alone and shape.cache is not None
        self.here: list[ViewResult] = []
        self.asked: list[ViewQuestion] = []
        if index.here:
            self.here.append(self.found(index.here))
        for constants, level in index.levels.items():
            kind = constants.question.kind
            if kind == "child" or kind == "below":
                names = shape.structure.subtrees[node].answer(kind)
                assert isinstance(level, dict), "names are looked up by hash"
                self.here += [self.found(level[name]) for name in level.keys() & names]
            elif not constants.plain:
                self.asked.append(ViewQuestion(constants, level, node, None))
            elif (nodes := shape.select(constants.steps, node)) or constants.unconditional:
                if constants.question.first and constants.question.through is None:
                    nodes = nodes[:1]
                self.asked.append(ViewQuestion(constants, level, node, nodes))

    def behind(self, asked: ViewQuestion, constant: Constant) -> ViewResult:
        """Return the results of a constant that satisfies a question."""
        found = asked.found.get(constant)
        if found is None:
            branch = asked.level.get(constant)
            assert branch is not None, "constants that suit are those of the level"
            found = self.found(branch)
            if self._alone or isinstance(branch, ConditionIndex):
                asked.found[constant] = found
        return found

    def found(self, branch: Branch[PatternPlace]) -> ViewResult:
        """Return the results of a branch of the index."""
        if isinstance(branch, ConditionIndex):
            return b"", (), IndexView(self.shape, branch, self.node, self._alone)
        places = branch if isinstance(branch, list) else [(branch, ())]
        if not self._alone:
            return b"", [(place, todo, None) for place, todo in places], None
        rows: list[Packed] = []
        candidates: list[ConditionalPlace] = []
        for place, todo in places:
            packed = self._rows(place)
            if packed is None or todo:
                candidates.append((place, todo, packed))
            else:
                rows.append(packed)
        return b"".join(rows), candidates or (), None

    def _rows(self, place: PatternPlace) -> Packed | None:
        """Return the rows of a place that matches a document at most once; or None."""
        assert place.form is not None, "only places with conditions are looked up"
        if place.deeper or place.form.alternatives:
            return None
        return cached_rows(self.shape, place, self.node)


def cached_rows(shape: DocumentShape, place: PatternPlace, node: int) -> Packed | None:
    """Return the rows of the entries at a place that matches one node, and below it.

    None if they differ within this structure, or are too many.
    """
    cache = shape.cache
    assert place.parent is not None, "a stream's own place has no conditions"
    if cache is None or not place.parent.structural or len(place.children) >= TOO_MANY:
        return None
    bundle = place.bundled()
    packed = shape.rows.get((bundle, node))
    if packed is None:
        matching = partial(matches, shape, {place: (node,)})
        packed, derived = packed_rows(shape, matching, place, (node,))
        if derived:
            return None
        cache.keep(shape, bundle, node, packed)
    return packed


def packed_rows(
    shape: DocumentShape,
    matching: Callable[[PatternPlace], Sequence[int]],
    place: PatternPlace,
    nodes: Sequence[int],
) -> tuple[Packed, list[PairEntry]]:
    """Return the rows of a place that matches some nodes and of those below it.

    The entries for derived nodes are apart.
    """
    rows, derived = array("i"), list[PairEntry]()
    parents, wanted = shape.structure.parents, shape.wanted
    below = [(place, nodes)]
    while below:
        place, nodes = below.pop()
        for entry in place.entries:
            if entry.derived is not None:
                derived.append(entry)
                continue
            for first, second in bindings(entry, nodes, parents, matching):
                value = wanted.setdefault(second, len(wanted)) if entry.valued else -1
                rows.extend((entry.pair, first, second, value))
        for child in place.children_at(shape.reached):
            if under := shape.under(child.state, nodes):
                below.append((child, under))
    return rows.tobytes(), derived
