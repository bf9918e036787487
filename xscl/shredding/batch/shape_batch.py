"""Evaluation of documents of one shape together: matches of patterns, from the top down.

The structural results of a document are those of its shape (`xscl.shredding.batch.shape`).
At the spots where places with conditions on values may match, their index is probed
with the texts of all these documents, question by question.  Then the places below a
match are evaluated, and none below a mismatch.

A batch has few structures.  Evaluation question by question takes less than half of
the time of evaluation document by document (docs/decisions/stage-1.md): a question is prepared
once, and so are the results of one constant for several documents.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lxml import etree

from cep_core.algebra.function_bounds import Budget, spending
from xscl.language.syntax import Condition, Operand, Residual, ValueTest
from xscl.shredding.automaton.automaton_states import (
    BoundLevel,
    Branch,
    ConditionIndex,
    IndexedPlaces,
    Level,
    PairEntry,
    PatternPlace,
)
from xscl.shredding.automaton.lineage import Packed, bindings
from xscl.shredding.automaton.structure import is_structural
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shape import DocumentShape, matches
from xscl.shredding.conditions.atoms import Constant, is_plain
from xscl.shredding.conditions.constants import ConstantSet
from xscl.shredding.conditions.navigate import evaluate, select, text_holds
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.conditions.unevaluated import NotEvaluated
from xscl.shredding.nodes import AttributeNode, Item, steps_of, string_value

if TYPE_CHECKING:
    from xscl.shredding.conditions.xpath import Evaluation

# -- Views: the answers of an index at one node of a shape -----------------------------------
# The constants that a node satisfies are computed for each document.  Their results are not: the
# places whose conditions they prove have equal rows in all documents of a shape, and are assembled
# once, until the automaton changes.

TOO_MANY = 64  # branches of a place from which on its rows are not remembered


ConditionalPlace: TypeAlias = tuple[PatternPlace, tuple[Condition, ...], "Packed | None"]
"""A place that matches if conditions hold, and its rows if they are the same everywhere."""

ViewResult: TypeAlias = "tuple[Packed, Sequence[ConditionalPlace], IndexView | None]"
"""The result of a constant: rows of matching places, conditional places, a view to ask next."""


class ViewQuestion:
    """A question to a node, with the results of the constants that have satisfied it so far.

    `nodes` are those whose texts are the answer, None if conditions on the way decide.  Questions
    of one `key` have one answer; with `equal` it is the text of the only node.
    """

    __slots__ = ("constants", "equal", "found", "key", "level", "node", "nodes")

    def __init__(
        self,
        constants: ConstantSet,
        level: Level,
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

    def __init__(self, shape: DocumentShape, index: ConditionIndex, node: int, alone: bool) -> None:
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
                self.here += [self.found(level[name]) for name in level.keys() & names]
            elif not constants.plain:
                self.asked.append(ViewQuestion(constants, level, node, None))
            elif (nodes := shape.select(constants.steps, node)) or constants.unconditional:
                if constants.question.first and constants.question.through is None:
                    nodes = nodes[:1]
                self.asked.append(ViewQuestion(constants, level, node, nodes))

    def behind(self, asked: ViewQuestion, constant: Constant) -> ViewResult:
        """Return the results below a constant of the index that satisfies a question."""
        found = asked.found.get(constant)
        if found is None:
            branch = asked.level.get(constant)
            assert branch is not None, "constants that suit are those of the level"
            found = self.found(branch)
            if self._alone or isinstance(branch, ConditionIndex):
                asked.found[constant] = found
        return found

    def found(self, branch: Branch) -> ViewResult:
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
    packed = shape.rows.get((place, node))
    if packed is None:
        matching = partial(matches, shape, {place: (node,)})
        packed, derived = packed_rows(shape, matching, place, (node,))
        if derived:
            return None
        cache.keep(shape, place, node, packed)
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


# -- One document apart from others of its shape ---------------------------------------------
# Most matches are found for many documents at once.  The rest is here: conditions that have to be
# tested, places that match several nodes or have further conditions below, and derived nodes.


class DocumentWalk:
    """One document of a shape, and the places that match it."""

    __slots__ = (
        *("_budgets", "_derived", "_held", "_made", "doc", "hits", "read", "residuals", "shape"),
        "unevaluated",
    )

    def __init__(self, shape: DocumentShape, doc: int, read: ReadDocument) -> None:
        self.shape = shape
        self.doc = doc
        self.read = read
        self.hits: dict[PatternPlace, Sequence[int]] = {}  # with the nodes that match, ascending
        self.unevaluated: list[NotEvaluated] = []
        self._held: dict[tuple[int, int], bool | NotEvaluated] = {}
        self._derived: dict[tuple[Operand, int], list[tuple[int, str]]] = {}
        self._budgets: dict[Operand, Budget] = {}
        self._made = 0
        self.residuals: Evaluation | None = None  # made with the first one

    def item(self, number: int) -> etree._Element | AttributeNode:
        """Return a node by its number."""
        place, name = self.shape.structure.places[number]
        node = self.read.nodes[place]
        return node if name is None else AttributeNode(node, name, str(node.get(name)))

    def text(self, number: int) -> str:
        """Return the string value of a node."""
        return self.read.text(*self.shape.structure.places[number])

    def matching(self, place: PatternPlace) -> Sequence[int]:
        """Return the nodes that match a place."""
        return matches(self.shape, self.hits, place)

    def hit(self, place: PatternPlace, node: int) -> bool:
        """Record that a node matches a place, in ascending order; return True if it is new."""
        known = self.hits.get(place)
        if known is None:
            self.hits[place] = (node,)
            return True
        if known[-1] != node:  # found by two alternatives of an OR
            self.hits[place] = (*known, node)
        return False

    def hold(self, conditions: tuple[Condition, ...], node: int) -> bool:
        """Evaluate conditions at a node, each once; what cannot be evaluated does not hold."""
        failed: list[NotEvaluated] = []
        for condition in conditions:
            key = id(condition), node
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = self._tried(condition, node)
            if isinstance(held, NotEvaluated):
                failed.append(held)
            elif not held:
                return False
        self.unevaluated += failed
        return not failed

    def _tried(self, condition: Condition, node: int) -> bool | NotEvaluated:
        """Evaluate a condition at a node."""
        try:
            if isinstance(condition, ValueTest) and is_plain(condition.path):
                nodes = self.shape.select(steps_of(condition.path), node)
                return text_holds(condition, map(self.text, nodes))
            if is_structural(condition):
                return self.shape.structure.subtrees[node].holds(condition)
            return evaluate(condition, self.item(node), self._residual)
        except NotEvaluated as error:
            return error

    def _residual(self, condition: Residual, item: Item) -> bool:
        assert not isinstance(item, str), "conditions are tested at elements and attributes"
        if self.residuals is None:
            from xscl.shredding.conditions.xpath import evaluation  # loads elementpath

            self.residuals = evaluation(self.read.nodes[0])
        return self.residuals.holds(condition, item)

    def bindings(self, entry: PairEntry) -> Iterable[tuple[int, int]]:
        """Return the bindings of a pair of variables."""
        nodes = self.matching(entry.second)
        return bindings(entry, nodes, self.shape.structure.parents, self.matching)

    def derive(self, operand: Operand, node: int) -> list[tuple[int, str]]:
        """Return the derived nodes of an operand at a node, numbered after all others.

        The number of a derived node depends on the order of demand.  It is in no match, since no
        user names such a node, and in joins only beside its pair: only `R_bin` and `R_doc` show
        it.
        """
        known = self._derived.get((operand, node))
        if known is None:
            with spending(self._budgets.setdefault(operand, Budget())):
                texts = texts_of(operand)(self.item(node))
            first = len(self.shape.structure) + self._made
            known = self._derived[operand, node] = list(enumerate(texts, first))
            self._made += len(known)
        return known


# -- Documents together ----------------------------------------------------------------------


class ShapeBatch:
    """Documents of one shape, by their places from 0, and the rows of their matches.

    A place of the automaton that matches a document has packed rows (`rows`, each with its
    documents, `owners`; a document may own several), or is among the hits of the document.
    """

    __slots__ = (
        *("_answers", "_behind", "_deeper", "_texts", "_views", "documents", "owners", "rows"),
        "shape",
    )

    def __init__(self, shape: DocumentShape) -> None:
        self.shape = shape
        self.documents: list[DocumentWalk] = []  # all before the evaluation
        self._texts: dict[int, dict[int, str]] = {}  # by node and place, as they are read
        self.rows: list[Packed] = []
        self.owners: list[Sequence[int]] = []
        self._deeper: list[tuple[int, PatternPlace]] = []  # places that match, with others below
        self._behind: list[tuple[IndexView, Sequence[int]]] = []  # what is to be looked at next
        self._answers: dict[tuple[Hashable, ...], list[Any]] = {}
        self._views: dict[tuple[Hashable, int], Any] = {}

    def texts(self, node: int, which: Sequence[int]) -> list[str]:
        """Return the string values of a node in some documents."""
        known = self._texts.setdefault(node, {})
        place, name = self.shape.structure.places[node]
        for one in which:
            if one not in known:
                known[one] = self.documents[one].read.text(place, name)
        return [known[one] for one in which]

    def find(self, changes: int) -> None:
        """Compute the matches, given the automaton's number of changes."""
        if self.shape.cache is not None:
            if self.shape.shown != changes:
                self.shape.views.clear()
                self.shape.cache.forget_rows(self.shape)
                self.shape.shown = changes
            self._views = self.shape.views
        every = range(len(self.documents))
        for spot, nodes in self.shape.spots:
            self._search(spot, nodes, every)

    def take(self, rows: Packed, owners: Sequence[int]) -> None:
        """Take rows that some documents own."""
        self.rows.append(rows)
        self.owners.append(owners)

    # -- Places ----------------------------------------------------------------------------

    def _search(self, spot: IndexedPlaces, nodes: Sequence[int], which: Sequence[int]) -> None:
        """Find the places of a spot that match some of these nodes, and the matches below."""
        index = spot.valued
        alone = len(nodes) == 1 and spot.parent.structural
        for node in nodes:
            view = self._views.get((index, node))
            if view is None:
                view = self._views[index, node] = IndexView(self.shape, index, node, alone)
            self._probe(view, which)
        deeper, self._deeper = self._deeper, []
        for one, place in deeper:
            self._search_below(place, self.documents[one].hits[place], one)

    def _search_below(self, place: PatternPlace, nodes: Sequence[int], which: int) -> None:
        """Find the matches below a place that matches some nodes of a document."""
        under = self.shape.under
        for spot in place.spots:
            if spot.valued and (below := under(spot.state, nodes)):
                self._search(spot, below, (which,))
        for child in place.children_at(self.shape.reached):
            if child.deeper and (below := under(child.state, nodes)):
                self._search_below(child, below, which)

    def _probe(self, view: IndexView, which: Sequence[int]) -> None:
        """Probe an index at a node of some documents, and then the branches behind the answers."""
        looked = [(view, which)]
        while looked:
            if len(looked) > 1:
                self._evaluate(looked)
            self._behind = []
            for view, which in looked:
                for found in view.here:
                    self._record(found, view.node, which)
                for asked in view.asked:
                    for constant, some in self._satisfied(asked, which).items():
                        self._record(view.behind(asked, constant), view.node, some)
            looked = self._behind

    def _record(self, found: ViewResult, node: int, which: Sequence[int]) -> None:
        """Record the matches at a node of some documents."""
        rows, candidates, view = found
        if rows:
            self.take(rows, which)
        for one in which if candidates else ():
            walk = self.documents[one]
            for place, todo, packed in candidates:
                if not todo or walk.hold(todo, node):
                    if packed is not None:
                        self.take(packed, (one,))
                    elif walk.hit(place, node) and place.deeper:
                        self._deeper.append((one, place))
        if view is not None:
            self._behind.append((view, which))

    # -- Questions -------------------------------------------------------------------------

    def _evaluate(self, looked: Sequence[tuple[IndexView, Sequence[int]]]) -> None:
        """Ask the questions of several views, each of the documents of all of them."""
        wanted: dict[tuple[Hashable, ...], tuple[ViewQuestion, list[int]]] = {}
        for view, which in looked:
            for asked in view.asked:
                if not asked.equal:
                    wanted.setdefault(asked.key, (asked, []))[1].extend(which)
        for asked, some in wanted.values():
            self._answered(asked, some)

    def _satisfied(
        self, asked: ViewQuestion, which: Sequence[int]
    ) -> Mapping[Constant, Sequence[int]]:
        """Return the constants that some documents satisfy, each with these documents."""
        level = asked.level
        suited: defaultdict[Constant, list[int]] = defaultdict(list)
        if asked.equal:
            assert asked.nodes is not None
            for one, text in zip(which, self.texts(asked.nodes[0], which), strict=True):
                if text in level:
                    suited[text].append(one)
            return suited
        answers = self._answered(asked, which)
        for one in which:
            if answer := answers[one]:
                suiting = (
                    level.bounds.kept_by(*answer)
                    if isinstance(level, BoundLevel)
                    else level.keys() & answer
                )
                for constant in suiting:
                    suited[constant].append(one)
        return suited

    def _answered(self, asked: ViewQuestion, which: Sequence[int]) -> list[Any]:
        """Return the answers of documents to a question, of some at least.

        An answer is the satisfied constants, or the extremes for an ordered question.
        """
        constants, nodes = asked.constants, asked.nodes
        answers = self._answers.get(asked.key)
        if answers is None:
            answers = self._answers[asked.key] = [None] * len(self.documents)
        missing = [one for one in which if answers[one] is None]
        if not missing:
            return answers
        plain = constants.question.through is None and not constants.ordered
        if nodes is not None and len(nodes) == 1 and plain:
            some = map(constants.finder(), self.texts(nodes[0], missing))
            for one, answer in zip(missing, some, strict=True):
                answers[one] = answer
            return answers
        if nodes is None:
            path = constants.question.path
            items = (self.documents[one].item(asked.node) for one in missing)
            every: Iterable[Sequence[str]]
            every = [[string_value(found) for found in select(path, item)] for item in items]
        elif not nodes:
            every = [()] * len(missing)
        else:
            every = zip(*(self.texts(node, missing) for node in nodes), strict=True)
        answered = constants.extremes if constants.ordered else constants.suitable
        for one, texts in zip(missing, every, strict=True):
            answers[one] = answered(constants.answer(texts))
        return answers
