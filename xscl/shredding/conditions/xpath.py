"""Evaluation of residual conditions: XPath that no index of conditions evaluates.

XPath 1.0 with the functions of the table runs in libxml2, the rest in elementpath.  A condition
that selects from the document is evaluated once for the document, any other once for each node
that everything else has left.  An expression that fails, as XPath's type errors do, does not hold.

The work of an evaluation is at most a power of the number of nodes (`xscl.language.xpath.work`).
Each expression has a budget for each document; beyond it the expression does not hold there, and
is logged.

This module is imported with the first residual condition.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from elementpath import XPathContext, build_lxml_node_tree
from elementpath.datatypes import Date10, DateTime10
from elementpath.xpath_nodes import AttributeNode as PathAttribute
from elementpath.xpath_nodes import ElementNode
from lxml import etree

from xscl.language.functions import FUNCTIONS, Value
from xscl.language.regex import expression, pieces
from xscl.language.syntax import Residual
from xscl.language.xpath import COMPARE, EXTENSIONS, FAILURES, PIECE, Local, NotLocal, parsed, work
from xscl.shredding.nodes.tree import COMPARISONS, AttributeNode, Item

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
        if self._spent.get(text, 0) <= BUDGET:
            self._spent[text] = BUDGET + 1
            _log.warning("not evaluated: %s: over %s steps in one document", text, f"{BUDGET:,}")
        return False

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
    evaluate = _libxml2(f"boolean({local.text})", local.namespaces)

    def holds(document: Evaluation, element: etree._Element) -> bool:
        if not document.affords(text, exponent, 1):
            return False
        try:
            return evaluate(element) is True
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
    evaluate = _libxml2(local.text, local.namespaces, smart=True)

    def select(document: Evaluation) -> Found:
        if not document.affords(text, exponent, 1):
            return frozenset()
        try:
            found: Any = evaluate(document.root.getroottree())
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


def _libxml2(text: str, namespaces: dict[str, str], *, smart: bool = False) -> Callable[[Any], Any]:
    made: Any = etree.XPath(
        text, namespaces=namespaces, extensions=_EXTENSIONS, regexp=False, smart_strings=smart
    )
    return made  # type: ignore[no-any-return]  # lxml's own type has no arguments


def _text(argument: Any) -> str:
    """Return the text of an argument of a function: of nodes that of the first."""
    if isinstance(argument, list):
        return _string(argument[0]) if argument else ""
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, float):
        return str(int(argument)) if argument.is_integer() else str(argument)
    return str(argument)


def _string(node: Any) -> str:
    if isinstance(node, etree._Element):
        if not len(node) and isinstance(node.tag, str):
            return node.text or ""
        return "".join(map(str, node.itertext())) if isinstance(node.tag, str) else node.text or ""
    return str(node)


def _extension(name: str) -> Callable[..., Any]:
    function = FUNCTIONS[name]
    apply = function.apply

    def called(_: Any, *arguments: Any) -> Any:
        rest = map(str, function.missing(len(arguments)) or ())
        value: Value = apply(*map(_text, arguments), *rest)
        return [] if value is None else value

    def called_with_one(_: Any, argument: Any) -> Any:
        value: Value = apply(_text(argument))
        return [] if value is None else value

    return called_with_one if len(function.arguments) == 1 else called


def _compare(_: Any, sign: str, left: Any, right: Any) -> bool:
    holds = COMPARISONS[sign]  # type: ignore[index]  # an operator of ours
    sides = [
        [_string(node) for node in side] if isinstance(side, list) else [_text(side)]
        for side in (left, right)
    ]
    return any(holds(one, other) for one in sides[0] for other in sides[1])


def _matches(_: Any, text: Any, pattern: str, flags: str = "") -> bool:
    return expression(pattern, flags).within(_text(text))


def _ends_with(_: Any, text: Any, end: Any) -> bool:
    return _text(text).endswith(_text(end))


def _piece(_: Any, text: Any, at: float, sign: str, value: str, *given: str) -> bool:
    """Compare the pieces of a text with a value, or the one at a place from 1 on."""
    found = pieces(_text(text), *given) if given else _text(text).split()
    chosen = found[int(at) - 1 : int(at)] if at else found
    return any(COMPARISONS[sign](one, value) for one in chosen)  # type: ignore[index]  # = or !=


_PLAIN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)?", re.ASCII)
"""The form of nearly all times, of which Python's own parser reads the same as elementpath's."""
_BEGINNING = re.compile(r"\s*-?\d{4}")


def _time(kind: Any) -> Callable[..., float]:
    """Return the function to the number of a time, NaN of what is none."""

    def called(_: Any, argument: Any) -> float:
        text = _text(argument)
        if kind is DateTime10 and _PLAIN.fullmatch(text):
            with suppress(ValueError):  # 24:00:00, or no time
                moment = datetime.fromisoformat(text)
                return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) / _MICROSECOND
        if not _BEGINNING.match(text):
            return math.nan
        try:
            return float((kind.fromstring(text).todelta() - _FROM_YEAR_1) / _MICROSECOND)
        except (ValueError, OverflowError):
            return math.nan

    return called


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FROM_YEAR_1 = DateTime10.fromstring("1970-01-01T00:00:00Z").todelta()
_MICROSECOND = timedelta(microseconds=1)
_EXTENSIONS: dict[tuple[str, str], Any] = {
    (EXTENSIONS, "dateTime"): _time(DateTime10),
    (EXTENSIONS, "date"): _time(Date10),
    (EXTENSIONS, PIECE): _piece,
    **{(EXTENSIONS, name): _extension(name) for name in FUNCTIONS},
    (EXTENSIONS, COMPARE): _compare,
    (EXTENSIONS, "matches"): _matches,
    (EXTENSIONS, "ends-with"): _ends_with,
}
