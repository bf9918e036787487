"""Readers of the plan that are no m-ops: of results, of published matches, of inputs of joins.

Results of a transaction are rows of joins as tables, all others as composites with their qid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_core.plan import VALUES, Batch, Members, Operator, Port, Row
from templates.batch_join import FOUND, NOTHING_FOUND
from templates.columns.columns import table_of
from templates.processor import Processor
from xscl.documents.composite_events import Composite, CompositeEvents
from xscl.documents.results import Subscription
from xscl.planning.operators.leaves import Leaves


class OperatorReader:
    """Reads the rows of one operator until it is closed; `label` says what for."""

    def __init__(
        self, label: str, source: Operator, receive: Callable[[Row, Members], None]
    ) -> None:
        self.label = label
        self._source = source
        self._port = Port(self, receive)
        source.channel.connect(self._port, source.slot)

    def close(self) -> None:
        """Disconnect from the channel."""
        self._source.channel.disconnect(self._port, self._source.slot)


def composite_in(row: Row) -> Composite:
    """Return the composite that a row carries."""
    return cast(Composite, row[VALUES])


PublishedMatches: TypeAlias = "tuple[Subscription, list[Composite]]"


class PublishQueue:
    """The subscriptions that publish, and their matches; `run` publishes those of a round at once.

    `streams` are those that they publish on, by the keys of the subscriptions.
    """

    depth = 4

    def __init__(self, batch: Batch, publish: Callable[[Sequence[PublishedMatches]], None]) -> None:
        self.streams: dict[str, str] = {}
        self.seconds = 0.0
        self._batch = batch
        self._publish = publish
        self._readers: dict[str, OperatorReader] = {}
        self._reads: dict[str, Sequence[str]] = {}
        self._levels: dict[str, int] = {}
        self._queue: dict[str, PublishedMatches] = {}

    def add(
        self, root: Operator, subscription: Subscription, composite: Callable[[Row], Composite]
    ) -> None:
        """Publish the composites of the rows of an operator if the subscription publishes."""
        key, stream = subscription.key, subscription.publish
        if stream is None:
            return

        def put(row: Row, members: Members) -> None:
            self._queue.setdefault(key, (subscription, []))[1].append(composite(row))
            self._batch.touch(self)

        self.streams[key], self._reads[key] = stream, subscription.reads
        self._levels.clear()
        self._readers[key] = OperatorReader("publish", root, put)

    def remove(self, key: str) -> None:
        """Stop publishing for a subscription, if it publishes."""
        if key in self._readers:
            self._readers.pop(key).close()
            del self.streams[key], self._reads[key]
            self._levels.clear()

    def level(self, stream: str) -> int:
        """Return the length of the chain of published streams that ends with this one."""
        if stream not in self._levels:
            makers = [key for key, made in self.streams.items() if made == stream]
            below = (self.level(one) for key in makers for one in self._reads[key])
            self._levels[stream] = 1 + max(below, default=0) if makers else 0
        return self._levels[stream]

    def run(self) -> None:
        """Publish the queued matches."""
        queue, self._queue = self._queue, {}
        self._publish(list(queue.values()))


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
        self._sinks: dict[int, OperatorReader] = {}

    def add_reader(self, qid: int, root: Operator) -> None:
        """Add a subscriber of a qid; one below 0 has no row of R_T, but its `root` operator."""
        self.readers[qid] += 1
        if qid < 0 and qid not in self._sinks:

            def collect(row: Row, members: Members) -> None:
                self._rows.append((qid, composite_in(row)))

            self._sinks[qid] = OperatorReader("results", root, collect)

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
        found = list(map(self._sorted, tables))
        if self._rows:
            self._rows.sort(key=_in_order)
            numbered = ((qid, self._composites.number(one)) for qid, one in self._rows)
            found.append(table_of([(qid, doc, doc, []) for qid, doc in numbered], FOUND))
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
