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

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from xscl.shredding.automaton.automaton_states import IndexedPlaces, PatternPlace
from xscl.shredding.automaton.lineage import Packed
from xscl.shredding.batch.index_view import IndexView, ViewQuestion, ViewResult
from xscl.shredding.batch.known_markup import ParsedDocument, SplitDocument
from xscl.shredding.batch.shape import DocumentShape
from xscl.shredding.batch.walk import DocumentWalk
from xscl.shredding.conditions.atoms import Constant
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes.tree import string_value


class ShapeBatch:
    """Documents of one shape, by their places from 0, and the rows of their matches.

    `docs` are their numbers.

    A place that matches a document has packed rows (`rows`, each with its documents, `owners`;
    a document may own several), or it is among the hits of the document's walk.
    """

    __slots__ = (
        *("_answers", "_behind", "_deeper", "_texts", "_views", "docs", "owners", "read", "rows"),
        *("shape", "walks"),
    )

    def __init__(self, shape: DocumentShape) -> None:
        self.shape = shape
        self.docs: list[int] = []
        self.read: list[ParsedDocument | SplitDocument] = []
        self._texts: dict[int, list[Any]] = {}  # None: not read yet
        self.rows: list[Packed] = []
        self.owners: list[Sequence[int]] = []
        self.walks: dict[int, DocumentWalk] = {}
        self._deeper: list[tuple[int, PatternPlace]] = []  # places that match, with others below
        self._behind: list[tuple[IndexView, Sequence[int]]] = []  # what is to be looked at next
        self._answers: dict[tuple[Hashable, ...], list[Any]] = {}
        self._views: dict[tuple[Hashable, int], Any] = {}

    def add(self, doc: int, document: ParsedDocument | SplitDocument) -> None:
        """Add a document, before the evaluation."""
        self.docs.append(doc)
        self.read.append(document)

    def texts(self, node: int, which: Sequence[int]) -> list[str]:
        """Return the string values of a node in some documents."""
        known = self._texts.get(node)
        if known is None:
            known = self._texts[node] = [None] * len(self.docs)
        texts: list[str] = [known[one] for one in which]
        if None not in texts:
            return texts
        place, name = self.shape.structure.places[node]
        documents = [self.read[one] for one in which]
        if name is not None:
            texts = [str(document.nodes[place].get(name)) for document in documents]
        else:
            texts = [document.text(place) for document in documents]
        for one, text in zip(which, texts, strict=True):
            known[one] = text
        return texts

    def find(self, changes: int) -> None:
        """Compute the matches, given the automaton's number of changes."""
        if self.shape.cache is not None:
            if self.shape.shown != changes:
                self.shape.views.clear()
                self.shape.shown = changes
            self._views = self.shape.views
        every = range(len(self.docs))
        for spot, nodes in self.shape.spots:
            self._search(spot, nodes, every)

    def take(self, rows: Packed, owners: Sequence[int]) -> None:
        """Take rows that some documents own."""
        self.rows.append(rows)
        self.owners.append(owners)

    def walk(self, place: int) -> DocumentWalk:
        """Return one document's own walk."""
        walk = self.walks.get(place)
        if walk is None:
            walk = self.walks[place] = DocumentWalk(self, place)
        return walk

    # -- Places ----------------------------------------------------------------------------

    def _search(self, spot: IndexedPlaces, nodes: Sequence[int], which: Sequence[int]) -> None:
        """Find the places of a spot that match some of these nodes, and the matches below."""
        index = spot.valued
        assert index is not None, "only spots with such places are searched"
        alone = len(nodes) == 1 and spot.parent.structural
        for node in nodes:
            view = self._views.get((index, node))
            if view is None:
                view = self._views[index, node] = IndexView(self.shape, index, node, alone)
            self._probe(view, which)
        deeper, self._deeper = self._deeper, []
        for one, place in deeper:
            self._search_below(place, self.walks[one].hits[place], one)

    def _search_below(self, place: PatternPlace, nodes: Sequence[int], which: int) -> None:
        """Find the matches below a place that matches some nodes of a document."""
        under = self.shape.under
        for spot in place.spots:
            if spot.valued is not None and (below := under(spot.state, nodes)):
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
            walk = self.walk(one)
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
            assert isinstance(level, dict)
            assert asked.nodes is not None
            for one, text in zip(which, self.texts(asked.nodes[0], which), strict=True):
                if text in level:
                    suited[text].append(one)
            return suited
        answers = self._answered(asked, which)
        for one in which:
            if answer := answers[one]:
                suiting = (
                    level.keys() & answer if isinstance(level, dict) else level.suiting(*answer)
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
            answers = self._answers[asked.key] = [None] * len(self.docs)
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
            items = (self.walk(one).item(asked.node) for one in missing)
            every: Iterable[Sequence[str]]
            every = [[string_value(found) for found in select(path, item)] for item in items]
        elif not nodes:
            every = [()] * len(missing)
        else:
            every = zip(*(self.texts(one, missing) for one in nodes), strict=True)
        answered = constants.extremes if constants.ordered else constants.suitable
        for one, texts in zip(missing, every, strict=True):
            answers[one] = answered(constants.answer(texts))
        return answers
