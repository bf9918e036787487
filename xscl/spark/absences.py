"""NOT FOLLOWED BY by equalities, in buckets: left rows whose time is over without an answer.

The rows of both blocks are results of filters, which stage 1 evaluates.  They meet in the bucket of
their compared values.  A left row waits until the clock, a column, has passed its deadline; what is
found does not depend on the cuts of micro-batches.  A document that is later than the lateness of
the stream is not seen, as by an operator over time of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.batch_join import BatchJoin
from templates.columns.columns import Column, Columns, chosen, columns_of, pack
from templates.evaluators import ConjunctiveQueries, SmallBatch
from templates.model.result_bound import RESULTS
from templates.processor import SMALL_BATCH
from templates.registry.registry import Registry
from templates.state.join_state import JoinState
from xscl.spark.part_format import DOCUMENTS

LEFT, RIGHT = 0, 1

ROWS = pa.schema(
    [
        ("absence", pa.int64()),
        ("side", pa.int8()),
        ("key", pa.uint64()),
        ("doc", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)
"""Rows of the blocks of absences: `key` is one for an absence and all compared values, `doc` a
place."""


_OF_ROWS = ("absence", "key", "nodes")
_LEFT = pa.schema([*DOCUMENTS, *(ROWS.field(name) for name in _OF_ROWS)])
_RIGHT = pa.schema([_LEFT.field(name) for name in ("absence", "key", "ts")])


class EqualityAbsence(NamedTuple):
    """A subscription to what does not come: rows of R_T of its blocks, the window in ticks.

    An answer comes at least `lower` and at most `window` after its left row.
    `left_nodes` and `right_nodes` are places among the nodes of the rows' results; the values at
    them are equal.
    """

    key: str
    number: int
    left: int
    right: int
    lower: int
    window: int
    left_nodes: tuple[int, ...]
    right_nodes: tuple[int, ...]


class _NoState:
    """The join state of filters, which read the batch only."""

    def __init__(self) -> None:
        self.memory = JoinState()


@cache
def evaluators() -> tuple[ConjunctiveQueries, SmallBatch]:
    """Return the evaluators of this process, for many documents and for few."""
    queries = ConjunctiveQueries()
    return queries, SmallBatch(queries)


def block_rows(
    registry: Registry, absences: Sequence[EqualityAbsence], bindings: Columns, times: pa.Table
) -> pa.Table:
    """Return the rows (`ROWS`) of the blocks of absences in documents.

    `bindings` are all bindings of the documents, with `key` and `valued`; their `doc` is a place
    from 0, and `times` (`TIMES`) has the document of a place under the next number.
    """
    if not absences:
        return ROWS.empty_table()
    queries, small = evaluators()
    columns = {"doc": bindings["doc"] + 1, **{n: bindings[n] for n in ("pair", "node1", "node2")}}
    rows = pa.table({**columns, "key": pa.array(bindings["key"], mask=~bindings["valued"])})
    many = times.num_rows > SMALL_BATCH
    batch = BatchJoin(
        registry,
        _NoState(),
        rows,
        times,
        evaluator=queries if many else small,
        of_one=small,
        most=RESULTS,
    )
    batch.filter()
    found, _ = batch.found()
    queries.release()
    valued = chosen(bindings, np.flatnonzero(bindings["valued"]))
    codes, first = np.unique(
        pack(valued["doc"], valued["node2"].astype(np.int64)), return_index=True
    )
    codes, keys = np.append(codes, _NO_NODE), np.append(valued["key"][first], np.uint64(0))
    made = [ROWS.empty_table()]
    for one in absences:
        sides = (LEFT, one.left, one.left_nodes), (RIGHT, one.right, one.right_nodes)
        for side, qid, nodes in sides:
            of_block = found.filter(pc.equal(found["qid"], qid))
            doc = of_block["doc1"].to_numpy() - 1
            key = np.full(len(doc), one.number, np.uint64)
            stays = np.ones(len(doc), np.bool_)
            for place in nodes:
                node = pc.list_element(of_block["nodes"], place).to_numpy()
                wanted = pack(doc, node.astype(np.int64))
                at = np.searchsorted(codes, wanted)
                stays &= codes[at] == wanted
                key = (key ^ keys[at]) * _MIXING
            same = {"absence": np.full(len(doc), one.number), "side": np.full(len(doc), side)}
            columns = {**same, "key": key, "doc": doc, "nodes": of_block["nodes"]}
            made.append(pa.table(columns).cast(ROWS).filter(pa.array(stays)))
    return pa.concat_tables(made)


_NO_NODE = np.iinfo(np.int64).max
_MIXING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: multiplied by it, keys of several values differ if one of them does."""


class WaitingRows:
    """The left rows of a bucket that wait, with their documents, and the right rows.

    Right rows stay as long as a left one may come that they answer.
    """

    def __init__(self, lateness: int) -> None:
        self._lateness = lateness
        self.restore(None, None)

    def state(self) -> tuple[pa.Table, pa.Table]:
        """Return what waits, for `restore`."""
        return self._left, self._right

    def restore(self, left: pa.Table | None, right: pa.Table | None) -> None:
        """Put back what waited; None: nothing."""
        self._left = _LEFT.empty_table() if left is None else left
        self._right = _RIGHT.empty_table() if right is None else right

    def join(
        self, absences: Sequence[EqualityAbsence], rows: pa.Table, documents: pa.Table, clock: int
    ) -> pa.Table:
        """Add rows (`ROWS`) of documents; return left rows without an answer, with a `deadline`.

        `absences` are those of the plan; `clock` is the largest time so far.
        """
        bounds = {one.number: (one.lower, one.window) for one in absences}
        new = documents.take(rows["doc"])
        for name in _OF_ROWS:
            new = new.append_column(name, rows[name])
        in_time = new["clock"].to_numpy() <= new["ts"].to_numpy() + self._lateness

        def added(old: pa.Table, side: int) -> pa.Table:
            """Return rows of a side that waited and new ones, of absences of the plan."""
            mask = in_time & (rows["side"].to_numpy() == side)
            every = pa.concat_tables((old, new.filter(pa.array(mask)).select(old.column_names)))
            planned = pa.array(list(bounds), pa.int64())
            return every.filter(pc.is_in(every["absence"], planned))

        left, right = added(self._left, LEFT), added(self._right, RIGHT)
        of_rows = [bounds[number] for number in left["absence"].to_pylist()]
        lower, window = np.array(of_rows, np.int64).reshape(-1, 2).T
        answered = _answered(left, right, lower, window)
        deadline = left["ts"].to_numpy() + window
        over = deadline + self._lateness < clock
        self._left = left.filter(pa.array(~answered & ~over)).combine_chunks()
        still = right["ts"].to_numpy() + self._lateness >= clock
        self._right = right.filter(pa.array(still)).combine_chunks()
        found = left.append_column("deadline", pa.array(deadline))
        return found.filter(pa.array(over & ~answered))


def _answered(left: pa.Table, right: pa.Table, lower: Column, window: Column) -> Column:
    """Return a mask of left rows that a right row answers at least `lower` later, in the window."""
    both = columns_of(pa.concat_tables(one.select(("key", "ts")) for one in (left, right)))
    _, group = np.unique(both["key"], return_inverse=True)
    times, place = np.unique(both["ts"], return_inverse=True)
    since = np.searchsorted(times, left["ts"].to_numpy() + lower)
    # One place more than times: a row after all of them has a code of its own.
    codes = group * (len(times) + 1)
    ours, theirs = codes[: len(left)] + since, np.sort((codes + place)[len(left) :])
    later = np.append(theirs, -1)[np.searchsorted(theirs, ours)]
    is_same = later // (len(times) + 1) == group[: len(left)]
    distance = np.append(times, 0)[later % (len(times) + 1)] - left["ts"].to_numpy()
    answered: Column = is_same & (distance <= window)
    return answered
