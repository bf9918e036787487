"""A document as numbered nodes.

A node's number is its pre-order rank among elements and attributes, the root
being 0; the attributes of an element follow it at once, in document order.
Namespace declarations, comments and processing instructions do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from xscl.xpath.values import Attribute, Item


@dataclass(frozen=True, slots=True)
class Tree:
    """The items of a document by number, and the number of each one's parent (-1 at the root)."""

    items: list[Item]
    parents: list[int]

    def path(self, number: int) -> str:
        """Return a node's location: `/book[1]/author[2]`, `/a[1]/@id`, `/Q{uri}a[1]`."""
        steps: list[str] = []
        while number >= 0:
            steps.append(_location(self.items[number]))
            number = self.parents[number]
        return "/" + "/".join(reversed(steps))


def number_nodes(root: etree._Element) -> Tree:
    """Return the numbered nodes of a document."""
    items: list[Item] = []
    parents: list[int] = []
    pending: list[tuple[etree._Element, int]] = [(root, -1)]
    while pending:
        element, parent = pending.pop()
        number = len(items)
        items.append(element)
        parents.append(parent)
        for name, value in element.attrib.items():
            items.append(Attribute(element, str(name), str(value)))
            parents.append(number)
        pending.extend((child, number) for child in element.iterchildren("*", reversed=True))
    return Tree(items, parents)


def _location(item: Item) -> str:
    if isinstance(item, Attribute):
        return f"@{_expanded(item.name)}"
    assert isinstance(item, etree._Element)
    before = sum(1 for _ in item.itersiblings(item.tag, preceding=True))
    return f"{_expanded(str(item.tag))}[{before + 1}]"


def _expanded(name: str) -> str:
    return f"Q{name}" if name.startswith("{") else name
