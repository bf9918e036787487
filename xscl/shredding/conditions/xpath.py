"""Evaluation of residual conditions: XPath that no index of conditions evaluates.

XPath 1.0 with the functions of the table runs in libxml2, the rest in elementpath.  A condition
that selects from the document is evaluated once for the document, any other once for each node
that everything else has left.  An expression that fails, as XPath's type errors do, does not hold.

The work of an evaluation is at most a power of the number of nodes, which
`xscl.language.xpath_analysis.work` computes.  Each expression has a budget for each document;
beyond it the expression does not hold there, and is logged.

This module is imported with the first residual condition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from elementpath import XPathContext, build_lxml_node_tree
from elementpath.xpath_nodes import AttributeNode as PathAttribute
from elementpath.xpath_nodes import ElementNode
from lxml import etree

from xscl.language.syntax import Residual
from xscl.language.xpath import FAILURES, parsed
from xscl.language.xpath10 import Local, NotLocal
from xscl.language.xpath_analysis import work
from xscl.shredding.conditions.xpath_functions import MOST_ITEMS, TooManyItems, extensions
from xscl.shredding.nodes.tree import AttributeNode, Item

BUDGET = 200_000
"""Visits of nodes by one expression in one document, in libxml2."""
SLOWER = 10
"""How many visits of libxml2 one of elementpath counts for."""
DOCUMENTS = 4
"""Documents whose selections are kept, and their trees for elementpath."""

Found: TypeAlias = "frozenset[etree._Element | tuple[etree._Element, str]]"
Select: TypeAlias = Callable[["Evaluation"], Found]
Test: TypeAlias = Callable[["Evaluation", etree._Element], bool]

_log = logging.getLogger(__name__)


class Evaluation:
    """One document under evaluation: what is known of it, and the work so far."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.selected: dict[str, Found] = {}
        self.held: dict[tuple[str, Item], bool] = {}
        self._tree: Any = None
        self._count = 0
        self._spent: dict[str, int] = {}

    @property
    def tree(self) -> Any:
        """The document for elementpath."""
        if self._tree is None:
            self._tree = build_lxml_node_tree(self.root.getroottree())
        return self._tree

    def affords(self, text: str, exponent: int, factor: int) -> bool:
        """Return False if the work of an expression would exceed its budget in this document."""
        if not self._count:
            self._count = sum(1 for _ in self.root.iter())
        spent: int = self._spent.get(text, 0) + factor * self._count**exponent
        if spent <= BUDGET:
            self._spent[text] = spent
            return True
        self.give_up(text, f"over {BUDGET:,} steps in one document")
        return False

    def give_up(self, text: str, reason: str) -> None:
        """Evaluate an expression no more in this document."""
        if self._spent.get(text, 0) <= BUDGET:
            self._spent[text] = BUDGET + 1
            _log.warning("not evaluated: %s: %s", text, reason)

    def holds(self, condition: Residual, item: etree._Element | AttributeNode) -> bool:
        """Evaluate a residual condition at a node of the document, once."""
        text = condition.text
        if condition.selects:
            found = self.selected.get(text)
            if found is None:
                found = self.selected[text] = selection(text)(self)
            return ((item.owner, item.name) if isinstance(item, AttributeNode) else item) in found
        known = self.held.get((text, item))
        if known is None:
            known = self.held[text, item] = _tried(text, item, self)
        return known


@lru_cache(maxsize=DOCUMENTS)
def evaluation(root: etree._Element) -> Evaluation:
    """Return the evaluation of a document, given its root."""
    return Evaluation(root)


def holds_residual(condition: Residual, item: Item) -> bool:
    """Evaluate a residual condition at a node."""
    assert not isinstance(item, str), "conditions are tested at elements and attributes"
    element = item.owner if isinstance(item, AttributeNode) else item
    return evaluation(element.getroottree().getroot()).holds(condition, item)


def _tried(text: str, item: etree._Element | AttributeNode, document: Evaluation) -> bool:
    """Evaluate an expression at a node."""
    if isinstance(item, AttributeNode):
        name = item.name if item.name.startswith("{") else f"{{}}{item.name}"
        return test(f"@Q{name}[boolean({text})]")(document, item.owner)
    return test(text)(document, item)


def is_local(condition: Residual) -> bool:
    """Return True if libxml2 evaluates a condition."""
    try:
        Local(parsed(condition.text))
    except NotLocal:
        return False
    return True


# -- Conditions at a node ------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def test(text: str) -> Test:
    """Return the test of an expression at an element."""
    token = parsed(text)
    exponent = work(token)
    try:
        local = Local(token)
    except NotLocal:
        return _slow_test(text, exponent)
    evaluate = _libxml2(local, f"boolean({local.text})")

    def holds(document: Evaluation, element: etree._Element) -> bool:
        if not document.affords(text, exponent, 1):
            return False
        try:
            return evaluate(element) is True
        except TooManyItems:
            document.give_up(text, f"over {MOST_ITEMS:,} items of a text")
            return False
        except (etree.XPathError, *FAILURES):
            return False

    return holds


def _slow_test(text: str, exponent: int) -> Test:
    token = parsed(text)

    def holds(document: Evaluation, element: etree._Element) -> bool:
        if not document.affords(text, exponent, SLOWER):
            return False
        context = XPathContext(document.tree, item=document.tree.elements[element])
        try:
            return bool(token.boolean_value(list(token.select(context))))
        except FAILURES:
            return False

    return holds


# -- Selections from a document ------------------------------------------------------------


@lru_cache(maxsize=20_000)
def selection(text: str) -> Select:
    """Return the function to the nodes that a path selects from a document.

    The document stands for its root; a text, comment or instruction for the element that holds it.
    """
    token = parsed(text)
    exponent = work(token)
    try:
        local = Local(token)
    except NotLocal:
        return _slow_selection(text, exponent)
    evaluate = _libxml2(local, local.text, smart=True)

    def select(document: Evaluation) -> Found:
        if not document.affords(text, exponent, 1):
            return frozenset()
        try:
            found: Any = evaluate(document.root.getroottree())
        except TooManyItems:
            document.give_up(text, f"over {MOST_ITEMS:,} items of a text")
            return frozenset()
        except (etree.XPathError, *FAILURES):
            return frozenset()
        return frozenset(_nodes(found, document.root))

    return select


def _nodes(found: Iterable[Any], root: etree._Element) -> Iterable[Any]:
    for one in found:
        if isinstance(one, etree._Element):
            holder = one if isinstance(one.tag, str) else one.getparent()
        elif getattr(one, "is_attribute", False):
            yield one.getparent(), one.attrname
            continue
        else:
            holder = one.getparent()
            if getattr(one, "is_tail", False):
                holder = holder.getparent()
        if holder is not None:
            yield holder


def _slow_selection(text: str, exponent: int) -> Select:
    token = parsed(text)

    def select(document: Evaluation) -> Found:
        if not document.affords(text, exponent, SLOWER):
            return frozenset()
        context = XPathContext(document.tree)
        try:
            found = list(token.select(context))
        except FAILURES:
            return frozenset()
        return frozenset(_path_nodes(found, document.root))

    return select


def _path_nodes(found: Iterable[Any], root: etree._Element) -> Iterable[Any]:
    for one in found:
        if isinstance(one, PathAttribute):
            assert one.parent is not None, "an attribute of the document has an element"
            yield one.parent.value, one.name
        elif isinstance(one, ElementNode):
            yield one.value
        elif getattr(one, "node_kind", "") == "document":
            yield root
        elif isinstance(getattr(one, "parent", None), ElementNode):
            yield one.parent.value


# -- libxml2 -------------------------------------------------------------------------------


def _libxml2(local: Local, text: str, *, smart: bool = False) -> Callable[[Any], Any]:
    made: Any = etree.XPath(
        text,
        namespaces=local.namespaces,
        extensions=extensions(local),
        regexp=False,
        smart_strings=smart,
    )
    return made  # type: ignore[no-any-return]  # lxml's own type has no arguments
