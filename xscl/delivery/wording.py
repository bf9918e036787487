"""What variables of a match are bound to, as lines that people read.

A node without elements in it is its value, `t = Streams`.  Of one with elements the value would be
the texts of all of them run together, so each has a line of its own, by the name of its element:

    book
      author: Danny Ayers, Andrew Watt
      title: Beginning RSS and Atom Programming
"""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from xscl.match import Match, Node
from xscl.xpath.tree import Tree

CUT = 500
"""Characters of a text that are shown."""
LEAVES = 50
"""Elements of one node that are shown."""


def bound_lines(match: Match) -> Iterator[str]:
    """Yield what the variables of a match are bound to, in the order of the query."""
    trees = dict(match.trees)
    for name, nodes in match.bindings.items():
        for node in nodes:
            leaves = _leaves(node, trees.get(node.document))
            if not leaves:
                yield f"{name} = {shortened(node.value)}"
                continue
            yield name
            yield from (f"  {leaf}: {shortened(', '.join(texts))}" for leaf, texts in leaves)


def shortened(text: str) -> str:
    """Return a text as one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= CUT else line[: CUT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _leaves(node: Node, tree: Tree | None) -> list[tuple[str, list[str]]]:
    """Return the texts inside a node by the names of their elements; none if it is one text."""
    item = tree.items[node.node] if tree is not None and node.node < len(tree.items) else None
    if not isinstance(item, etree._Element) or next(item.iterchildren("*"), None) is None:
        return []
    found: dict[str, list[str]] = {}
    if item.text and not item.text.isspace():  # text beside elements is one text with theirs
        return []
    for leaf in item.iterdescendants("*"):
        if len(found) == LEAVES:
            break
        text = " ".join((leaf.text or "").split())
        if text:
            found.setdefault(etree.QName(leaf).localname, []).append(text)
    return list(found.items())
