"""A document as numbered nodes.

A node's number is its pre-order rank among elements and attributes, the root
being 0; the attributes of an element follow it at once, in document order.
Namespace declarations, comments and processing instructions do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lxml import etree

from xscl.language.syntax import Step
from xscl.shredding.nodes.values import Attribute, Item


@dataclass(frozen=True, slots=True)
class Tree:
    """The items of a document by number, and the number of each one's parent (-1 at the root).

    `matching` are the numbers of those that steps match, for the steps that were asked for.
    """

    items: list[Item]
    parents: list[int]
    matching: dict[Step, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)
    _steps: list[str] = field(default_factory=list, compare=False, repr=False)

    def path(self, number: int) -> str:
        """Return a node's location: `/book[1]/author[2]`, `/a[1]/@id`, `/Q{uri}a[1]`.

        The first call takes time linear in the document, later ones linear in the node's depth.
        """
        if not self._steps:
            self._steps[:] = _locations(self.items, self.parents)
        steps: list[str] = []
        while number >= 0:
            steps.append(self._steps[number])
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


def _locations(items: Sequence[Item], parents: Sequence[int]) -> Iterator[str]:
    """Yield the last step of each node's location.

    An element's position counts those of its name that come before it below the same parent.
    """
    counted = Counter[tuple[int, str]]()
    for item, parent in zip(items, parents, strict=True):
        if isinstance(item, Attribute):
            yield f"@{_expanded(item.name)}"
            continue
        assert isinstance(item, etree._Element)
        name = str(item.tag)
        counted[parent, name] += 1
        yield f"{_expanded(name)}[{counted[parent, name]}]"


def _expanded(name: str) -> str:
    return f"Q{name}" if name.startswith("{") else name
