"""An LRU cache of parsed documents, bounded by nodes."""

from __future__ import annotations

from collections import OrderedDict

from xscl.shredding.nodes.tree import DocumentTree

TREES = 256
"""Documents at most."""
NODES = 500_000
"""Nodes at most, except of a single document; each takes some 300 bytes."""


class TreeCache:
    """Trees by document number; one thread uses it at a time."""

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
        """Add a document, and evict the least recently used ones; return its tree."""
        replaced = self._trees.pop(doc, None)
        if replaced is not None:
            self._nodes -= len(replaced.items)
        self._trees[doc] = tree
        self._nodes += len(tree.items)
        while len(self._trees) > 1 and (len(self._trees) > TREES or self._nodes > NODES):
            _, evicted = self._trees.popitem(last=False)
            self._nodes -= len(evicted.items)
        return tree
