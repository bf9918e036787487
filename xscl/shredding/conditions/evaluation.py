"""Residual conditions, evaluated as XPath, of one document.

A condition that selects is evaluated once for the document, or once for each parent if its path
begins at `..`; any other once for each node at which all else holds.  Each expression may do
`STEPS` steps in each document; beyond these it has no value there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lxml import etree

from xscl.language.syntax import Residual
from xscl.shredding.conditions.unevaluated import NotEvaluated
from xscl.shredding.conditions.xpath import Focus, evaluator, tester
from xscl.shredding.conditions.xpath_nodes import Node, Tree
from xscl.shredding.conditions.xpath_values import ERRORS, STEPS, Failure, OverBudget, Work
from xscl.shredding.nodes import AttributeNode, Item

DOCUMENTS = 4
"""The number of documents whose `Evaluation` is cached."""

_log = logging.getLogger(__name__)


class Evaluation:
    """One document under evaluation: its nodes, the results of conditions, and the steps left."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self._found: dict[tuple[Residual, Item | None], Any] = {}
        self._tree: Tree | None = None
        self._works: dict[str, Work] = {}

    @property
    def one_sided(self) -> list[str]:
        """The expressions that have compared a number with a text."""
        return [text for text, work in self._works.items() if work.one_sided]

    @property
    def tree(self) -> Tree:
        """The nodes of the document."""
        if self._tree is None:
            self._tree = Tree(self.root)
        return self._tree

    def holds(self, condition: Residual, item: etree._Element | AttributeNode) -> bool:
        """Return True if a residual condition holds at a node of the document; raises NotEvaluated.

        It is evaluated once.
        """
        start: Item | None = item
        if condition.selects:
            start = self.root
            if condition.text.startswith(".."):
                start = item.owner if isinstance(item, AttributeNode) else item.getparent()
        found = self._found.get((condition, start))
        if found is None:
            found = self._found[condition, start] = self._tried(condition, item)
        if isinstance(found, NotEvaluated):
            raise found
        if condition.selects:
            return ((item.owner, item.name) if isinstance(item, AttributeNode) else item) in found
        return bool(found)

    def _tried(self, condition: Residual, item: etree._Element | AttributeNode) -> Any:
        """Return the value of a condition at an item, or the NotEvaluated if it has none.

        The value is the elements and attributes that it selects, or a truth value.
        """
        text = condition.text
        try:
            if text not in self._works:
                self._works[text] = Work(self.tree, STEPS)
            work = self._works[text]
            if not condition.selects:
                return tester(text)(Focus(self._node(item), work))
            start = self._node(item) if text.startswith("..") else self.tree.root
            return frozenset(_holders(evaluator(text)(Focus(start, work)), self.root))
        except ERRORS as error:
            reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
            if isinstance(error, OverBudget):
                _log.warning("not evaluated: %s: %s", text, reason)
            return NotEvaluated(text, reason or type(error).__name__)

    def _node(self, item: etree._Element | AttributeNode) -> Node:
        if not isinstance(item, AttributeNode):
            return self.tree.element(item)
        owner = self.tree.element(item.owner)
        return next(attribute for attribute in owner.attributes if attribute.name == item.name)


def _holders(items: Iterable[object], root: etree._Element) -> Iterable[Any]:
    """Yield the elements and attributes that stand for nodes which a condition selects.

    The root stands for the document; the element around it for a text, comment or instruction.
    """
    for item in items:
        if not isinstance(item, Node):
            raise Failure("this selects no nodes")
        node: Node | None = item if item.kind in ("element", "attribute") else item.parent
        if item.kind == "document":
            yield root
        elif node is not None and node.kind == "attribute":
            assert node.parent is not None, "an attribute has an element"
            yield node.parent.value, node.name
        elif node is not None and node.kind == "element":
            yield node.value


@lru_cache(maxsize=DOCUMENTS)
def evaluation(root: etree._Element) -> Evaluation:
    """Return the evaluation of a document, given its root."""
    return Evaluation(root)


def holds_residual(condition: Residual, item: Item) -> bool:
    """Return True if a residual condition holds at an item; raises NotEvaluated."""
    assert not isinstance(item, str), "conditions are tested at elements and attributes"
    element = item.owner if isinstance(item, AttributeNode) else item
    return evaluation(element.getroottree().getroot()).holds(condition, item)
