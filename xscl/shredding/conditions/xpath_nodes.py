"""A document as nodes for XPath: document, elements, attributes, texts, comments, instructions.

Nodes are made when a step first reaches them.  The first step that needs document order makes all
of them and numbers them; `last` is the number of a node's last descendant.  Then the axes are
slices of one list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from lxml import etree

from xscl.language.xpath_tree import NodeKind

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


class Node:
    """A node of a document; `value` is its text, of an element lxml's object.

    `at` is the place in document order once the tree is numbered, and `last` that of the last
    descendant; `at` of an attribute is the fraction by which it is behind its element.
    """

    at: float
    last: int

    __slots__ = (
        *("_attributes", "_children", "_text", "at", "kind", "last", "name", "parent", "value"),
    )

    def __init__(self, kind: NodeKind, name: str, parent: Node | None, value: Any) -> None:
        self.kind: NodeKind = kind
        self.name = name
        self.parent = parent
        self.value = value
        self._children: list[Node] | None = None
        self._attributes: list[Node] | None = None
        self._text: str | None = None

    @property
    def attributes(self) -> list[Node]:
        """The attributes of an element, in document order."""
        found = self._attributes
        if found is None:
            found = self._attributes = []
            if self.kind == "element" and (given := self.value.items()):
                for place, (name, value) in enumerate(given, 1):
                    node = Node("attribute", str(name), self, str(value))
                    node.at = place / (len(given) + 1)
                    found.append(node)
        return found

    @property
    def is_inner(self) -> bool:
        """True for the document and for elements with child elements, comments or instructions."""
        return self.kind == "document" or (self.kind == "element" and len(self.value) > 0)

    def text(self) -> str:
        """Return the string value of the node."""
        found = self._text
        if found is None:
            match self.kind:
                case "element" if not len(self.value):
                    found = self.value.text or ""
                case "element" | "document":
                    found = "".join(self.value.itertext())
                case _:
                    found = self.value
            self._text = found
        return found


class Tree:
    """The nodes of a document, as far as they are made."""

    __slots__ = ("_elements", "_nodes", "root")

    def __init__(self, root: etree._Element) -> None:
        self.root = Node("document", "", None, root)
        self._elements: dict[etree._Element, Node] = {}
        self._nodes: list[Node] = []

    def __del__(self) -> None:
        # A node and its children know each other: without this they would be garbage in a circle.
        for node in (self.root, *self._elements.values()):
            node._children = node._attributes = None

    def element(self, element: etree._Element) -> Node:
        """Return the node of an element."""
        known = self._elements.get(element)
        if known is None:
            above = element.getparent()
            known = self._made(element, self.root if above is None else self.element(above))
        return known

    def elements(self, node: Node, name: str, *, deep: bool) -> list[Node]:
        """Return the elements of a name, or any (`*`): children of a node, with `deep` all below.

        libxml2 finds them in document order, and no other nodes are made: most conditions ask for
        few of many.
        """
        found: Iterable[etree._Element] = ()
        if node.kind == "element":
            element = node.value
            found = element.iterdescendants(name) if deep else element.iterchildren(name)
        elif node.kind == "document":
            root = node.value
            found = root.iter(name) if deep else [root] if name in ("*", root.tag) else []
        return list(map(self.element, found))

    def _made(self, element: etree._Element, parent: Node) -> Node:
        """Return the one node of an element, given the node above it."""
        node = self._elements.get(element)
        if node is None:
            node = self._elements[element] = Node("element", str(element.tag), parent, element)
        return node

    def children(self, node: Node) -> list[Node]:
        """Return the children of a node; the caller does not change the list."""
        found = node._children
        if found is None:
            found = node._children = []
            element = node.value
            if node.kind == "document":
                before = reversed([*element.itersiblings(preceding=True)])
                for one in (*before, element, *element.itersiblings()):
                    self._add(one, node, found)
            elif node.kind == "element":
                text = element.text
                if text:
                    found.append(Node("text", "", node, text))
                for child in element:
                    self._add(child, node, found)
                    text = child.tail
                    if text:
                        found.append(Node("text", "", node, text))
        return found

    def _add(self, one: etree._Element, parent: Node, found: list[Node]) -> None:
        tag = one.tag
        if isinstance(tag, str):
            node = self._made(one, parent)
        elif tag is etree.Comment:
            node = Node("comment", "", parent, one.text or "")
        elif tag is etree.ProcessingInstruction:
            node = Node("instruction", str(one.target), parent, one.text or "")
        else:
            return
        found.append(node)

    @property
    def nodes(self) -> list[Node]:
        """All nodes but attributes, in document order."""
        if not self._nodes:
            self._number(self.root)
        return self._nodes

    def _number(self, node: Node) -> None:
        node.at = len(self._nodes)
        self._nodes.append(node)
        for child in self.children(node):
            self._number(child)
        node.last = len(self._nodes) - 1

    def in_order(self, given: Iterable[Node]) -> list[Node]:
        """Return nodes in document order, each once."""
        found = [*dict.fromkeys(given)]
        if len(found) > 1 and self.nodes:
            found.sort(key=place_of)
        return found


def place_of(node: Node) -> float:
    """Return the place of a node in document order; its tree must be numbered."""
    return node.at if node.kind != "attribute" or node.parent is None else node.parent.at + node.at


def _span(node: Node, tree: Tree) -> tuple[int, int]:
    """Return the places in document order of a node and of its last descendant.

    For an attribute both are the place of its element: it has no descendants.
    """
    assert tree.nodes, "the tree is numbered"
    if node.kind == "attribute" and node.parent is not None:
        return int(node.parent.at), int(node.parent.at)
    return int(node.at), node.last


# -- Axes ----------------------------------------------------------------------------------


def _child(node: Node, tree: Tree) -> list[Node]:
    return tree.children(node)


def _attribute(node: Node, _: Tree) -> list[Node]:
    return node.attributes


def _self(node: Node, _: Tree) -> list[Node]:
    return [node]


def _parent(node: Node, _: Tree) -> list[Node]:
    return [] if node.parent is None else [node.parent]


def _ancestor(node: Node, _: Tree) -> list[Node]:
    found = []
    above = node.parent
    while above is not None:
        found.append(above)
        above = above.parent
    return found


def _descendant(node: Node, tree: Tree) -> list[Node]:
    at, last = _span(node, tree)
    return tree.nodes[at + 1 : last + 1]


def _siblings(node: Node, tree: Tree) -> tuple[list[Node], int]:
    if node.parent is None or node.kind == "attribute":
        return [], 0
    around = tree.children(node.parent)
    return around, around.index(node)


def _following_sibling(node: Node, tree: Tree) -> list[Node]:
    around, place = _siblings(node, tree)
    return around[place + 1 :]


def _preceding_sibling(node: Node, tree: Tree) -> list[Node]:
    around, place = _siblings(node, tree)
    return around[:place][::-1]


def _following(node: Node, tree: Tree) -> list[Node]:
    return tree.nodes[_span(node, tree)[1] + 1 :]


def _preceding(node: Node, tree: Tree) -> list[Node]:
    at, _ = _span(node, tree)
    return [one for one in reversed(tree.nodes[:at]) if one.last < at]


AXES: Mapping[str, Callable[[Node, Tree], list[Node]]] = MappingProxyType(
    {
        "child": _child,
        "attribute": _attribute,
        "self": _self,
        "parent": _parent,
        "ancestor": _ancestor,
        "ancestor-or-self": lambda node, tree: [node, *_ancestor(node, tree)],
        "descendant": _descendant,
        "descendant-or-self": lambda node, tree: [node, *_descendant(node, tree)],
        "following-sibling": _following_sibling,
        "preceding-sibling": _preceding_sibling,
        "following": _following,
        "preceding": _preceding,
    }
)
"""The nodes of each axis, in the order of their positions; the caller changes no list."""


def path_of(node: Node, tree: Tree) -> str:
    """Return the location of a node, as fn:path spells it."""
    steps: list[str] = []
    one: Node | None = node
    while one is not None and one.parent is not None:
        same = [c for c in tree.children(one.parent) if (c.kind, c.name) == (one.kind, one.name)]
        name = one.name if one.name.startswith("{") else f"{{}}{one.name}"
        place = f"[{same.index(one) + 1}]" if one.kind != "attribute" else ""
        match one.kind:
            case "attribute":
                steps.append(f"@Q{name}" if one.name.startswith("{") else f"@{one.name}")
            case "element":
                steps.append(f"Q{name}{place}")
            case "instruction":
                steps.append(f"processing-instruction({one.name}){place}")
            case _:
                steps.append(f"{one.kind}(){place}")
        one = one.parent
    return "/" + "/".join(reversed(steps))


def language(node: Node | None) -> str | None:
    """Return the value of the nearest xml:lang of a node or of those above."""
    while node is not None:
        for attribute in node.attributes:
            if attribute.name == XML_LANG:
                return str(attribute.value)
        node = node.parent
    return None
