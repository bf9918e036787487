"""Stage 2 in a bucket: the batch join of `templates`, on the documents with values of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import (
    Column,
    Columns,
    among,
    chosen,
    columns_of,
    distinct,
    pack,
    unpack,
)
from templates.model.relations import TIMES
from templates.model.result_bound import RESULTS
from templates.processor import SMALL_BATCH, BatchJoin
from templates.state.join_state import JoinState
from xscl.spark.absences import ROWS, evaluators
from xscl.spark.part_format import BINDING, BINDINGS, DOCUMENTS, bucket_of, unpacked
from xscl.spark.plan_replica import PlanReplica

SHARE = 8
"""A bucket evicts when an eighth of its retention has passed: it reads the whole state then."""

_BEFORE = np.iinfo(np.int64).min


class BucketResults(NamedTuple):
    """The results of documents in a bucket: `rows` (`templates.processor.FOUND`), and `cuts`.

    A cut is a qid and a document with more results than the bound.  Documents have numbers of the
    bucket.
    """

    rows: pa.Table
    cuts: Sequence[tuple[int, int]]


class PartDocuments(NamedTuple):
    """The documents of parts in the order of arrival (`DOCUMENTS`), with bindings and absences.

    In `bindings`, and in `absences` (`absences.ROWS`), `doc` is the place of a document.
    """

    documents: pa.Table
    bindings: Columns
    absences: pa.Table


def selected(read: PartDocuments, mask: Column) -> PartDocuments:
    """Return the documents of a mask, with their bindings and rows of absences."""
    place = np.cumsum(mask) - 1
    rows = chosen(read.bindings, np.flatnonzero(mask[read.bindings["doc"]]))
    doc = read.absences["doc"].to_numpy()
    absences = read.absences.filter(pa.array(mask[doc]))
    places = pa.array(place[doc[mask[doc]]])
    return PartDocuments(
        read.documents.filter(pa.array(mask)),
        {**rows, "doc": place[rows["doc"]]},
        absences.set_column(ROWS.get_field_index("doc"), "doc", places),
    )


class _Designated(NamedTuple):
    """The designated equalities of the rows that some documents may complete."""

    edges: Column
    replica: PlanReplica

    def others(self, present: Column) -> tuple[Column, Column]:
        return self.replica.others(present)


class Bucket:
    """The join state of a bucket in a worker.

    Documents are numbered from 1 in the order of arrival, `table` has the kept ones (`DOCUMENTS`).
    """

    def __init__(self, bucket: int, buckets: int) -> None:
        self.memory = JoinState()
        self.table = DOCUMENTS.empty_table()
        self._bucket, self._buckets = bucket, buckets
        self._next = 1
        self._latest = _BEFORE  # the latest time of a document
        self._evicted = _BEFORE  # the clock at the last eviction
        self._replica: PlanReplica  # of the last `join`
        self._queries, self._small = evaluators()

    # -- A part of all values (`templates.processor.ValuePart`) --------------------------------

    def is_here(self, keys: Column) -> Column:
        """Return a mask of the values of this bucket."""
        here: Column = bucket_of(keys, self._buckets) == self._bucket
        return here

    def driving(self, weights: Mapping[int, int], *, back: bool) -> _Designated:
        """Return the designated equalities with their right (`back`: left) pair in `weights`."""
        edges = self._replica.edges
        near = unpack(edges)[0 if back else 1]
        pairs = np.fromiter(sorted(weights), np.int64, len(weights))
        return _Designated(edges[among(near, pairs)], self._replica)

    # -- Documents -------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The number of the first document in `table`."""
        kept: int = self.table.num_rows
        return self._next - kept

    def unknown(self, read: PartDocuments, oldest: int = _BEFORE) -> PartDocuments:
        """Return the documents whose name and text no kept document has.

        A repeated row changes nothing, as in an engine.  Kept documents before `oldest` do not
        count: an engine may have forgotten them.
        """
        digests = read.documents["digest"].to_numpy()
        first = np.zeros(len(digests), np.bool_)
        first[np.unique(digests, return_index=True)[1]] = True
        known = self.table["digest"].to_numpy()[self.table["ts"].to_numpy() >= oldest]
        is_new = first & ~np.isin(digests, known)
        return read if is_new.all() else selected(read, is_new)

    def join(self, replica: PlanReplica, documents: pa.Table, bindings: Columns) -> BucketResults:
        """Add documents, and return the results that they complete."""
        rows, times = self._add(documents, bindings)
        self._replica = replica
        batch = BatchJoin(
            replica.registry,
            self,
            rows,
            times,
            evaluator=self._small if documents.num_rows <= SMALL_BATCH else self._queries,
            of_one=self._small,
            most=RESULTS,
            part=self,
        )
        earliest = int(documents["ts"].to_numpy().min())
        looks_back = replica.registry.retention.looks_back or earliest < self._latest
        self._latest = max(self._latest, int(documents["ts"].to_numpy().max()))
        batch.join(self._met(bindings), back=looks_back)
        found, cuts = batch.found()
        self._queries.release()
        return BucketResults(self._of_bucket(found), [(cut.qid, cut.rank) for cut in cuts])

    def _met(self, bindings: Columns) -> Column:
        """Return a mask of bindings with values, in documents that share a designated value.

        Other values are only tested beside it.
        """
        designated = among(bindings["pair"].astype(np.int64), self._replica.ends)
        drives = np.flatnonzero(bindings["valued"] & designated)
        drives = drives[self.is_here(bindings["key"][drives])]
        keys, place = np.unique(bindings["key"][drives], return_inverse=True)
        shared = (self.memory.counts(keys) > 1)[place]
        docs = distinct(bindings["doc"][drives[shared]])
        met: Column = bindings["valued"] & among(bindings["doc"], docs)
        return met

    def restore(self, replica: PlanReplica, documents: pa.Table, bindings: Columns) -> None:
        """Add documents that were joined before, with the bindings that rows of R_T still keep."""
        keeps = replica.registry.retention.keeps
        pairs = bindings["pair"]
        kept = keeps[np.minimum(pairs, len(keeps) - 1)] >= 0
        bindings = chosen(bindings, np.flatnonzero(kept & (pairs < len(keeps))))
        self._add(documents, bindings)
        self._latest = max(self._latest, int(documents["ts"].to_numpy().max()))

    def _add(self, documents: pa.Table, bindings: Columns) -> tuple[pa.Table, pa.Table]:
        """Add documents; return their bindings and times as relations of stage 2."""
        numbers = np.arange(documents.num_rows) + self._next
        self._next += documents.num_rows
        self.table = pa.concat_tables((self.table, documents))
        rows = pa.table(
            {
                "doc": numbers[bindings["doc"]],
                **{name: bindings[name] for name in ("pair", "node1", "node2")},
                "key": pa.array(bindings["key"], mask=~bindings["valued"]),
            }
        )
        ts = documents["ts"].to_numpy()
        times = pa.table(
            {
                "doc": numbers,
                "start": ts,
                "ts": ts,
                "clock": documents["clock"].to_numpy(),
                "rank": numbers,
                "base": documents["base"].to_numpy(),  # a document does not join itself
                "first": numbers,
            },
            schema=TIMES,
        )
        columns = {**bindings, "doc": numbers[bindings["doc"]]}
        self.memory.add(columns, columns_of(times.drop_columns("first")))
        return rows, times

    def _of_bucket(self, found: pa.Table) -> pa.Table:
        """Return the results that have their designated value in this bucket.

        Another bucket has the others: here they were made beside rows that share an equality.
        """
        if not found.num_rows:
            return found
        qids, which = np.unique(found["qid"].to_numpy(), return_inverse=True)
        place = np.array([self._replica.place_of_lead(qid) for qid in qids.tolist()])[which]
        nodes = found["nodes"].combine_chunks()
        node = nodes.flatten().to_numpy()[nodes.offsets.to_numpy()[:-1] + place]
        docs = found["doc1"].to_numpy()
        rows = self.memory.of_documents(distinct(docs))
        kept = self.memory.rows(rows, ("doc", "node2", "key", "valued"))
        kept = chosen(kept, np.flatnonzero(kept["valued"] & self.is_here(kept["key"])))
        here = among(pack(docs, node.astype(np.int64)), distinct(_packed(kept)))
        return found if here.all() else found.filter(pa.array(here))

    def all_nodes(self, qid: int, one: int, other: int) -> list[list[int]]:
        """Return the nodes of all results of a row of R_T with two documents, in any bucket."""
        both = np.sort([one, other])
        rows = self.memory.rows(self.memory.of_documents(both), ("doc", *BINDING))
        alone = Bucket(0, 1)
        bindings = {**rows, "doc": np.searchsorted(both, rows["doc"])}
        found = alone.join(self._replica, self.table.take(both - self.first), bindings).rows
        wanted = (qid, *(int(place) + 1 for place in np.searchsorted(both, (one, other))))
        columns = (found[name].to_pylist() for name in ("qid", "doc1", "doc2", "nodes"))
        return [nodes for *which, nodes in zip(*columns, strict=True) if tuple(which) == wanted]

    def evict(self, replica: PlanReplica, clock: int) -> None:
        """Evict what no document from `clock` on can join, unless the last eviction is recent."""
        keep = replica.keep
        if clock - self._evicted < keep // SHARE:
            return
        self._evicted = clock
        self.memory.forget(replica.registry.retention.keeps, clock)
        # Arrival order is not the order of time: a document stays as long as an older one does.
        latest = np.maximum.accumulate(self.table["ts"].to_numpy())
        old = int(np.searchsorted(latest, clock - keep))
        self.table = self.table.slice(old).combine_chunks()


def _packed(kept: Columns) -> Column:
    return pack(kept["doc"], kept["node2"].astype(np.int64))


def read_parts(parts: Iterable[tuple[bytes, bytes, bytes]]) -> PartDocuments | None:
    """Return parts in any order (`PARTS`) as one; None if they have no documents."""
    parts = [part for part in parts if part[0]]
    if not parts:
        return None
    tables = [unpacked(documents) for documents, _, _ in parts]
    documents = pa.concat_tables(tables).combine_chunks()
    order = pc.sort_indices(
        documents, [(name, "ascending") for name in ("number", "stream", "id")]
    ).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    before = np.cumsum([0, *(one.num_rows for one in tables)])[:-1].tolist()

    def united(data: Iterable[bytes], nothing: pa.Table) -> pa.Table:
        """Return tables with the places of documents among all."""
        found = [nothing]
        for first, one in zip(before, data, strict=True):
            if one:
                table = unpacked(one)
                places = pa.array(place[table["doc"].to_numpy() + first])
                at = table.column_names.index("doc")
                found.append(table.set_column(at, "doc", places))
        return pa.concat_tables(found)

    bindings = columns_of(united((one for _, one, _ in parts), BINDINGS.empty_table()))
    bindings = chosen(bindings, np.argsort(bindings["doc"], kind="stable"))
    absences = united((one for _, _, one in parts), ROWS.empty_table())
    return PartDocuments(documents.take(pa.array(order)), bindings, absences)
