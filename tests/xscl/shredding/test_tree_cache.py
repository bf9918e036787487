"""Parsed documents that are kept: so many, and so many nodes."""

from __future__ import annotations

import pytest
from lxml import etree

from xscl.shredding.nodes import tree as tree_cache
from xscl.shredding.nodes.tree import DocumentTree, TreeCache, number_nodes


def tree(elements: int) -> DocumentTree:
    return number_nodes(etree.fromstring(f"<a>{'<b/>' * (elements - 1)}</a>"))


def kept(cache: TreeCache) -> list[int]:
    return [doc for doc in range(10) if doc in cache]


def test_documents_and_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_cache, "TREES", 3)
    monkeypatch.setattr(tree_cache, "NODES", 100)
    cache = TreeCache()
    for doc in range(4):
        cache.put(doc, tree(10))
    assert kept(cache) == [1, 2, 3]
    assert cache.get(1) is not None
    cache.put(4, tree(85))
    assert kept(cache) == [1, 4], "the least recently used leave first"
    cache.put(5, tree(500))
    assert kept(cache) == [5], "a single one may be larger"
    cache.put(5, tree(10))
    cache.put(6, tree(80))
    assert kept(cache) == [5, 6], "a document that is replaced counts once"
