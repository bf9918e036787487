"""Variable bindings of a match as readable lines.

A node without child elements is shown by its value, `t = Streams`.  The string value of a node
with child elements runs their texts together, so each leaf gets a line with its element's name:

    book
      author: Danny Ayers, Andrew Watt
      title: Beginning RSS and Atom Programming
"""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from xscl.shredding.nodes.tree import DocumentTree
from xscl.subscriptions.match import Match, Node

CUT = 500
"""Maximum number of characters of a text."""
LEAVES = 50
"""Maximum number of elements of a node."""


def bound_lines(match: Match) -> Iterator[str]:
    """Yield the bindings of a match, in the order of the query."""
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
    """Collapse white space and cut a text to `CUT` characters."""
    line = " ".join(text.split())
    return line if len(line) <= CUT else line[: CUT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _leaves(node: Node, tree: DocumentTree | None) -> list[tuple[str, list[str]]]:
    """Return the leaf texts of a node by element name; empty for mixed or plain text."""
    item = tree.items[node.node] if tree is not None and node.node < len(tree.items) else None
    if not isinstance(item, etree._Element) or next(item.iterchildren("*"), None) is None:
        return []
    found: dict[str, list[str]] = {}
    if item.text and not item.text.isspace():  # mixed content is one value
        return []
    for leaf in item.iterdescendants("*"):
        if len(found) == LEAVES:
            break
        text = " ".join((leaf.text or "").split())
        if text:
            found.setdefault(etree.QName(leaf).localname, []).append(text)
    return list(found.items())
