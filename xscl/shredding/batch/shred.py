"""Stage 1: from documents to witnesses (Hong 2009, section 6.3.1).

The witnesses are exact.  A place matches a node (`ShapeBatch`) only if its
conditions hold at that node and the place before matches the node above.  A pair of bindings is a
witness only if the steps between the two hold between these very nodes.

Rows are not written one by one: those of a structure and those of a place that matches are bytes
with the documents that own them, and become columns together.

Documents of one shape are evaluated together, from the top down.  The structural results of a
document are those of its shape (`xscl.shredding.batch.shape`).
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
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from lxml import etree

from cep_core.algebra.function_bounds import Budget, spending
from templates.columns import Column, distinct
from templates.model.relations import BINDINGS, VALUES
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
from xscl.shredding.automaton.lineage import WIDTH, Packed, bindings
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.structure import is_structural
from xscl.shredding.batch.known_markup import ReadDocument
from xscl.shredding.batch.shape import DocumentShape, DocumentShapes, matches
from xscl.shredding.conditions.atoms import Constant, is_plain
from xscl.shredding.conditions.constants import ConstantSet
from xscl.shredding.conditions.navigate import evaluate, select, text_holds
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.conditions.unevaluated import NotEvaluated
from xscl.shredding.nodes import AttributeNode, Item, steps_of, string_value

if TYPE_CHECKING:
    from xscl.shredding.conditions.evaluation import Evaluation


# -- Views: the answers of an index at one node of a shape -----------------------------------
# The constants that a node satisfies are computed for each document.  Their results are not: the
# places whose conditions they prove have equal rows in all documents of a shape, and are assembled
# once, until the automaton changes.

TOO_MANY = 64  # If a place has this many children, its rows are not cached.


ConditionalPlace: TypeAlias = tuple[PatternPlace, tuple[Condition, ...], "Packed | None"]
"""A place that matches if conditions hold; its rows, None if they differ between documents."""

ViewResult: TypeAlias = "tuple[Packed, Sequence[ConditionalPlace], IndexView | None]"
"""The result of a constant: rows of matching places, conditional places, a view to ask next."""


class ViewQuestion:
    """A question to a node, with the results of the constants that have satisfied it so far.

    `nodes` are those whose texts are the answer.  They are None if the path has conditions: then
    the nodes may differ between documents.  Questions of one `key` have one answer; with `equal`
    it is the text of the only node.
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
        # Ordered questions about the values of the same nodes have the same answer.
        if nodes is not None and constants.ordered:
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
        """Return the results behind a constant that satisfies the question `asked`."""
        found = asked.found.get(constant)
        if found is None:
            branch = asked.level.get(constant)
            assert branch is not None, "constants that suit are those of the level"
            found = self.found(branch)
            if self._alone or isinstance(branch, ConditionIndex):
                asked.found[constant] = found
        return found

    def found(self, branch: Branch) -> ViewResult:
        """Return the results behind a branch: matching places, conditional ones, a view to ask."""
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
        """Return the rows of a place at this node; None if it has spots below, or an OR."""
        assert place.form is not None, "only places with conditions are looked up"
        if place.deeper or place.form.alternatives:
            return None
        return cached_rows(self.shape, place, self.node)


def cached_rows(shape: DocumentShape, place: PatternPlace, node: int) -> Packed | None:
    """Return the packed rows of a place that matches one node, and of the places below it.

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
    """Return (packed rows, entries of derived nodes) of a place that matches `nodes`.

    The places below it are included.  `matching` returns the nodes that match a place.
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
    """One document of a shape during evaluation: reads its texts, and evaluates its conditions.

    `hits` has the nodes that match each place with conditions on values, as far as they are
    recorded for this document alone.
    """

    __slots__ = (
        *("_budgets", "_derived", "_held", "_made", "doc", "hits", "read", "residuals", "shape"),
        "unevaluated",
    )

    def __init__(self, shape: DocumentShape, doc: int, read: ReadDocument) -> None:
        self.shape = shape
        self.doc = doc
        self.read = read
        # the nodes that match each place, ascending
        self.hits: dict[PatternPlace, Sequence[int]] = {}
        self.unevaluated: list[NotEvaluated] = []
        self._held: dict[tuple[int, int], bool | NotEvaluated] = {}
        self._derived: dict[tuple[Operand, int], list[tuple[int, str]]] = {}
        self._budgets: dict[Operand, Budget] = {}
        self._made = 0
        self.residuals: Evaluation | None = None  # made for the first residual condition

    def item(self, number: int) -> etree._Element | AttributeNode:
        """Return the element or attribute that is the node `number`."""
        place, name = self.shape.structure.places[number]
        node = self.read.nodes[place]
        return node if name is None else AttributeNode(node, name, str(node.get(name)))

    def text(self, number: int) -> str:
        """Return the string value of the node `number`."""
        return self.read.text(*self.shape.structure.places[number])

    def matching(self, place: PatternPlace) -> Sequence[int]:
        """Return the nodes of the document that match a place, ascending."""
        return matches(self.shape, self.hits, place)

    def hit(self, place: PatternPlace, node: int) -> bool:
        """Record that a node matches a place; return True if it is the first one of the place.

        Nodes come in ascending order.
        """
        known = self.hits.get(place)
        if known is None:
            self.hits[place] = (node,)
            return True
        if known[-1] != node:  # found by two alternatives of an OR
            self.hits[place] = (*known, node)
        return False

    def hold(self, conditions: tuple[Condition, ...], node: int) -> bool:
        """Return True if all conditions hold at a node; each is evaluated there once.

        A condition that cannot be evaluated does not hold.
        """
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
        """Return the value of a condition at a node; the error of one that has none."""
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
            from xscl.shredding.conditions.evaluation import evaluation  # loads elementpath

            self.residuals = evaluation(self.read.nodes[0])
        return self.residuals.holds(condition, item)

    def bindings(self, entry: PairEntry) -> Iterable[tuple[int, int]]:
        """Return the bindings (first node, second node) of a pair of variables in the document."""
        nodes = self.matching(entry.second)
        return bindings(entry, nodes, self.shape.structure.parents, self.matching)

    def derive(self, operand: Operand, node: int) -> list[tuple[int, str]]:
        """Return (number, text) of each derived node of an operand at a node.

        These numbers follow those of all other nodes and depend on the order of the calls.  No
        match contains one, since no user names such a node: only `R_bin` and `R_doc` show it.
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

    Parameters called `which` are places of documents here, `node` is a number of a node.

    A place of the automaton that matches a document has packed rows (`rows`, each with its
    documents, `owners`; a document may own several), or is among the hits of the document.
    """

    __slots__ = (
        *("_answers", "_behind", "_deeper", "_texts", "_views", "documents", "owners", "rows"),
        "shape",
    )

    def __init__(self, shape: DocumentShape) -> None:
        self.shape = shape
        self.documents: list[DocumentWalk] = []  # complete when the evaluation begins
        # string values by node, then by document; read on demand
        self._texts: dict[int, dict[int, str]] = {}
        self.rows: list[Packed] = []
        self.owners: list[Sequence[int]] = []
        self._deeper: list[tuple[int, PatternPlace]] = []  # (document, place that matches it)
        # (view to probe next, indexes of documents)
        self._behind: list[tuple[IndexView, Sequence[int]]] = []
        self._answers: dict[tuple[Hashable, ...], list[Any]] = {}
        self._views: dict[tuple[Hashable, int], Any] = {}

    def texts(self, node: int, which: Sequence[int]) -> list[str]:
        """Return the string values of a node in the documents `which`, in their order."""
        known = self._texts.setdefault(node, {})
        place, name = self.shape.structure.places[node]
        for one in which:
            if one not in known:
                known[one] = self.documents[one].read.text(place, name)
        return [known[one] for one in which]

    def find(self, changes: int) -> None:
        """Compute the matches of all documents.

        `changes` is the automaton's number of changes: with another one, cached results are
        dropped.
        """
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
        """Add rows that belong to each document in `owners`."""
        self.rows.append(rows)
        self.owners.append(owners)

    # -- Places ----------------------------------------------------------------------------

    def _search(self, spot: IndexedPlaces, nodes: Sequence[int], which: Sequence[int]) -> None:
        """Find the places of a spot that match one of `nodes` in the documents `which`.

        The matches below these places are found, too.
        """
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
        """Find and record the matches below a place that matches `nodes` of a document `which`."""
        under = self.shape.under
        for spot in place.spots:
            if spot.valued and (below := under(spot.state, nodes)):
                self._search(spot, below, (which,))
        for child in place.children_at(self.shape.reached):
            if child.deeper and (below := under(child.state, nodes)):
                self._search_below(child, below, which)

    def _probe(self, view: IndexView, which: Sequence[int]) -> None:
        """Ask the questions of a view for the documents `which`, then those of the views behind."""
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
        """Record `found`, the results at a node, for the documents `which`.

        The rows of places that match are added, conditional places are tested, and a view is kept
        to be probed next.
        """
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
        """Answer the questions of some views, each given with its documents.

        Equal questions are answered once for all their documents.
        """
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
        """Return the constants that satisfy a question, each with the documents where it does.

        Only the documents `which` are asked.
        """
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
        """Return the answers to a question by document; None for some that are not in `which`.

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


# -- All documents ---------------------------------------------------------------------------

_TYPES = tuple(BINDINGS.types)
# Documents are collected until they have this many nodes together, then they are evaluated.
NODES = 30_000


class WitnessColumns:
    """Collects the witnesses of a batch in growing columns.

    The automaton must not change meanwhile.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._shapes = automaton.shapes = automaton.shapes or DocumentShapes()
        self._docs: list[int] = []  # numbers of documents; elsewhere a document is its index here
        self._alike: dict[DocumentShape, ShapeBatch] = {}
        self._waiting = 0  # nodes of documents that are not evaluated yet
        # from each value, a text, to its number, in the order of first occurrence
        self._numbers: dict[str, int] = {}
        self._parts: list[list[Column]] = []
        # index of a document in `_docs` << 32 | number of a value in it
        self._valued: list[Any] = []
        self._derived: list[tuple[int, ...]] = []  # rows of `BINDINGS` with derived nodes

    def add(self, doc: int, streams: tuple[str, ...], document: ReadDocument) -> None:
        """Add a document of some streams; it is evaluated together with others of its shape."""
        shape = self._shapes.shape(self._automaton, streams, document.skeleton)
        if shape is None:
            return
        together = self._alike.get(shape)
        if together is None:
            together = self._alike[shape] = ShapeBatch(shape)
        together.documents.append(DocumentWalk(shape, len(self._docs), document))
        self._docs.append(doc)
        self._waiting += len(shape.lines)
        if self._waiting >= NODES:
            self._flush()

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Return bindings and values (see `templates.model.relations.Witnesses`)."""
        self._flush()
        if self._derived or not self._parts:
            derived = np.array(self._derived, np.int32).reshape(-1, len(BINDINGS)).T
            self._record_values(derived[0], derived[-1])
            self._parts.insert(0, list(derived))
        which, *united = map(np.concatenate, zip(*self._parts, strict=True))
        docs = np.array(self._docs, np.int64)[which]
        absent = united[-1] < 0  # rows without a value
        without = [None, None, None, None, absent if absent.any() else None]
        arrays = [
            pa.array(column, kind, mask=mask)
            for column, kind, mask in zip((docs, *united), _TYPES, without, strict=True)
        ]
        occurring = distinct(np.concatenate(self._valued)) & 0xFFFFFFFF
        documents = np.bincount(occurring, minlength=len(self._numbers))
        values = [pa.array(list(self._numbers), pa.string()), pa.array(documents, pa.int32())]
        return pa.table(arrays, schema=BINDINGS), pa.table(values, schema=VALUES)

    # -- Documents of one shape ------------------------------------------------------------

    def _flush(self) -> None:
        """Evaluate the documents so far, and release them."""
        batches = list(self._alike.values())
        self._alike.clear()
        self._waiting = 0
        for together in batches:
            self._find(together)
        self._unpack(batches)

    def _find(self, together: ShapeBatch) -> None:
        """Find the matches of some documents of one shape, and pack their rows.

        Rows of derived nodes are kept apart, unpacked.
        """
        together.find(self._automaton.changes)
        shape, documents = together.shape, together.documents
        if shape.packed:
            together.take(shape.packed, range(len(documents)))
        for at, walk in enumerate(documents):
            for entry in shape.derived:
                self._derive(entry, walk)
            if walk.unevaluated:
                self._automaton.unevaluated.note(self._docs[walk.doc], walk.unevaluated)
            if walk.residuals is not None:
                one_sided = [NotEvaluated(one, "") for one in walk.residuals.one_sided]
                self._automaton.one_sided.note(self._docs[walk.doc], one_sided)
            for place, nodes in walk.hits.items():
                packed = cached_rows(shape, place, nodes[0]) if len(nodes) == 1 else None
                if packed is None:
                    packed, derived = packed_rows(shape, walk.matching, place, nodes)
                    for entry in derived:
                        self._derive(entry, walk)
                together.take(packed, (at,))

    def _unpack(self, batches: Sequence[ShapeBatch]) -> None:
        """Add the packed rows of some batches, ordered by document, as stage 2 sorts them."""
        docs: list[int] = []
        widths: list[int] = []  # by document, the number of values that its shape wants
        pieces: list[Packed] = []
        owned: list[Sequence[int]] = []
        first: list[int] = []  # by piece of rows: where its batch begins in `docs`
        for together in batches:
            pieces += together.rows
            owned += together.owners
            first += [len(docs)] * len(together.rows)
            widths += [len(together.shape.wanted)] * len(together.documents)
            docs += [walk.doc for walk in together.documents]
        if not pieces:
            return
        bases = np.cumsum([1, *widths])  # the first number is that of rows without a value
        counts = list(map(len, owned))
        owners = np.fromiter(chain.from_iterable(owned), np.int64, sum(counts))
        owners += np.repeat(np.array(first, np.int64), counts)
        owners = owners.astype(np.min_scalar_type(len(docs)))  # NumPy sorts them by radix
        order = np.argsort(owners, kind="stable")
        which = np.repeat(np.arange(len(counts)), counts)[order]
        sizes = np.array(list(map(len, pieces))) // (4 * WIDTH)
        ends, each = np.cumsum(sizes), sizes[which]
        rows = np.repeat(ends[which] - np.cumsum(each), each) + np.arange(each.sum())
        known = np.frombuffer(b"".join(pieces), np.int32).reshape(-1, WIDTH)
        pairs, firsts, seconds, wanted = known.take(rows, axis=0).T
        which = np.repeat(owners[order], each)
        at = np.where(wanted < 0, 0, bases[which] + wanted)
        asked = np.zeros(bases[-1], np.bool_)
        asked[at] = True
        numbers = np.array(self._numbered(batches, asked), np.int32)
        places = np.array(docs, np.int32)
        self._record_values(np.repeat(places, widths), numbers[1:])
        self._parts.append([places.take(which), pairs, firsts, seconds, numbers.take(at)])

    def _numbered(self, batches: Sequence[ShapeBatch], asked: Column) -> list[int]:
        """Return a number for each item of `asked`: of a value where it is True, else -1.

        The first item stands for no value.  The others are, document by document, the nodes whose
        values the shape wants.
        """
        numbers, begin, known = [-1] * len(asked), 1, self._numbers
        for together in batches:
            count, nodes = len(together.documents), together.shape.wanted
            end = begin + count * len(nodes)
            flags = asked[begin:end].reshape(count, len(nodes)).T.tolist()
            for node, place in nodes.items():
                some = [one for one, is_asked in enumerate(flags[place]) if is_asked]
                for one, text in zip(some, together.texts(node, some), strict=True):
                    numbers[begin + one * len(nodes) + place] = known.setdefault(text, len(known))
            begin = end
        return numbers

    def _record_values(self, which: Any, numbers: Any) -> None:
        """Record the values of documents, given as two columns: document index, value number.

        A number of -1 is no value.
        """
        self._valued.append((which.astype(np.int64) << 32 | numbers)[numbers >= 0])

    def _derive(self, entry: PairEntry, walk: DocumentWalk) -> None:
        """Add the rows of an entry whose second node is derived, for the document `walk`."""
        assert entry.derived is not None
        known = self._numbers
        for upper, node in walk.bindings(entry):
            for made, text in walk.derive(entry.derived, node):
                first = made if entry.alone else upper
                value = known.setdefault(text, len(known)) if entry.valued else -1
                self._derived.append((walk.doc, entry.pair, first, made, value))
