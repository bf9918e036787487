"""Results of a transaction: rows of joins as tables, all others as composites with their qid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_core.plan import Members, Operator, Row
from templates.batch_join import FOUND, NOTHING_FOUND
from templates.processor import Processor
from xscl.documents.composite_events import Composite, CompositeEvents
from xscl.planning.operators.leaves import Leaves
from xscl.planning.operators.reader import Reader
from xscl.planning.result_sinks import composite_in


class ResultCollector:
    """Collects the results of joins and sinks until the transaction stores them.

    `by_template` counts the rows of joins since the start.
    """

    def __init__(self, processor: Processor, composites: CompositeEvents, leaves: Leaves) -> None:
        self.by_template: Counter[int] = Counter()
        self._processor = processor
        self._composites = composites
        self._leaves = leaves
        self._rows: list[tuple[int, Composite]] = []
        self._tables: list[pa.Table] = []
        self.readers: Counter[int] = Counter()  # subscriptions by qid
        self._sinks: dict[int, Reader] = {}

    def add_reader(self, qid: int, root: Operator) -> None:
        """Add a subscriber of a qid; one below 0 has no row of R_T, but its `root` operator."""
        self.readers[qid] += 1
        if qid < 0 and qid not in self._sinks:

            def collect(row: Row, members: Members) -> None:
                self._rows.append((qid, composite_in(row)))

            self._sinks[qid] = Reader("results", root, collect)

    def remove_reader(self, qid: int) -> None:
        """Remove a subscriber of a qid."""
        self.readers[qid] -= 1
        if not self.readers[qid]:
            del self.readers[qid]
            if qid in self._sinks:
                self._sinks.pop(qid).close()

    def collect(self, found: pa.Table) -> None:
        """Keep the rows of joins that subscriptions read; the others are inputs of joins only."""
        counts = Counter(found["qid"].to_numpy().tolist())
        for qid, rows in counts.items():
            self.by_template[self._processor.template_of(qid)] += rows
        wanted = [qid for qid in counts if self.readers[qid]]
        if len(wanted) < len(counts):
            found = found.filter(pc.is_in(found["qid"], pa.array(wanted, pa.int32())))
        if found.num_rows:
            self._tables.append(found)

    def results(self, of_events: Iterable[tuple[int, Composite]]) -> pa.Table:
        """Return and clear the collected results (`FOUND`), those of joins first.

        A composite that is a result has its number as doc1 and doc2; `of_events` are the results
        of relational queries.
        """
        tables, self._tables = self._tables, []
        rows = dict.fromkeys(of_events)
        if rows:
            before = self._composites.rows_before(rows)
            self._rows.extend(row for row in rows if row not in before)
        found = [self._sorted(table) for table in tables]
        if self._rows:
            self._rows.sort(key=_in_order)
            numbers = [self._composites.number(composite) for _, composite in self._rows]
            qids = [qid for qid, _ in self._rows]
            columns = [qids, numbers, numbers, [[] for _ in numbers]]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, FOUND, strict=True)]
            found.append(pa.table(arrays, schema=FOUND))
            self._rows.clear()
        return pa.concat_tables(found) if found else NOTHING_FOUND

    def _sorted(self, found: pa.Table) -> pa.Table:
        """Return results sorted by their documents."""
        columns = [found[name].to_numpy() for name in ("qid", "doc1", "doc2")]
        if not self._leaves.streams:
            places = np.lexsort(columns)
        else:
            qids, ones, others = (column.tolist() for column in columns)
            parts = self._composites.of({*ones, *others})
            keys = [
                (parts[other].docs, parts[one].docs, qid, other, one)
                for qid, one, other in zip(qids, ones, others, strict=True)
            ]
            places = np.array(sorted(range(len(keys)), key=keys.__getitem__))
        is_sorted = (places == np.arange(len(places))).all()
        return found if is_sorted else found.take(pa.array(places))


def _in_order(row: tuple[int, Composite]) -> tuple[object, ...]:
    """Return the sort key of a composite result."""
    qid, one = row
    values = [(value is not None, value) for value in one.values] if not one.docs else []
    return qid, one.ts, one.docs, one.nodes, one.start, one.first, values
