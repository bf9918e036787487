"""What the plan has found since it was asked last, as results of subscriptions.

Rows of joins come as tables, all else as composites by the number of their stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from templates.batch_join import FOUND
from templates.registry.registry import Registry
from xscl.documents.composite_events import Composite, Composites
from xscl.planning.operators.leaves import Leaves


class Findings:
    """Takes what joins and outlets find.

    `rows` is the list that outlets add to, `by_template` counts the rows of joins since the start.
    """

    def __init__(self, registry: Registry, composites: Composites, leaves: Leaves) -> None:
        self.rows: list[tuple[int, Composite]] = []
        self.by_template: Counter[int] = Counter()
        self._registry = registry
        self._composites = composites
        self._leaves = leaves
        self._received: Counter[int] = Counter()  # subscriptions by their stream of results
        self._tables: list[pa.Table] = []

    def begin(self, qid: int) -> None:
        """Have one subscription more for a stream of results."""
        self._received[qid] += 1

    def end(self, qid: int) -> None:
        """Have one less."""
        self._received[qid] -= 1
        if not self._received[qid]:
            del self._received[qid]

    def take(self, found: pa.Table) -> None:
        """Keep the rows of those joins that are results of subscriptions, not parts of others."""
        counts = pc.value_counts(found["qid"])
        qids = counts.field("values").to_pylist()
        for qid, rows in zip(qids, counts.field("counts").to_pylist(), strict=True):
            self.by_template[self._registry.row(qid).template] += rows
        wanted = [qid for qid in qids if self._received[qid]]
        if len(wanted) < len(qids):
            found = found.filter(pc.is_in(found["qid"], pa.array(wanted, pa.int32())))
        if found.num_rows:
            self._tables.append(found)

    def results(self, of_events: Iterable[tuple[int, Composite]]) -> pa.Table:
        """Return what was found since the last time: qid, doc1, doc2, nodes; those of joins first.

        A composite that is a result has its number as doc1 and doc2; `of_events` are those that
        relational queries have found.
        """
        tables, self._tables = self._tables, []
        rows = dict.fromkeys(of_events)
        if rows:
            before = self._composites.rows_before(rows)
            self.rows.extend(row for row in rows if row not in before)
        found = [self._sorted(table) for table in tables]
        if self.rows:
            self.rows.sort(key=_in_order)
            numbers = [self._composites.number(composite) for _, composite in self.rows]
            qids = [qid for qid, _ in self.rows]
            columns = [qids, numbers, numbers, [[] for _ in numbers]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, FOUND, strict=True)]
            found.append(pa.table(arrays, schema=FOUND))
            self.rows.clear()
        return pa.concat_tables([FOUND.empty_table(), *found])

    def _sorted(self, found: pa.Table) -> pa.Table:
        """Return results by their documents, so that those of the same ones are together."""
        if not self._leaves.streams:
            order = [("doc2", "ascending"), ("doc1", "ascending"), ("qid", "ascending")]
            return found.sort_by(order)
        ones, others = found["doc1"].to_pylist(), found["doc2"].to_pylist()
        parts = self._composites.of({*ones, *others})
        keys = [
            (parts[other].docs, parts[one].docs, qid, other, one)
            for qid, one, other in zip(found["qid"].to_pylist(), ones, others, strict=True)
        ]
        return found.take(sorted(range(len(keys)), key=keys.__getitem__))


def _in_order(row: tuple[int, Composite]) -> tuple[object, ...]:
    """Return what results are put in order by."""
    qid, one = row
    values = [(value is not None, value) for value in one.values] if not one.docs else []
    return qid, one.ts, one.docs, one.nodes, one.start, one.first, values
