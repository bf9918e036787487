"""NOT FOLLOWED BY and ELSE by equalities, in buckets: rows without an answer, and pairs.

The rows of both blocks are results of filters, which stage 1 evaluates.  They meet in the bucket of
their compared values.  A row waits until the clock, a column, has passed its deadline; what is
found does not depend on the cuts of micro-batches.  A document that is later than the lateness of
the stream is not seen, as by an operator over time of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import Column, Columns, chosen, columns_of, pack, spread
from templates.evaluators import ConjunctiveQueries, SmallBatch
from templates.model.result_bound import RESULTS
from templates.processor import SMALL_BATCH, BatchJoin
from templates.registry import Registry
from templates.state.join_state import JoinState
from templates.storage import sql_schema
from xscl.spark.part_format import DOCUMENTS
from xscl.time_format import LATEST

LEFT, RIGHT = 0, 1

ROWS = sql_schema("absence BIGINT, side TINYINT, key UBIGINT, doc BIGINT, nodes INTEGER[]")
"""Rows of the blocks of absences: `key` is a hash of the absence and all compared values, `doc` the
index of a document."""


_OF_ROWS = ("absence", "key", "nodes")
_WAITING = pa.schema(
    [*DOCUMENTS, *(ROWS.field(name) for name in _OF_ROWS), ("answered", pa.bool_())]
)


class EqualityAbsence(NamedTuple):
    """A subscription to what does not come: rows of R_T of its blocks, the bounds in ticks.

    An answer comes `lower` to `upper` after its left row.  Pairs of a row and its answer are
    results if `pairs`, rows of a side without one if it is `alone_left` or `alone_right`.
    `left_nodes` and `right_nodes` are places among the nodes of the rows' results; the values at
    them are equal.
    """

    key: str
    number: int
    left: int
    right: int
    lower: int
    upper: int
    pairs: bool
    alone_left: bool
    alone_right: bool
    left_nodes: tuple[int, ...]
    right_nodes: tuple[int, ...]


class AbsenceResults(NamedTuple):
    """Results of absences: places in `rows` of the left and the right row, -1 for none.

    `end` is the time of each, in ticks.
    """

    rows: pa.Table
    left: Column
    right: Column
    end: Column


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

    `bindings` are all bindings of the documents, with `key` and `valued`.  Their `doc` numbers the
    documents from 0, that of `times` (`TIMES`) from 1, in the same order.
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
    for absence in absences:
        sides = (
            (LEFT, absence.left, absence.left_nodes),
            (RIGHT, absence.right, absence.right_nodes),
        )
        for side, qid, nodes in sides:
            of_block = found.filter(pc.equal(found["qid"], qid))
            doc = of_block["doc1"].to_numpy() - 1
            key = np.full(len(doc), absence.number, np.uint64)
            stays = np.ones(len(doc), np.bool_)
            for place in nodes:
                node = pc.list_element(of_block["nodes"], place).to_numpy()
                wanted = pack(doc, node.astype(np.int64))
                at = np.searchsorted(codes, wanted)
                stays &= codes[at] == wanted
                key = (key ^ keys[at]) * _MIXING
            same = {"absence": np.full(len(doc), absence.number), "side": np.full(len(doc), side)}
            columns = {**same, "key": key, "doc": doc, "nodes": of_block["nodes"]}
            made.append(pa.table(columns).cast(ROWS).filter(pa.array(stays)))
    return pa.concat_tables(made)


_NO_NODE = np.iinfo(np.int64).max
_MIXING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: multiplied by it, keys of several values differ if one of them does."""


class WaitingRows:
    """The rows of a bucket that wait for an answer, or may be one, with their documents."""

    def __init__(self, lateness: int) -> None:
        self._lateness = lateness
        self.restore(None, None)

    def state(self) -> tuple[pa.Table, pa.Table]:
        """Return the waiting rows, for `restore`."""
        return self._left, self._right

    def restore(self, left: pa.Table | None, right: pa.Table | None) -> None:
        """Replace the waiting rows of both sides; None stands for no rows."""
        self._left = _WAITING.empty_table() if left is None else left
        self._right = _WAITING.empty_table() if right is None else right

    def join(
        self,
        absences: Sequence[EqualityAbsence],
        since: Mapping[int, int],
        rows: pa.Table,
        documents: pa.Table,
        clocks: tuple[int, int],
    ) -> AbsenceResults:
        """Add rows (`ROWS`) of documents; return the results that have become certain.

        `absences` are those of the plan, and `since` the version of it at which the subscription of
        each begins; `clocks` are the largest times before these documents and with them.
        """
        left, right = (
            self._added(old, rows, documents, side, since)
            for side, old in ((LEFT, self._left), (RIGHT, self._right))
        )
        rules = {absence.number: absence for absence in absences}
        lower, upper, pairs, *_ = _rules(rules, left)
        which, at, answered = _answers(left, right, (lower, upper), pairs.astype(np.bool_))
        left, right = _answered(left, which, answered), _answered(right, at)
        ends = np.maximum(_ts(left)[which], _ts(right)[at])
        before, now = clocks
        is_certain = (ends + self._lateness < now) & (ends + self._lateness >= before)
        none = len(left)
        found = [(which[is_certain], none + at[is_certain], ends[is_certain])]
        kept = []
        for side, table in enumerate((left, right)):
            lower, upper, pairs, *alone = _rules(rules, table)
            deadline = _ts(table) + np.maximum(-lower if side else upper, 0)
            over = deadline + self._lateness < now
            is_answered = table["answered"].to_numpy()
            silent = np.flatnonzero(over & ~is_answered & alone[side].astype(np.bool_))
            absent = np.full(len(silent), -1)
            places = (absent, none + silent) if side else (silent, absent)
            found.append((*places, deadline[silent]))
            # An answered row has further pairs, or nothing to wait for.
            stays = ~over & (~is_answered | pairs.astype(np.bool_))
            kept.append(table.filter(pa.array(stays)).combine_chunks())
        self._left, self._right = kept
        columns = (np.concatenate(column) for column in zip(*found, strict=True))
        return AbsenceResults(pa.concat_tables((left, right)), *columns)

    def _added(
        self,
        old: pa.Table,
        rows: pa.Table,
        documents: pa.Table,
        side: int,
        since: Mapping[int, int],
    ) -> pa.Table:
        """Return the waiting rows of a side and its new ones, of absences in `since` only."""
        new = documents.take(rows["doc"])
        for name in _OF_ROWS:
            new = new.append_column(name, rows[name])
        new = new.append_column("answered", pa.array(np.zeros(len(new), np.bool_)))
        first = [since.get(number, LATEST) for number in rows["absence"].to_pylist()]
        seen = new["version"].to_numpy() >= np.array(first, np.int64)
        in_time = new["clock"].to_numpy() <= _ts(new) + self._lateness
        mask = seen & in_time & (rows["side"].to_numpy() == side)
        every = pa.concat_tables((old, new.filter(pa.array(mask)).select(old.column_names)))
        return every.filter(pc.is_in(every["absence"], pa.array(list(since), pa.int64())))


def _ts(rows: pa.Table) -> Column:
    ts: Column = rows["ts"].to_numpy()
    return ts


def _answered(rows: pa.Table, places: Column, others: Column | bool = False) -> pa.Table:
    """Return rows with those at `places`, and those in the mask `others`, marked as answered."""
    mask = rows["answered"].to_numpy() | others
    mask[places] = True
    return rows.set_column(rows.column_names.index("answered"), "answered", pa.array(mask))


def _rules(absences: Mapping[int, EqualityAbsence], rows: pa.Table) -> Column:
    """Return `lower`, `upper`, `pairs`, `alone_left`, `alone_right` of the absence of each row."""
    of_rows = [absences[number][4:9] for number in rows["absence"].to_pylist()]
    return np.array(of_rows, np.int64).reshape(-1, 5).T


def _answers(
    left: pa.Table, right: pa.Table, bounds: tuple[Column, Column], pairs: Column
) -> tuple[Column, Column, Column]:
    """Return the places of left and right rows that answer each other, and a mask of left rows.

    Pairs are made of left rows in the mask `pairs`; the returned mask has others with an answer.
    """
    both = columns_of(pa.concat_tables(one.select(("key", "ts")) for one in (left, right)))
    _, group = np.unique(both["key"], return_inverse=True)
    times, place = np.unique(both["ts"], return_inverse=True)
    # One place more than times: a row after all of them has a code of its own.
    codes = group * (len(times) + 1)
    theirs = (codes + place)[len(left) :]
    order = np.argsort(theirs, kind="stable")
    lower, upper = (_ts(left) + bound for bound in bounds)
    ours = codes[: len(left)]
    first = np.searchsorted(theirs[order], ours + np.searchsorted(times, lower))
    last = np.searchsorted(theirs[order], ours + np.searchsorted(times, upper, "right"))
    asking = np.flatnonzero(pairs & (last > first))
    which, at = spread(first[asking], last[asking])
    which, at = asking[which], order[at]
    differ = left["base"].to_numpy()[which] != right["base"].to_numpy()[at]
    return which[differ], at[differ], ~pairs & (last > first)
