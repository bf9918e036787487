"""R_vj at the edges of what any row of R_T may join: window, retention, order, versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from templates.columns import Column, Columns, columns_of, with_valued
from templates.model.relations import Horizon
from templates.state.join_state import JoinState
from templates.state.value_joins import Dense, Pass
from templates.template import JoinDriver

KEY = 7
"""The value that all documents share."""


class Document(NamedTuple):
    """A document with one node; `clock` is that at its arrival, `base` that of its versions."""

    doc: int
    ts: int
    clock: int = 0
    base: int | None = None
    start: int | None = None

    @property
    def times(self) -> pa.Table:
        start = self.ts if self.start is None else self.start
        base = self.doc if self.base is None else self.base
        row = {"doc": self.doc, "start": start, "ts": self.ts, "clock": self.clock}
        row |= {"rank": self.doc, "base": base}
        return pa.table({name: pa.array([value], pa.int64()) for name, value in row.items()})

    @property
    def bindings(self) -> pa.Table:
        doc = pa.array([self.doc], pa.int64())
        ones = {name: pa.array([1], pa.int32()) for name in ("pair", "node1", "node2")}
        return pa.table({"doc": doc, **ones, "key": pa.array([KEY], pa.uint64())})


def none(rank: int, edges: Column) -> Column:
    """Return that no join exceeds the bound of results."""
    return np.zeros(len(edges), np.bool_)


def joined(
    kept: Document, came: Document, bounds: Horizon, *, back: bool = False, first: int | None = None
) -> list[tuple[int, int]]:
    """Return the pairs of documents that one pass joins, the left one first."""
    state = JoinState()
    state.add(with_valued(kept.bindings), columns_of(kept.times))
    before = came.doc if first is None else first
    one = Pass(state, bounds, columns_of(came.times), back, before, none)
    return list(pairs_of(one.joins(columns_of(came.bindings), driving)))


def driving(weights: object) -> JoinDriver:
    raise AssertionError("few value joins are made at once")


def pairs_of(parts: Iterator[Columns | Dense]) -> Iterator[tuple[int, int]]:
    for part in parts:
        assert not isinstance(part, Dense)
        yield from zip(part["doc1"].tolist(), part["doc2"].tolist(), strict=True)


@pytest.mark.parametrize(("distance", "meets"), [(9, True), (10, True), (11, False)])
@pytest.mark.parametrize("earlier", [True, False], ids=["forward", "backward"])
def test_documents_are_joined_up_to_the_longest_window(
    distance: int, meets: bool, earlier: bool
) -> None:
    """Both ends are in the window, in whichever order of time the documents came."""
    kept = Document(1, 0 if earlier else distance)
    came = Document(2, distance if earlier else 0)
    assert joined(kept, came, Horizon(-10, 10)) == [(1, 2)] * meets
    assert joined(kept, came, Horizon(-10, 10), back=True) == [(2, 1)] * meets


@pytest.mark.parametrize(("age", "meets"), [(11, True), (12, True), (13, False)])
def test_documents_are_joined_up_to_the_longest_retention(age: int, meets: bool) -> None:
    """The clock at the arrival of the later one decides, not its time."""
    kept, came = Document(1, 0), Document(2, 3, clock=age)
    assert joined(kept, came, Horizon(-10, 10, keep=12)) == [(1, 2)] * meets


@pytest.mark.parametrize(("end", "meets"), [(4, False), (5, False), (6, True)])
def test_if_all_joins_look_forward_the_right_side_ends_after_the_left_one(
    end: int, meets: bool
) -> None:
    kept, came = Document(1, 5), Document(2, end)
    assert joined(kept, came, Horizon(lower=1)) == [(1, 2)] * meets
    assert joined(kept, came, Horizon()) == [(1, 2)]


def test_versions_of_a_document_are_not_joined() -> None:
    assert joined(Document(1, 0), Document(2, 0, base=1), Horizon()) == []


def test_the_backward_pass_leaves_out_what_the_forward_pass_joins() -> None:
    """The documents of the batch from `first` on; what is kept from elsewhere is older."""
    assert joined(Document(1, 0), Document(2, 0), Horizon(), back=True) == [(2, 1)]
    assert joined(Document(2, 0), Document(2, 0, base=9), Horizon(), back=True) == []
    assert joined(Document(3, 0), Document(2, 0), Horizon(), back=True) == [(2, 3)]
