"""R_vj of two documents, whose order of arrival is not that of their numbers.

What windows and retention let through is tested at the edges of queries (`tests.xscl`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from templates.columns import Column, columns_of, with_valued
from templates.model.relations import Horizon
from templates.state.join_state import JoinState
from templates.state.value_joins import Dense, Pass
from templates.template import JoinDriver


def rows(**columns: int) -> pa.Table:
    """Return one row of a relation."""
    kinds = {"key": pa.uint64()} | dict.fromkeys(("pair", "node1", "node2"), pa.int32())
    arrays = {name: pa.array([one], kinds.get(name, pa.int64())) for name, one in columns.items()}
    return pa.table(arrays)


def times(doc: int, base: int) -> pa.Table:
    return rows(doc=doc, start=0, ts=0, clock=0, rank=doc, base=base)


def bindings(doc: int) -> pa.Table:
    """Return a node of a document; all of them have one value."""
    return rows(doc=doc, pair=1, node1=1, node2=1, key=7)


def none(rank: int, edges: Column) -> Column:
    """Return that no join exceeds the bound of results."""
    return np.zeros(len(edges), np.bool_)


def driving(weights: object) -> JoinDriver:
    raise AssertionError("few value joins are made at once")


@pytest.mark.parametrize(
    ("kept", "base", "back", "pairs"),
    [
        (1, 2, False, [(1, 2)]),
        (1, 1, False, []),  # a version of it
        (1, 2, True, [(2, 1)]),
        (2, 9, True, []),  # the forward pass joins the documents of the batch
        (3, 2, True, [(2, 3)]),  # what is kept from elsewhere is older
    ],
)
def test_a_pass_joins_what_came_before(
    kept: int, base: int, back: bool, pairs: list[tuple[int, int]]
) -> None:
    """The kept document, and the document 2 that came later, with its base."""
    state = JoinState()
    state.add(with_valued(bindings(kept)), columns_of(times(kept, kept)))
    one = Pass(state, Horizon(), columns_of(times(2, base)), back, 2, none)
    found = list[tuple[int, int]]()
    for part in one.joins(columns_of(bindings(2)), driving):
        assert not isinstance(part, Dense)
        found += zip(part["doc1"].tolist(), part["doc2"].tolist(), strict=True)
    assert found == pairs
