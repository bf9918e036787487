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

from templates.batch_join import BatchJoin
from templates.columns.columns import Column, Columns, among, columns_of, numbered, pack, steps
from templates.model.result_bound import RESULTS
from templates.processor import SMALL_BATCH
from templates.registry.registry import Registry
from templates.smallbatch.evaluator import SmallBatch
from templates.sql.queries import ConjunctiveQueries
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
"""Rows of the blocks of absences: `key` is one for all compared values, `doc` a place."""


_LEFT = pa.schema(
    [
        *DOCUMENTS,
        ("absence", pa.int64()),
        ("key", pa.uint64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)
_RIGHT = pa.schema([("absence", pa.int64()), ("key", pa.uint64()), ("ts", pa.int64())])


class Absence(NamedTuple):
    """A subscription to what does not come: rows of R_T of its blocks, the window in ticks.

    `left_nodes` and `right_nodes` are places among the nodes of the rows' results; the values at
    them are equal.
    """

    key: str
    number: int
    left: int
    right: int
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
    registry: Registry, absences: Sequence[Absence], bindings: Columns, times: pa.Table
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
    values = _Values(bindings)
    qids = found["qid"].to_numpy()
    made = [ROWS.empty_table()]
    for one in absences:
        sides = (LEFT, one.left, one.left_nodes), (RIGHT, one.right, one.right_nodes)
        for side, qid, nodes in sides:
            of_block = found.filter(pa.array(qids == qid))
            keys, stays = values.keys(of_block, nodes)
            columns = {
                "absence": np.full(len(keys), one.number),
                "side": np.full(len(keys), side, np.int8),
                "key": keys,
                "doc": of_block["doc1"].to_numpy() - 1,
                "nodes": of_block["nodes"],
            }
            made.append(pa.table(columns).cast(ROWS).filter(pa.array(stays)))
    return pa.concat_tables(made)


class _Values:
    """The keys of the values of nodes."""

    def __init__(self, bindings: Columns) -> None:
        valued = np.flatnonzero(bindings["valued"])
        codes = pack(bindings["doc"][valued].astype(np.int64), bindings["node2"][valued])
        self._codes, first = np.unique(codes, return_index=True)
        self._keys = bindings["key"][valued][first]

    def keys(self, found: pa.Table, nodes: Sequence[int]) -> tuple[Column, Column]:
        """Return one key for the values at some nodes of results, and a mask: all have a value."""
        keys = np.zeros(found.num_rows, np.uint64)
        stays = np.ones(found.num_rows, np.bool_)
        if not found.num_rows or not len(self._codes):
            return keys, stays & bool(len(self._codes))
        listed = found["nodes"].combine_chunks()
        flat, first = listed.flatten().to_numpy(), listed.offsets.to_numpy()[:-1]
        for place in nodes:
            codes = pack(found["doc1"].to_numpy() - 1, flat[first + place].astype(np.int64))
            at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
            stays &= self._codes[at] == codes
            keys = (keys ^ self._keys[at]) * _MIXING
        return keys, stays


_MIXING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: multiplied by it, keys of several values differ if one of them does."""


class Waiting:
    """The left rows of a bucket that wait, with their documents, and the right rows.

    Right rows stay as long as a left one may come that they answer.
    """

    def __init__(self, lateness: int) -> None:
        self._lateness = lateness
        self._left = _LEFT.empty_table()
        self._right = _RIGHT.empty_table()

    def state(self) -> tuple[pa.Table, pa.Table]:
        """Return what waits, for `restore`."""
        return self._left, self._right

    def restore(self, left: pa.Table | None, right: pa.Table | None) -> None:
        """Put back what waited; None: nothing."""
        self._left = _LEFT.empty_table() if left is None else left
        self._right = _RIGHT.empty_table() if right is None else right

    def join(
        self, absences: Sequence[Absence], rows: pa.Table, documents: pa.Table, clock: int
    ) -> pa.Table:
        """Add rows (`ROWS`) of documents; return left rows without an answer, with a `deadline`.

        `absences` are those of the plan; `clock` is the largest time so far.
        """
        of_rows = documents.take(rows["doc"])
        late = of_rows["clock"].to_numpy() > of_rows["ts"].to_numpy() + self._lateness
        rows, of_rows = rows.filter(pa.array(~late)), of_rows.filter(pa.array(~late))
        side = rows["side"].to_numpy()
        new = pa.table(
            {
                **{name: of_rows[name] for name in of_rows.column_names},
                **{name: rows[name] for name in ("absence", "key", "nodes")},
            }
        )
        left = pa.concat_tables((self._left, new.filter(pa.array(side == LEFT)))).cast(_LEFT)
        right = new.filter(pa.array(side == RIGHT)).select(_RIGHT.names)
        right = pa.concat_tables((self._right, right)).cast(_RIGHT)
        lengths = {one.number: one.window for one in absences}
        planned = np.array(sorted(lengths), np.int64)
        left, right = (_among(one, planned) for one in (left, right))
        windows = np.array([lengths[number] for number in planned.tolist()], np.int64)
        of_left = left["absence"].to_numpy()
        window = windows[np.searchsorted(planned, of_left)] if len(windows) else of_left
        answered = _answered(left, right, window)
        over = left["ts"].to_numpy() + window + self._lateness < clock
        self._left = left.filter(pa.array(~answered & ~over)).combine_chunks()
        still = right["ts"].to_numpy() + self._lateness >= clock
        self._right = right.filter(pa.array(still)).combine_chunks()
        found = pa.array(over & ~answered)
        return left.append_column("deadline", pa.array(left["ts"].to_numpy() + window)).filter(
            found
        )


def _among(rows: pa.Table, absences: Column) -> pa.Table:
    return rows.filter(pa.array(among(rows["absence"].to_numpy(), absences)))


def _answered(left: pa.Table, right: pa.Table, window: Column) -> Column:
    """Return a mask of left rows that a strictly later right row answers within the window."""
    if not left.num_rows or not right.num_rows:
        return np.zeros(left.num_rows, np.bool_)
    both = columns_of(pa.concat_tables(one.select(_RIGHT.names) for one in (left, right)))
    order = np.lexsort((both["key"], both["absence"]))
    first = steps(*(both[name][order] for name in ("absence", "key")))
    group = np.empty(len(order), np.int64)
    group[order] = numbered(first, len(order))
    times, place = np.unique(both["ts"], return_inverse=True)
    size = len(times) + 1
    codes = group * size + place
    ours, theirs = codes[: left.num_rows], np.sort(codes[left.num_rows :])
    theirs = np.append(theirs, np.iinfo(np.int64).max)
    later = theirs[np.searchsorted(theirs[:-1], ours, "right")]
    is_same = later // size == ours // size
    gap = times[np.where(is_same, later % size, 0)] - both["ts"][: left.num_rows]
    answered: Column = is_same & (gap <= window)
    return answered
