"""A document as numbered nodes, and their names as strings for dictionary look-ups.

A node's number is its pre-order rank among elements and attributes, the root being 0; the
attributes of an element follow it at once, in document order.  Namespace declarations, comments and
processing instructions do not count.

An item is what a path selects: an lxml element, an attribute (its value with its owner and name),
or a text node (a plain string).  Items have values as XPath 1.0 defines them.

A *symbol* is a name in Clark notation (`{uri}local`, `local` without a namespace), that of an
attribute behind an `@`.  A node passes four tests: of its whole name, of its local name, of its
namespace, and any.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from sys import intern
from types import MappingProxyType
from typing import Any, TypeAlias

from lxml import etree

from xscl.language.functions import compared, seconds
from xscl.language.syntax import Condition, NameTest, Path

Symbol: TypeAlias = str
# The key of a name test (`NameTest.key`); that of a test of attributes begins with `@`.
Key: TypeAlias = str
Steps: TypeAlias = tuple[tuple[bool, Key], ...]
"""The steps of a path without conditions: whether each is `//`, and the key of its test."""


@lru_cache(maxsize=100_000)
def keys_of(symbol: Symbol) -> tuple[Key, Key, Key, Key]:
    """Return the keys of the four tests that a name passes: full name, local, namespace, any."""
    at, name = ("@", symbol[1:]) if symbol.startswith("@") else ("", symbol)
    uri, _, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
    return f"{at}{{{uri}}}{local}", f"{at}*:{local}", f"{at}{{{uri}}}", f"{at}*"


def steps_of(path: Path) -> Steps:
    """Return the steps of a path without conditions, each as (True for `//`, key of its test)."""
    return tuple([(step.descendant, step.key) for step in path.steps])


def matches_name(test: NameTest, name: str) -> bool:
    """Return True if a name in Clark notation passes a name test."""
    return test.key in keys_of(name)


# -- Numbered nodes --------------------------------------------------------------------------

StepTest: TypeAlias = tuple[Key, tuple[Condition, ...]]


@dataclass(slots=True)
class DocumentTree:
    """The items of a document by number, and the number of each one's parent (-1 at the root).

    `symbols` are their names (`xscl.shredding.nodes`).  `matching` are the numbers of the
    items that requested steps match, by the key of a step's name and its conditions.
    """

    items: list[Item]
    parents: list[int]
    symbols: list[Symbol]
    matching: dict[StepTest, set[int]] = field(default_factory=dict, compare=False, repr=False)
    _steps: list[str] = field(default_factory=list, compare=False, repr=False)

    def path(self, number: int) -> str:
        """Return a node's location by its number: `/book[1]/author[2]`, `/a[1]/@id`, `/Q{uri}a[1]`.

        The first call takes time linear in the document, later ones linear in the node's depth.
        """
        if not self._steps:
            self._steps[:] = _locations(self.symbols, self.parents)
        steps: list[str] = []
        while number >= 0:
            steps.append(self._steps[number])
            number = self.parents[number]
        return "/" + "/".join(reversed(steps))


def number_nodes(root: etree._Element, time: int | None = None) -> DocumentTree:
    """Return the numbered nodes of a document; `time_of` reads its `time`, in ticks, from them."""
    if time is not None:
        # A node of lxml knows its tree, and this is the only value of a tree that can be set.
        root.getroottree().docinfo.URL = str(time)
    items: list[Item] = []
    parents: list[int] = []
    symbols: list[Symbol] = []
    numbers: dict[etree._Element | None, int] = {None: -1}
    for element in root.iter("*"):
        number = numbers[element] = len(items)
        items.append(element)
        parents.append(numbers[element.getparent()])
        symbols.append(intern(str(element.tag)))  # one object for all nodes of a name
        for name, value in element.items():
            items.append(AttributeNode(element, str(name), str(value)))
            parents.append(number)
            symbols.append(intern(f"@{name!s}"))
    return DocumentTree(items, parents, symbols)


def _locations(symbols: Sequence[Symbol], parents: Sequence[int]) -> Iterator[str]:
    """Yield the last step of each node's location.

    An element's position counts its preceding siblings of the same name.
    """
    counted: dict[tuple[int, Symbol], int] = {}
    for symbol, parent in zip(symbols, parents, strict=True):
        name = symbol.replace("{", "Q{", 1)  # XPath's form of a name with a namespace
        if symbol.startswith("@"):
            yield name
        else:
            place = counted[parent, symbol] = counted.get((parent, symbol), 0) + 1
            yield f"{name}[{place}]"


@dataclass(frozen=True, slots=True)
class AttributeNode:
    """An attribute node: its owner element, its name in Clark notation, its value."""

    owner: etree._Element
    name: str
    value: str


Item: TypeAlias = "etree._Element | AttributeNode | str"


def string_value(item: Item) -> str:
    """Return the XPath string value: all text inside an element, without comments."""
    if isinstance(item, str):
        return item
    if isinstance(item, AttributeNode):
        return item.value
    if not len(item):
        return item.text or ""
    return str(etree.tostring(item, encoding="unicode", method="text", with_tail=False))


def time_of(item: Item) -> float | None:
    """Return the seconds since 1970 of an item's document; of an instant, which is a text, its own.

    None for a text that is no time, and in a tree without one.
    """
    if isinstance(item, str):
        return seconds(item)
    node = item.owner if isinstance(item, AttributeNode) else item
    time = node.getroottree().docinfo.URL
    return None if time is None else int(time) / 1_000_000


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
)
"""The function of each comparison, of two strings or of two numbers."""


def compares(text: str, comparison: str, constant: str | float) -> bool:
    """Return True if a string value compares with a constant: as numbers, if that is one.

    Strings are ordered by code point; XPath 1.0 would convert both to numbers.
    """
    holds = COMPARISONS[comparison]
    return holds(text if isinstance(constant, str) else compared(text), constant)


TREES = 256
"""The most documents in a `TreeCache`."""
NODES = 500_000
"""The most nodes in a `TreeCache`, unless one document has more; each takes some 300 bytes."""


class TreeCache:
    """The trees of documents by number, the most recently used ones; for one thread at a time."""

    def __init__(self) -> None:
        self._trees: OrderedDict[int, DocumentTree] = OrderedDict()
        self._nodes = 0

    def __contains__(self, doc: int) -> bool:
        return doc in self._trees

    def get(self, doc: int) -> DocumentTree | None:
        """Return a document's tree, None if it is not cached; mark it as used."""
        tree = self._trees.get(doc)
        if tree is not None:
            self._trees.move_to_end(doc)
        return tree

    def put(self, doc: int, tree: DocumentTree) -> DocumentTree:
        """Add the tree of a document, evict the least recently used trees, and return `tree`."""
        replaced = self._trees.pop(doc, None)
        if replaced is not None:
            self._nodes -= len(replaced.items)
        self._trees[doc] = tree
        self._nodes += len(tree.items)
        while len(self._trees) > 1 and (len(self._trees) > TREES or self._nodes > NODES):
            _, evicted = self._trees.popitem(last=False)
            self._nodes -= len(evicted.items)
        return tree
