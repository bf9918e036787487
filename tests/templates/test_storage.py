"""A storage may leave rows that need not stay, and joins are the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from templates import Edge, JoinGraph, Node, Processor, Witnesses
from templates.columns import Column, table_of
from templates.model.join_graph import JOIN
from templates.model.relations import BINDINGS, TIMES, VALUES, Pair
from templates.registry import Registry
from templates.storage import Mask
from tests.templates.memory_storage import MemoryStorage

GRAPHS = {
    sign: JoinGraph((Node(0, None), Node(1, None)), (Edge(0, 1, sign),))
    for sign in ("=", "contains")
}
WINDOW, DOCS = 6, 110


class LeavingStorage(MemoryStorage):
    """Leaves rows in each relation, but not the same documents."""

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        name, parts = {"binding": ("doc", 2), "times": ("doc", 3), "value": ("key", 2)}[relation]

        def or_left(rows: pa.Table) -> Column:
            left: Column = stays(rows) | (rows[name].to_numpy() % parts == 1)
            return left

        return super().keep(relation, or_left)


class Joins:
    """A join of texts within a window, over a storage."""

    def __init__(self, storage: MemoryStorage, graph: JoinGraph) -> None:
        self.storage = storage
        registry = Registry(storage)
        registry.add(graph, ("x", "y"), JOIN.within(WINDOW))
        registry.save()
        self._pairs: list[Pair] = registry.take_changed()
        self.processor = Processor(storage, registry)

    def push(self, doc: int) -> list[dict[str, object]]:
        """Return the results of a document, and evict what has expired."""
        bindings = [(doc, pair.number, 0, 0, 0) for pair in self._pairs]
        times = [(doc, doc, doc, doc - 1, doc, doc, doc)]
        text = f"text {doc // 8}"  # which goes with its documents
        joined = self.processor.join(
            Witnesses(
                table_of(bindings, BINDINGS), table_of(times, TIMES), table_of([(text, 1)], VALUES)
            )
        )
        self.processor.state.evict(doc)
        rows: list[dict[str, object]] = joined.found.to_pylist()
        return rows


@pytest.mark.parametrize("sign", GRAPHS)
def test_rows_that_are_left_change_nothing(sign: str) -> None:
    exact, leaving = (
        Joins(storage, GRAPHS[sign]) for storage in (MemoryStorage(), LeavingStorage())
    )
    results = 0
    for doc in range(1, DOCS):
        found = exact.push(doc)
        assert leaving.push(doc) == found
        results += len(found)
        if not doc % 20:
            leaving.processor.state.reload()
    assert results > DOCS
    for name in ("binding", "times"):
        kept, left = (one.storage.relations[name].num_rows for one in (exact, leaving))
        assert kept < 4 * WINDOW < DOCS // 4 < left
