"""The evaluation of one document apart from others of its shape.

Most matches are found for many documents at once (`xscl.shredding.batch.shape_batch`).
The rest is here: conditions that have to be tested, places that match several nodes or
have further conditions below, and derived nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lxml import etree

from cep_core.algebra.function_bounds import Budget, spending
from xscl.language.syntax import Compare, Condition, Operand, Path, Residual, TextMatch
from xscl.shredding.automaton.automaton_states import PairEntry, PatternPlace
from xscl.shredding.automaton.lineage import bindings
from xscl.shredding.automaton.subtree import is_structural
from xscl.shredding.batch.shape import DocumentShape, matches
from xscl.shredding.conditions.atoms import is_plain
from xscl.shredding.conditions.navigate import evaluate, text_holds
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.conditions.unevaluated import NotEvaluated
from xscl.shredding.nodes.tree import AttributeNode, Item

if TYPE_CHECKING:
    from xscl.shredding.batch.shape_batch import ShapeBatch
    from xscl.shredding.conditions.xpath import Evaluation


class DocumentWalk:
    """One document, by its place among others of its shape, and the places that match it."""

    __slots__ = (
        *("_alike", "_budgets", "_derived", "_held", "_made", "_residuals", "doc", "hits", "place"),
        *("shape", "unevaluated"),
    )

    def __init__(self, alike: ShapeBatch, place: int) -> None:
        self.shape: DocumentShape = alike.shape
        self.place = place
        self.hits: dict[PatternPlace, Sequence[int]] = {}  # with the nodes that match, ascending
        self.doc = alike.docs[place]
        self._alike = alike
        self.unevaluated: list[NotEvaluated] = []
        self._held: dict[tuple[int, int], bool | NotEvaluated] = {}
        self._derived: dict[tuple[Operand, int], list[tuple[int, str]]] = {}
        self._budgets: dict[Operand, Budget] = {}
        self._made = 0
        self._residuals: Evaluation | None = None  # made with the first one

    def item(self, number: int) -> etree._Element | AttributeNode:
        """Return a node by its number."""
        place, name = self.shape.structure.places[number]
        node = self._alike.read[self.place].nodes[place]
        return node if name is None else AttributeNode(node, name, str(node.get(name)))

    def text(self, number: int) -> str:
        """Return the string value of a node."""
        (text,) = self._alike.texts(number, (self.place,))
        return text

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
            if isinstance(condition, Compare | TextMatch) and is_plain(condition.path):
                return text_holds(condition, self._texts(condition.path, node))
            if isinstance(condition, Residual):
                return self._residual(condition, self.item(node))
            if is_structural(condition):
                return self.shape.structure.subtrees[node].holds(condition)
            return evaluate(condition, self.item(node), self._residual)
        except NotEvaluated as error:
            return error

    @property
    def one_sided(self) -> list[NotEvaluated]:
        """The expressions that have compared a number with a text, as those without a value."""
        if self._residuals is None:
            return []
        return [NotEvaluated(one, "") for one in self._residuals.one_sided]

    def _residual(self, condition: Residual, item: Item) -> bool:
        assert not isinstance(item, str), "conditions are tested at elements and attributes"
        return self._evaluation().holds(condition, item)

    def _evaluation(self) -> Evaluation:
        """Return the evaluation of residual conditions in the document."""
        if self._residuals is None:
            from xscl.shredding.conditions.xpath import evaluation  # loads elementpath

            self._residuals = evaluation(self._alike.read[self.place].nodes[0])
        return self._residuals

    def _texts(self, path: Path, node: int) -> Iterator[str]:
        """Yield the string values of the nodes that a plain path selects from a node."""
        return map(self.text, self.shape.along(path, node))

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
