"""Which witnesses of documents an engine has that evaluates all joins.

It has those of a pair of variables from the first document on that a subscription sees that uses
the pair, and as long as a later document may be joined with them.  (It deletes them then, or soon.)
A subscription that was removed does not count, although what it left is still there if another one
uses its pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.model.join_graph import INFINITE
from templates.model.relations import Witnesses
from templates.registry.registry import graph_of
from templates.storage import Numbers
from xscl.documents.results import Subscription


def documents_seen(
    subscriptions: Iterable[Subscription], qids: Callable[[Subscription], Iterable[int]]
) -> dict[int, int]:
    """Return the first document that some subscription of each row of R_T sees."""
    found: dict[int, int] = {}
    for one in subscriptions:
        for qid in qids(one):
            found[qid] = min(one.since, found.get(qid, one.since))
    return found


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of the witnesses of pairs of variables; columns are by number of pair.

    Each of the `spans` of a pair is a first document and a retention in ticks, and a witness stays
    as long as it is in one of them.  It has a value from the document `valued` on.
    """

    spans: Sequence[tuple[Numbers, Numbers]]
    valued: Numbers

    @classmethod
    def of(cls, stored: Mapping[str, pa.Table], seen: Mapping[int, int], size: int) -> Reach:
        """Return the reach of the pairs below a number.

        `stored` has all rows of R_T and their templates, `seen` is as `documents_seen` returns it.
        """
        ids, texts = (stored["template"][name].to_pylist() for name in ("id", "graph"))
        graphs = {number: graph_of(text) for number, text in zip(ids, texts, strict=True)}
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        valued = np.full(size, INFINITE)
        rows = [row for row in stored["r_t"].to_pylist() if row["qid"] in seen]
        for row in sorted(rows, key=lambda row: (seen[row["qid"]], -row["keep"])):
            graph, span = graphs[row["template"]], (seen[row["qid"]], row["keep"])
            for pair, (_, child) in zip(row["pairs"], graph.pairs, strict=True):
                if pair >= size or not graph.two_sided:
                    continue
                if not spans[pair] or spans[pair][-1][1] < span[1]:
                    spans[pair].append(span)
                if child in graph.compared:
                    valued[pair] = min(valued[pair], span[0])
        columns = []
        for each in zip_longest(*spans.values(), fillvalue=(INFINITE, 0)):
            since, keep = np.full(size, INFINITE), np.zeros(size, np.int64)
            since[list(spans)], keep[list(spans)] = zip(*each, strict=True)
            columns.append((since, keep))
        return cls(columns, valued)

    @property
    def since(self) -> Numbers:
        """The first document of each pair."""
        return self.spans[0][0]

    def installed(self, made: Witnesses) -> Witnesses:
        """Return the witnesses that stage 1 had when their documents came."""
        rows = made.bindings
        docs, pairs = (rows[name].to_numpy() for name in ("doc", "pair"))
        there, has_value = docs >= self.since[pairs], docs >= self.valued[pairs]
        values = pc.if_else(pa.array(has_value), rows["value"], pa.scalar(None, pa.int32()))
        place = rows.column_names.index("value")
        rows = rows.set_column(place, rows.field(place), values).filter(pa.array(there))
        return replace(made, bindings=rows)

    def alive(self, rows: pa.Table, times: pa.Table, clock: int) -> pa.Array:
        """Return a mask of the witnesses that documents from a clock on may join.

        `times` are those of their documents, in order.
        """
        docs, pairs = (rows[name].to_numpy() for name in ("doc", "pair"))
        ts = times["ts"].to_numpy()[np.searchsorted(times["doc"].to_numpy(), docs)]
        spans = ((docs >= since[pairs]) & (ts >= clock - keep[pairs]) for since, keep in self.spans)
        return pa.array(np.logical_or.reduce([*spans]))
