"""A document as nodes for XPath: document, elements, attributes, texts, comments, instructions.

Nodes but attributes are numbered in document order; `last` is the number of a node's last
descendant.  So the axes are slices of one list, and those with a name test slices of the places of
that name.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from lxml import etree

Kind: TypeAlias = Literal["document", "element", "attribute", "text", "comment", "instruction"]
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


class Node:
    """A node of a document.

    `at` is the place in document order; of an attribute it lies between those of its element and
    the next node.  `value` is the text of a node without children.
    """

    __slots__ = (
        "_attributes",
        "_text",
        "at",
        "children",
        "kind",
        "last",
        "name",
        "parent",
        "value",
    )

    def __init__(self, kind: Kind, name: str, parent: Node | None, at: float, value: Any) -> None:
        self.kind: Kind = kind
        self.name = name
        self.parent = parent
        self.at = at
        self.last: int = int(at)
        self.value = value  # of an element and the document lxml's object
        self.children: list[Node] = []
        self._attributes: list[Node] | None = None
        self._text: str | None = None

    @property
    def attributes(self) -> list[Node]:
        """The attributes of an element, in document order."""
        if self._attributes is None:
            self._attributes = []
            if self.kind == "element" and len(self.value.attrib):
                given = self.value.attrib.items()
                part = 1 / (len(given) + 1)
                for place, (name, value) in enumerate(given, 1):
                    at = self.at + part * place
                    self._attributes.append(Node("attribute", str(name), self, at, str(value)))
        return self._attributes

    def text(self, tree: Tree) -> str:
        """Return the string value."""
        found = self._text
        if found is None:
            if self.kind not in ("element", "document"):
                found = str(self.value)
            elif len(self.children) == 1 and self.children[0].kind == "text":
                found = str(self.children[0].value)
            else:
                below = tree.nodes[int(self.at) + 1 : self.last + 1]
                found = "".join([one.value for one in below if one.kind == "text"])
            self._text = found
        return found


class Tree:
    """The nodes of a document."""

    __slots__ = ("_named", "elements", "nodes", "root")

    def __init__(self, root: etree._Element) -> None:
        self.root = Node("document", "", None, 0, None)
        self.nodes: list[Node] = [self.root]
        self.elements: dict[etree._Element, Node] = {}
        self._named: dict[str, list[int]] | None = None
        before = reversed([*root.itersiblings(preceding=True)])
        for one in (*before, root, *root.itersiblings()):
            self._add(one, self.root)
        self.root.last = len(self.nodes) - 1

    def _add(self, element: etree._Element, parent: Node) -> None:
        nodes, tag = self.nodes, element.tag
        if not isinstance(tag, str):
            if tag is etree.Comment:
                node = Node("comment", "", parent, len(nodes), element.text or "")
            elif tag is etree.ProcessingInstruction:
                name = str(element.target)
                node = Node("instruction", name, parent, len(nodes), element.text or "")
            else:
                return
            nodes.append(node)
            parent.children.append(node)
            return
        node = Node("element", tag, parent, len(nodes), element)
        nodes.append(node)
        parent.children.append(node)
        self.elements[element] = node
        text = element.text
        if text:
            self._add_text(text, node)
        for child in element:
            self._add(child, node)
            tail = child.tail
            if tail:
                self._add_text(tail, node)
        node.last = len(nodes) - 1

    def _add_text(self, text: str, parent: Node) -> None:
        node = Node("text", "", parent, len(self.nodes), text)
        self.nodes.append(node)
        parent.children.append(node)

    def named(self, name: str) -> list[int]:
        """Return the places of the elements of a name in Clark notation, ascending."""
        if self._named is None:
            self._named = {}
            for place, node in enumerate(self.nodes):
                if node.kind == "element":
                    self._named.setdefault(node.name, []).append(place)
        return self._named.get(name, [])

    def elements_between(self, name: str, first: int, last: int) -> list[Node]:
        """Return the elements of a name with places from `first` to `last`."""
        places = self.named(name)
        found = places[bisect_left(places, first) : bisect_right(places, last)]
        nodes = self.nodes
        return [nodes[place] for place in found]


# -- Axes ----------------------------------------------------------------------------------


def _child(node: Node, _: Tree) -> list[Node]:
    return node.children


def _attribute(node: Node, _: Tree) -> list[Node]:
    return node.attributes if node.kind == "element" else []


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
    return [] if node.kind == "attribute" else tree.nodes[int(node.at) + 1 : node.last + 1]


def _siblings(node: Node) -> tuple[list[Node], int]:
    if node.parent is None or node.kind == "attribute":
        return [], 0
    around = node.parent.children
    return around, around.index(node)


def _following_sibling(node: Node, _: Tree) -> list[Node]:
    around, place = _siblings(node)
    return around[place + 1 :]


def _preceding_sibling(node: Node, _: Tree) -> list[Node]:
    around, place = _siblings(node)
    return around[:place][::-1]


def _following(node: Node, tree: Tree) -> list[Node]:
    return tree.nodes[node.last + 1 :]


def _preceding(node: Node, tree: Tree) -> list[Node]:
    at = int(node.at)
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


def named_on(axis: str, name: str) -> Callable[[Node, Tree], list[Node]] | None:
    """Return the elements of a name on an axis that is long; None for any other axis."""
    match axis:
        case "descendant":
            return lambda node, tree: (
                []
                if node.kind == "attribute"
                else tree.elements_between(name, int(node.at) + 1, node.last)
            )
        case "descendant-or-self":
            return lambda node, tree: (
                []
                if node.kind == "attribute"
                else tree.elements_between(name, int(node.at), node.last)
            )
        case "following":
            return lambda node, tree: tree.elements_between(name, node.last + 1, len(tree.nodes))
        case "preceding":
            return lambda node, tree: [
                one
                for one in reversed(tree.elements_between(name, 0, int(node.at) - 1))
                if one.last < node.at
            ]
        case _:
            return None


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes in document order, each once."""
    return sorted(dict.fromkeys(nodes), key=_place)


def _place(node: Node) -> float:
    return node.at


def path_of(node: Node) -> str:
    """Return the location of a node, as fn:path spells it."""
    steps: list[str] = []
    one: Node | None = node
    while one is not None and one.parent is not None:
        same = [c for c in one.parent.children if (c.kind, c.name) == (one.kind, one.name)]
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
