"""Documents of a service on executors: from offers to parts, and in the buckets.

An engine evaluates the other rows of R_T, so it gets the witnesses of their pairs of variables.
Parts have neither texts nor names of documents: the engine has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from templates.columns import Column
from templates.model.relations import BINDINGS, VALUES
from templates.storage import sql_schema
from xscl.engine.executors import FIRST, RESULTS, ExecutorResults
from xscl.shredding.arrivals import RemoteBindings, compute_bindings
from xscl.spark.absences import ROWS
from xscl.spark.bucket import BucketResults, PartDocuments
from xscl.spark.part_format import DOCUMENTS, WITNESSES, packed, unpacked
from xscl.spark.parts import BucketPart, divided, identities, keyed, part_rows
from xscl.spark.plan_replica import PlanReplica
from xscl.spark.streaming import BucketJoin, Live, PartData

FOUND_RESULTS, FOUND_CUTS, FOUND_WITNESSES = range(3)
"""Kinds of rows of `SHARES` that come from the buckets of a service."""

_CUTS = sql_schema("qid BIGINT, doc BIGINT")
_PORTION = sql_schema("first BIGINT, count BIGINT, refused BIGINT[]")


def parts_of(rows: pa.Table, replica: PlanReplica, buckets: int, version: int) -> pa.RecordBatch:
    """Shred documents (`offers.OFFERED`), and return rows of `PARTS`."""
    count = rows.num_rows
    numbers, clocks = (rows[name].to_numpy() for name in ("doc", "clock"))
    streams, ids, xml = (rows[name].to_pylist() for name in ("streams", "given", "xml"))
    found = compute_bindings(replica.automaton, zip(map(tuple, streams), xml, strict=True))
    every = keyed(found.bindings, found.values["strVal"].to_pylist())
    # The same id on other streams is another document.
    names = ["\n".join((*of, one)) for of, one in zip(streams, ids, strict=True)]
    table = pa.table(
        {
            "number": numbers,
            "clock": clocks,
            "ts": rows["ts"],
            **dict.fromkeys(("stream", "id"), pa.array([""] * count)),
            "xml": pa.nulls(count, pa.binary()),
            "version": np.full(count, version),
            **identities(names, xml),
            "base": numbers,  # only the engine knows the versions of a document
        },
        schema=DOCUMENTS,
    )
    parts = divided(replica, buckets, table, every, ROWS.empty_table())
    if count and numbers[0] >= FIRST:
        own = found.of_pairs(np.fromiter(replica.own.pairs, np.int64))
        portion = pa.table([[numbers[0]], [count], [sorted(found.refused)]], schema=_PORTION)
        data = packed(portion), packed(own.bindings), packed(own.values)
        parts.append(BucketPart(WITNESSES, *data))
    return part_rows(parts, version, int(clocks.max(initial=_BEFORE)))


_BEFORE = np.iinfo(np.int64).min


class OfferJoin(BucketJoin):
    """Joins the parts of one bucket for an engine, and passes witnesses on."""

    def _beside(self, parts: Sequence[PartData]) -> Iterator[Row]:
        for portion, bindings, values in parts:
            columns = {"portion": [portion], "bindings": [bindings], "values": [values]}
            yield Row(share=FOUND_WITNESSES, found=packed(pa.table(columns)))

    def _results(
        self, live: Live, replica: PlanReplica, read: PartDocuments, clocks: tuple[int, int]
    ) -> Iterator[Row]:
        documents, bindings = read.documents, read.bindings
        if not documents.num_rows:
            return
        if documents["number"][-1].as_py() < FIRST:  # of the past: their results are known
            live.bucket.restore(replica, documents, bindings)
            return
        found = live.bucket.join(replica, documents, bindings)
        for kind, table in _numbered(found, live.bucket.table, live.bucket.first):
            if table.num_rows:
                yield Row(share=kind, found=packed(table))


def _numbered(
    found: BucketResults, documents: pa.Table, first: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield results and cuts of a bucket, each with its kind, by the engine's document numbers.

    `first` is the number, in the bucket, of the first row of `documents`.
    """
    numbers, ts = (documents[name].to_numpy() for name in ("number", "ts"))
    ones, others = (found.rows[name].to_numpy() - first for name in ("doc1", "doc2"))
    columns = {
        "qid": found.rows["qid"],
        "doc1": numbers[ones],
        "doc2": numbers[others],
        "nodes": found.rows["nodes"],
        "ts": ts[np.minimum(ones, others)],
    }
    yield FOUND_RESULTS, pa.table(columns).cast(RESULTS)
    qids, docs = zip(*found.cuts, strict=True) if found.cuts else ((), ())
    yield FOUND_CUTS, pa.table([qids, numbers[np.array(docs, np.int64) - first]], schema=_CUTS)


def found_in(shares: pa.Table, numbers: Column) -> ExecutorResults:
    """Return rows of `SHARES` as the results for the documents with `numbers`."""
    results = [RESULTS.empty_table()]
    cuts: list[tuple[int, int]] = []
    portions: list[tuple[int, RemoteBindings, int]] = []
    for kind, data in zip(*(shares[name].to_pylist() for name in ("share", "found")), strict=True):
        table = unpacked(data)
        if kind == FOUND_RESULTS:
            results.append(table.cast(RESULTS))
        elif kind == FOUND_CUTS:
            cuts += zip(table["qid"].to_pylist(), table["doc"].to_pylist(), strict=True)
        else:
            portions += map(_portion, table.to_pylist())
    in_order = [(one, count) for _, one, count in sorted(portions, key=itemgetter(0))]
    elsewhere = RemoteBindings.united(in_order)
    return ExecutorResults(numbers, elsewhere, pa.concat_tables(results), cuts)


def _portion(data: Mapping[str, bytes]) -> tuple[int, RemoteBindings, int]:
    """Return the number of the first of some documents, their witnesses, and their count."""
    (portion,) = unpacked(data["portion"]).to_pylist()
    bindings, values = (
        unpacked(data[name]) if data[name] else schema.empty_table()
        for name, schema in (("bindings", BINDINGS), ("values", VALUES))
    )
    found = RemoteBindings(bindings, values, frozenset(portion["refused"]))
    return portion["first"], found, portion["count"]
