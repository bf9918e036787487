"""R_vj: the value joins of a batch, once for all templates (Hong 2009, section 6.5).

A row is a value join that holds between two documents, with the bindings of
both nodes and of the nodes above them, and with the documents' distance in time.
It is found by value: the kept slice of each value of the batch.

A value that very many documents share (the address of a channel) would join
all of them with one another, and hardly a query needs that alone.  So for
each row of R_T only the *driving* value join is made from the slices, the one
with the smallest slices.  The others are made between the documents that some
driving one has joined.

A *heavy* document has more than `PART` driving value joins.  It is joined with a part of its
partners at a time, without the value joins that only joins over the bound of results need.  Two
documents that alone have more than `PART` are *dense*: their R_vj is not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from templates.columns import (
    Column,
    Columns,
    Index,
    among,
    chosen,
    distinct,
    ends,
    numbered,
    pack,
    portions,
    spread,
    steps,
    together,
    unpack,
)
from templates.model.conjunctive_query import R_VJ
from templates.model.relations import Horizon
from templates.state.join_state import JoinState

FEW = 4096
"""Number of value joins of a batch up to which all are computed, without driving joins."""
LONG = 4
"""Minimum links of a slice per pair of variables for which a lookup by pair beats a scan."""
PART = 200_000
"""Maximum number of value joins that are computed in one step."""

TIMES = ("start", "ts", "clock", "rank", "base")
ROW = ("doc", "pair", "node1", "node2", "key")


@dataclass(frozen=True, slots=True)
class Dense:
    """Two documents with more than `PART` value joins; `edges` are packed pairs of variables."""

    left: int
    right: int
    edges: Column


Exceeding: TypeAlias = Callable[[int, Column], Column]
"""Returns a mask of value joins that the newcomer of a rank needs no more (bound of results)."""


class Driven(Protocol):
    """The driving value joins of a pass, which are made first."""

    @property
    def edges(self) -> Column:
        """The driving value joins: packed pairs of variables, sorted and distinct."""

    def others(self, present: Column) -> tuple[Column, Column]:
        """Return the other value joins of the rows of R_T that are driven by one of `present`.

        Two columns, one item for each other value join: the index of its driving value join in
        `present`, and itself as packed pairs of variables.
        """


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a batch over the join state; `times` are those of the batch's documents.

    With `back` the batch is the left side, and the right side is the state before the document
    `first`.  Otherwise the batch is the right side, and the left side is the whole state, the batch
    included.

    What is not in the batch came before it, also with a higher number than `first`: composites and
    published documents of an engine that replays documents of another one.

    `bounds` are those of all registered joins.  `is_here` returns a mask of the values (keys) whose
    value joins may drive; None: all.
    """

    kept: JoinState
    bounds: Horizon
    times: Columns
    back: bool
    first: int
    exceeding: Exceeding
    is_here: Callable[[Column], Column] | None = None

    def joins(
        self, batch: Columns, driving: Callable[[Mapping[int, int]], Driven]
    ) -> Iterator[Columns | Dense]:
        """Yield R_vj in parts; all rows between two documents are in the same part.

        `driving` selects the value joins that drive, given the weights of the batch's pairs of
        variables: the numbers of kept links with their values.
        """
        keys, places, here = np.unique(batch["key"], return_inverse=True, return_counts=True)
        there = self.kept.counts(keys)
        # A small push makes all value joins: choosing the driving ones would cost more.
        if (there * here).sum() <= FEW:
            which, rows = self.kept.of_values(batch["key"])
            if len(rows) <= FEW:
                yield self.made(batch, which, rows)
                return
        # The weight of a pair of variables is the number of rows that its value joins would have.
        # Of a row of R_T the lightest pair drives, so a row without a partner costs nothing.
        pairs, place = np.unique(batch["pair"], return_inverse=True)
        weights = np.bincount(place, there[places]).astype(np.int64)
        light = weights > 0
        driven = driving(dict(zip(pairs[light].tolist(), weights[light].tolist(), strict=True)))
        if len(driven.edges):
            yield from self._driven(batch, driven)

    def _precedes(self, docs: Column) -> Column:
        """Return a mask: True for documents numbered below `first` or not in the batch."""
        before: Column = (docs < self.first) | ~among(docs, self.times["doc"])
        return before

    def _driven(self, batch: Columns, driven: Driven) -> Iterator[Columns | Dense]:
        """Yield R_vj in parts, given the value joins that drive."""
        # Rows of the batch with equal value and pair have the same slice, which is read once.
        drives = np.flatnonzero(among(batch["pair"], distinct(self._sides(driven.edges)[0])))
        keys, near = batch["key"][drives], batch["pair"][drives].astype(np.int64)
        order = np.lexsort((near, keys))
        first = steps(keys[order], near[order])
        places = np.empty(len(drives), np.int64)
        places[order] = numbered(first, len(drives))
        asked = order[first]
        which, rows = self._slices(keys[asked], near[asked], driven.edges)
        rows = rows[np.argsort(which, kind="stable")]
        until = np.cumsum(np.bincount(which, minlength=len(asked)))
        slices = np.zeros((len(batch["key"]), 2), np.int64)  # by batch row: (begin, end) in `rows`
        slices[drives] = np.stack((np.append(0, until[:-1]), until), axis=1)[places]
        expected = slices[:, 1] - slices[:, 0]
        order = np.argsort(batch["doc"], kind="stable")
        starts = steps(batch["doc"][order])
        of_documents = np.add.reduceat(expected[order], starts)
        last = ends(starts, len(order))
        for part in portions(of_documents, PART):  # the rows of a document stay together
            some = order[starts[part[0]] : last[part[-1]]]
            is_heavy = of_documents[part[0]] > PART
            joined = self._in_parts if is_heavy else self._part
            yield from joined(chosen(batch, some), slices[some], rows, driven)

    def _part(
        self, ours: Columns, slices: Column, rows: Column, driven: Driven
    ) -> Iterator[Columns]:
        """Yield R_vj of rows `ours` of the batch: driving value joins, and others that these drive.

        `slices` has for each of them the range (begin, end) of its partners in `rows`, kept rows.
        """
        at, found = spread(*slices.T)
        joins = self.made(ours, at, rows[found])
        if len(joins["docs"]):
            besides = self._besides(ours, joins, driven)
            # A value join that drives another row of R_T is among `joins` already.
            made = among(besides["pairs"], driven.edges)
            if self.is_here is not None:  # value joins of other values were not made
                made &= self.is_here(besides["key"])
            yield together((joins, chosen(besides, ~made)))

    def _in_parts(
        self, ours: Columns, slices: Column, rows: Column, driven: Driven
    ) -> Iterator[Columns | Dense]:
        """Yield R_vj of one heavy document with some partners at a time.

        Rows of the document with the same slice are counted, not repeated, until a part is made.
        """
        doc = int(ours["doc"][0])
        distinct_slices, first, times = np.unique(
            slices, axis=0, return_index=True, return_counts=True
        )
        which, at = spread(*distinct_slices.T)
        kept = self.kept.rows(rows[at], ("doc", "rank", "pair"))
        if self.back:
            older = self._precedes(kept["doc"])
            which, at, kept = which[older], at[older], chosen(kept, older)
        near = ours["pair"][first][which].astype(np.int64)
        far = kept["pair"].astype(np.int64)
        edges = pack(near, far) if self.back else pack(far, near)
        partners, place = np.unique(kept["doc"], return_inverse=True)
        expected = np.bincount(place, times[which], len(partners)).astype(np.int64)
        for part in portions(expected, PART):
            here = np.flatnonzero((place >= part[0]) & (place <= part[-1]))
            here = here[~self.unneeded(doc, kept["rank"][here], edges[here])]
            if not len(here):
                continue
            if expected[part[0]] > PART:
                partner = int(partners[part[0]])
                docs = (doc, partner) if self.back else (partner, doc)
                yield Dense(*docs, distinct(edges[here]))
                continue
            wanted = np.zeros(len(rows), np.bool_)
            wanted[at[here]] = True
            before = np.append(0, np.cumsum(wanted))
            yield from self._part(ours, before[slices], rows[wanted], driven)

    def unneeded(self, doc: int, ranks: Column, edges: Column) -> Column:
        """Return a mask: True for each value join in `edges` that only cut joins need.

        `edges` are value joins of a document, `ranks` has the rank of its partner in each of them.
        """
        rank = int(self.times["rank"][np.searchsorted(self.times["doc"], doc)])
        newest, found = np.maximum(ranks, rank), np.zeros(len(edges), np.bool_)
        for newcomer in distinct(newest).tolist():
            own = newest == newcomer
            present = distinct(edges[own])
            found[own] = among(edges[own], present[self.exceeding(newcomer, present)])
        return found

    def _slices(self, keys: Column, near: Column, driven: Column) -> tuple[Column, Column]:
        """Return (places, rows): all combinations of an index in `keys` and a kept row to join.

        `keys` and `near` are the values and the pairs of variables of the batch's rows; a kept row
        is joined by a value join in `driven`.  In a long slice with few relevant pairs of
        variables, the pairs are looked up.
        """
        # A slice is scanned if that takes fewer steps than to look up each far pair in it.
        nears, fars = self._sides(driven)
        order = np.argsort(nears, kind="stable")
        nears, fars = nears[order], fars[order]
        first, last = (np.searchsorted(nears, near, side) for side in ("left", "right"))
        long = self.kept.counts(keys) > LONG * (last - first)
        which, rows = self.kept.of_values(keys[~long])
        which = np.flatnonzero(~long)[which]
        sides = near[which], self.kept.rows(rows, ("pair",))["pair"].astype(np.int64)
        usable = among(pack(*(sides if self.back else sides[::-1])), driven)
        asked, at = spread(first[long], last[long])
        asked = np.flatnonzero(long)[asked]
        place, found = self.kept.of_pairs(keys[asked], fars[at])
        which = np.concatenate((which[usable], asked[place]))
        rows = np.concatenate((rows[usable], found))
        if self.is_here is None:
            return which, rows
        here = self.is_here(keys[which])
        return which[here], rows[here]

    def _sides(self, numbers: Column) -> tuple[Column, Column]:
        """Return the halves of packed numbers: that of the batch's side, that of the kept side."""
        left, right = unpack(numbers)
        return (left, right) if self.back else (right, left)

    def _besides(self, batch: Columns, joins: Columns, driven: Driven) -> Columns:
        """Return R_vj of the value joins that `joins`, driving ones, need beside them.

        These are the other value joins of the rows of R_T that they drive.
        """
        # The candidates among kept rows are narrowed three times, by cheap tests before expensive
        # ones: by document and pair apart, by both together, and by the batch's values.
        near, far, nears, fars = self._asked(joins, driven)
        docs, pairs = distinct(far), distinct(fars)
        rows = self.kept.of_documents(docs)
        kept = self.kept.rows(rows, ("doc", "pair", "key", "valued"))
        wanted = distinct(_code(docs, far, pairs, fars))
        usable = np.flatnonzero(kept["valued"] & among(kept["pair"], pairs))
        codes = _code(docs, kept["doc"][usable], pairs, kept["pair"][usable])
        usable = usable[among(codes, wanted)]
        rows, kept = rows[usable], chosen(kept, usable)
        ours = np.flatnonzero(among(batch["pair"], distinct(nears)))
        keys = distinct(batch["key"][ours])
        usable = np.flatnonzero(among(kept["key"], keys))
        rows, kept = rows[usable], chosen(kept, usable)
        near, far = self._sides(distinct(joins["docs"]))
        in_need = among(far, docs)
        near, far = near[in_need], far[in_need]
        ours_by_doc = Index(batch["doc"][ours])
        there = _code(docs, kept["doc"], keys, kept["key"])
        made = []
        for part in portions(ours_by_doc.counts(near), PART):
            place, which = ours_by_doc.rows(near[part])
            asked = _code(docs, far[part][place], keys, batch["key"][ours[which]])
            found, at = Index(asked).rows(there)
            made.append(self.made(batch, ours[which[at]], rows[found]))
        return together(made or [self.made(batch, ours[:0], rows[:0])])

    def _asked(self, joins: Columns, driven: Driven) -> tuple[Column, Column, Column, Column]:
        """Return the other value joins of the rows of R_T that `joins` drive, as four columns: the
        batch's document, the kept one, and the pair of variables of each.
        """
        present, place = np.unique(joins["pairs"], return_inverse=True)
        lead, others = driven.others(present)
        others = others[np.argsort(lead, kind="stable")]
        until = np.cumsum(np.bincount(lead, minlength=len(present)))
        which, at = spread(np.append(0, until[:-1])[place], until[place])
        return (*self._sides(joins["docs"][which]), *self._sides(others[at]))

    def made(self, batch: Columns, which: Column, rows: Column) -> Columns:
        """Return R_vj of pairs of a batch row and a kept row: of those in time for some join.

        At the same index `which` has the index of a row of `batch`, `rows` that of a kept row.
        """
        at = np.searchsorted(self.times["doc"], batch["doc"][which])
        near, far = {n: self.times[n][at] for n in TIMES}, self.kept.rows(rows, TIMES)
        one, other = (near, far) if self.back else (far, near)
        measures = measures_of(one, other)
        gap, bounds = measures["gap"], self.bounds
        wanted = (one["base"] != other["base"]) & (gap >= bounds.lower) & (gap <= bounds.upper)
        wanted &= measures["age"] <= bounds.keep
        if self.back:
            wanted &= self._precedes(self.kept.rows(rows, ("doc",))["doc"])
        which, rows = which[wanted], rows[wanted]
        near, far = {n: batch[n][which] for n in ROW}, self.kept.rows(rows, ROW)
        one, other = (near, far) if self.back else (far, near)
        joins = {
            "doc1": one["doc"],
            "doc2": other["doc"],
            "key": one["key"],
            "pair1": one["pair"],
            "above1": one["node1"],
            "node1": one["node2"],
            "pair2": other["pair"],
            "above2": other["node1"],
            "docs": pack(one["doc"], other["doc"]),
            "pairs": pack(one["pair"].astype(np.int64), other["pair"].astype(np.int64)),
            "node2": other["node2"],
            "gap": gap[wanted],
            "lead": measures["lead"][wanted],
            "age": measures["age"][wanted],
        }
        assert list(joins) == R_VJ.names
        return joins


def measures_of(one: Columns, other: Columns) -> dict[str, Column]:
    """Return the columns gap, lead and age of left and right sides, row by row.

    `one` are rows of R_docTS of left sides, `other` those of their right sides.
    """
    forth, back = other["clock"] - one["ts"], one["clock"] - other["ts"]
    before, after = one["rank"] < other["rank"], one["rank"] > other["rank"]
    age = np.where(before, forth, np.where(after, back, np.maximum(forth, back)))
    return {"gap": other["ts"] - one["ts"], "lead": other["start"] - one["ts"], "age": age}


def _code(ones: Column, one: Column, others: Column, other: Column) -> Column:
    """Return one number for each value of `one` and the value of `other` at the same index.

    It is made of their indexes in `ones` and `others`, which are sorted.  Each value must be there:
    a missing one would get the number of its neighbour.
    """
    return np.searchsorted(ones, one) * len(others) + np.searchsorted(others, other)


class KeptState(Protocol):
    """An object whose attribute `memory` is the join state: what earlier documents have left."""

    @property
    def memory(self) -> JoinState:
        """The join state in memory."""


@dataclass(frozen=True, slots=True)
class BatchDocuments:
    """Reads ranks, bindings and distances in time of documents: of a batch, and of kept ones.

    `times` is R_docTSW of the batch, `columns` are its columns.
    """

    times: pa.Table
    columns: Columns
    state: KeptState

    def ranks(self, docs: Column) -> Column:
        """Return the rank of each of `docs`: its place in the order of arrival.

        It is -1 for documents that are neither in the batch nor kept.
        """
        numbers, place = np.unique(docs, return_inverse=True)
        times = self.columns
        here = among(numbers, times["doc"])
        found = np.full(len(numbers), -1, np.int64)
        found[here] = times["rank"][np.searchsorted(times["doc"], numbers[here])]
        if not here.all():
            found[~here] = self.state.memory.ranks(numbers[~here])
        return found[place]

    def bindings(self, docs: Column) -> Columns:
        """Return the kept bindings of some documents, as columns of the relation `binding`."""
        memory = self.state.memory
        names = ("doc", "pair", "node1", "node2", "key", "valued")
        return memory.rows(memory.of_documents(distinct(docs)), names)

    def distance(self, left: int, right: int) -> Columns | None:
        """Return the columns gap, lead, age, doc1 and doc2 of two documents, each with one row.

        None for versions of one document.
        """
        memory = self.state.memory
        rows = memory.of_documents(distinct(np.array([left, right])))
        known = memory.rows(rows, ("doc", "start", "ts", "clock", "rank", "base"))
        one, other = (chosen(known, np.flatnonzero(known["doc"] == d)[:1]) for d in (left, right))
        if one["base"][0] == other["base"][0]:
            return None
        return {**measures_of(one, other), "doc1": one["doc"], "doc2": other["doc"]}
