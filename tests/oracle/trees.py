"""XML documents as trees of numbered nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from lxml import etree


@dataclass(frozen=True, slots=True)
class Text:
    """A text node; `place` only tells which of two comes first in the document."""

    place: int
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An element or attribute; `content` has elements and text nodes in document order."""

    number: int
    name: str
    attributes: tuple[Node, ...]
    content: tuple[Node | Text, ...]
    attribute: bool = False


Binding: TypeAlias = dict[str, Node]


def read(xml: bytes) -> Node:
    """Return the document node; below it all elements and attributes have pre-order numbers."""
    return Node(-1, "", (), (_numbered(etree.fromstring(xml), count(), count()),))


def _numbered(element: etree._Element, numbers: Iterator[int], places: Iterator[int]) -> Node:
    number = next(numbers)
    attributes = tuple(
        Node(next(numbers), str(name), (), (Text(next(places), str(value)),), attribute=True)
        for name, value in element.attrib.items()
    )
    content: list[Node | Text] = [Text(next(places), element.text or "")]
    for child in element:
        if isinstance(child.tag, str):
            content.append(_numbered(child, numbers, places))
        content.append(Text(next(places), child.tail or ""))
    kept = tuple(part for part in content if isinstance(part, Node) or part.value)
    return Node(number, str(element.tag), attributes, kept)


def string_value(node: Node) -> str:
    """Return the XPath string value: all text below a node, without comments."""
    parts = node.content
    return "".join(part.value if isinstance(part, Text) else string_value(part) for part in parts)


def children(node: Node) -> list[Node]:
    return [part for part in node.content if isinstance(part, Node)]


def descendants(node: Node) -> list[Node]:
    return [found for child in children(node) for found in (child, *descendants(child))]


def texts_of(node: Node, deep: bool) -> set[Text]:
    """Return the text nodes among the children of a node, or among all its descendants."""
    if node.attribute:
        return set()
    own = {part for part in node.content if isinstance(part, Text)}
    return own.union(*(texts_of(child, deep) for child in children(node))) if deep else own
