"""Stages 1 and 2 in the plan, and the readers of their rows that are no m-ops.

`XPathScan` is all blocks of all streams, `TemplateJoin` all joins of one template, and `Joins` all
templates.  The value joins of a batch are computed once for all templates
(docs/decisions/templates.md), so the templates' m-ops run together.  `Joins` passes the witnesses
of a batch, and the composites that are joined again, to the processor, which evaluates every
template that can fire.  Each TemplateJoin emits its rows.  Results that some operator joins again
are the next round's batch.

Results of a transaction are rows of joins as tables, all others as composites with their qid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_core.plan import (
    VALUES,
    Batch,
    Channel,
    Clock,
    Members,
    MOp,
    Operator,
    Port,
    Row,
    Wanted,
    members_of,
)
from templates.columns import Column, steps, table_of
from templates.evaluators import EvaluationError
from templates.model.relations import Witnesses
from templates.model.result_bound import Cut, grouped
from templates.processor import FOUND, NOTHING_FOUND, Processor
from xscl.documents.composite_events import Composite, CompositeEvents, joined
from xscl.documents.results import Subscription
from xscl.errors import EvaluationFailed
from xscl.planning.operators.leaves import Leaves
from xscl.shredding.arrivals import united
from xscl.store.queries.tables import LEVELS

AT_ONCE = 100_000
"""Results that are made into composites at once; the rest waits as columns."""
LAST = (1 << 31, 0)
"""The place of a join whose results no operator reads."""


# -- Stage 1 ---------------------------------------------------------------------------------


class XPathScan(MOp):
    """The m-op of the blocks of one channel; an operator has pairs of variables of one stream.

    `streams` counts the operators by stream.  `Dataflow.shred` runs the automaton over documents of
    these streams, and passes all their witnesses to stage 2 at once.  `output` emits no rows, but
    counts these documents.
    """

    def __init__(self, first: Wanted, number: int, streams: Counter[str]) -> None:
        super().__init__(first, number)
        self.output = self._output = Channel(False)
        self._streams = streams

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self._streams[_stream(operator)] += 1
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self._streams[_stream(operator)] -= 1


def _stream(scan: Operator) -> str:
    return str(scan.wanted.inputs[0].wanted.definition)


# -- Readers ---------------------------------------------------------------------------------


class OperatorReader:
    """Passes the rows of one operator to `receive` until it is closed; `label` is its purpose."""

    def __init__(
        self, label: str, source: Operator, receive: Callable[[Row, Members], None]
    ) -> None:
        self.label = label
        self._source = source
        self._port = Port(self, receive)
        source.channel.connect(self._port, source.slot)

    def close(self) -> None:
        """Stop passing on rows: disconnect from the channel of the operator."""
        self._source.channel.disconnect(self._port, self._source.slot)


def composite_in(row: Row) -> Composite:
    """Return the composite that a row carries."""
    return cast(Composite, row[VALUES])


PublishedMatches: TypeAlias = "tuple[Subscription, list[Composite]]"


class PublishQueue:
    """Queues the matches of subscriptions that publish; `run` publishes those of a round at once.

    `streams` has, by the key of a subscription, the stream that it publishes on.
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
        """Publish an operator's rows, as `composite` makes composites of them.

        Nothing happens if the subscription does not publish.
        """
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
        """Return the length of the longest chain of published streams that ends with a stream.

        It is 0 for a stream that no subscription publishes.
        """
        if stream not in self._levels:
            makers = [key for key, made in self.streams.items() if made == stream]
            below = (self.level(one) for key in makers for one in self._reads[key])
            self._levels[stream] = 1 + max(below, default=0) if makers else 0
        return self._levels[stream]

    def run(self) -> None:
        """Publish the queued matches, and clear the queue."""
        queue, self._queue = self._queue, {}
        self._publish(list(queue.values()))


class ResultCollector:
    """Collects the results of joins and of other operators until the transaction stores them.

    `by_template` counts the rows of joins since the start.
    """

    def __init__(self, processor: Processor, composites: CompositeEvents, leaves: Leaves) -> None:
        self.by_template: Counter[int] = Counter()
        self._processor = processor
        self._composites = composites
        self._leaves = leaves
        self._rows: list[tuple[int, Composite]] = []
        self._tables: list[pa.Table] = []
        self.readers: Counter[int] = Counter()  # counts of subscriptions by qid
        self._sinks: dict[int, OperatorReader] = {}

    def add_reader(self, qid: int, root: Operator) -> None:
        """Count one more subscriber of a qid, whose results are collected as long as it has one.

        A qid below 0 is no row of R_T: its results are those of the operator `root`.
        """
        self.readers[qid] += 1
        if qid < 0 and qid not in self._sinks:

            def collect(row: Row, members: Members) -> None:
                self._rows.append((qid, composite_in(row)))

            self._sinks[qid] = OperatorReader("results", root, collect)

    def remove_reader(self, qid: int) -> None:
        """Count one subscriber of a qid less; without any its results are dropped."""
        self.readers[qid] -= 1
        if not self.readers[qid]:
            del self.readers[qid]
            if qid in self._sinks:
                self._sinks.pop(qid).close()

    def collect(self, found: pa.Table) -> None:
        """Keep the rows of qids that subscriptions read; drop the others, which operators read."""
        counts = Counter(found["qid"].to_numpy().tolist())
        for qid, rows in counts.items():
            self.by_template[self._processor.template_of(qid)] += rows
        wanted = [qid for qid in counts if self.readers[qid]]
        if len(wanted) < len(counts):
            found = found.filter(pc.is_in(found["qid"], pa.array(wanted, pa.int32())))
        if found.num_rows:
            self._tables.append(found)

    def results(self, of_events: Iterable[tuple[int, Composite]]) -> pa.Table:
        """Return and clear the collected results (columns `FOUND`), those of joins first.

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
        """Return results sorted by the right document, the left one, and qid.

        Of a composite its documents count.
        """
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
    """Return the sort key of a composite and its qid: by qid, time, documents and nodes."""
    qid, one = row
    values = [(value is not None, value) for value in one.values] if not one.docs else []
    return qid, one.ts, one.docs, one.nodes, one.start, one.first, values


# -- Stage 2 ---------------------------------------------------------------------------------


class JoinDefinition(NamedTuple):
    """A row of R_T; `streams` has for each side its stream of composites by number, or None."""

    template: int
    qid: int
    streams: tuple[int | None, ...]


class Candidates(NamedTuple):
    """Rows of R_out of one join of two documents; `nodes` has a column for each output node.

    The first `split` output nodes belong to the left document.
    """

    left: list[int]
    right: list[int]
    nodes: list[list[int]]
    split: int


class CandidatePort(Port):
    """An input that tests candidates by columns, before composites are made of them.

    `passing` returns for each candidate, in their order, True if it passes the test.
    """

    __slots__ = ("passing",)

    def __init__(
        self,
        mop: MOp,
        receive: Callable[[Row, Members], None],
        passing: Callable[[Candidates], Iterable[bool]],
    ) -> None:
        super().__init__(mop, receive)
        self.passing = passing


class TemplateJoin(MOp):
    """The m-op of one template: its operators are rows of R_T, whose results it emits."""

    joins = True

    def __init__(self, first: Wanted, number: int, joins: Joins, split: int) -> None:
        super().__init__(first, number)
        self.split = split  # how many of a row's nodes are the left side's
        self._joins = joins
        self._output = Channel(False)
        self._by_qid: dict[int, Operator] = {}

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        operator.joined = len(wanted.inputs) > 1 or any(one.joined for one in wanted.inputs)
        definition = _definition(operator)
        self._by_qid[definition.qid] = self._joins.operators[definition.qid] = operator
        for source, stream in zip(wanted.inputs, definition.streams, strict=True):
            if stream is not None:
                self._joins.attach(source, stream)
        if len(self.operators) == 1:
            self._joins.templates[self] = None
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        definition = _definition(operator)
        del self._by_qid[definition.qid], self._joins.operators[definition.qid]
        for source, stream in zip(operator.wanted.inputs, definition.streams, strict=True):
            if stream is not None:
                self._joins.detach(source)
        if not self.operators:
            del self._joins.templates[self]

    def read(self) -> list[int]:
        """Return the qids of the joins whose rows other operators of the plan read."""
        if not self._output.routes:
            return []
        routes = self._output.routes
        return [qid for qid, operator in self._by_qid.items() if operator.slot in routes]

    def candidate_ports(self, qid: int) -> list[CandidatePort]:
        """Return the inputs that test the candidates of a join of documents.

        None are returned if an operator reads every row of the join.
        """
        operator = self._by_qid[qid]
        ports = self._output.routes.get(operator.slot, [])
        found = [port for port in ports if isinstance(port, CandidatePort)]
        blocks = not any(_definition(operator).streams)
        return found if blocks and len(found) == len(ports) else []

    def emit(self, composite: Composite, qids: Iterable[int]) -> None:
        """Emit the row of a composite, which the joins with these qids have found."""
        slots = sorted(self._by_qid[qid].slot for qid in qids)
        self._output.emit(composite.row, members_of(slots))


def _definition(operator: Operator) -> JoinDefinition:
    return cast(JoinDefinition, operator.wanted.definition)


@dataclass(eq=False, repr=False)
class Joins:
    """Evaluates all templates over one batch after the other.

    `documents` are the numbers of documents and composites with new bindings or results, until
    `Dataflow.touched` clears them.  `results` counts the results since the start.  `operators` has
    the operators of joins by qid.
    """

    depth = 2

    _processor: Processor
    _composites: CompositeEvents
    _leaves: Leaves
    _batch: Batch
    _clock: Clock
    _found: Callable[[pa.Table], None]
    _cut: Callable[[Sequence[Cut]], None]
    _level: Callable[[str], int]
    templates: dict[TemplateJoin, None] = field(default_factory=dict, init=False)
    operators: dict[int, Operator] = field(default_factory=dict, init=False)
    documents: set[int] = field(default_factory=set, init=False)
    _inlets: dict[Operator, OperatorReader] = field(default_factory=dict, init=False)
    # The number of joins that read the composites of an operator.
    _uses: Counter[Operator] = field(default_factory=Counter, init=False)
    _witnesses: list[Witnesses] = field(default_factory=list, init=False)
    _again: list[tuple[int, int, Composite]] = field(default_factory=list, init=False)
    _elsewhere: list[tuple[pa.Table, Sequence[Cut]]] = field(default_factory=list, init=False)
    results: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._rounds = Rounds(self._batch, self._processor, self._place, self._end_rounds)

    def take(self, witnesses: Witnesses) -> None:
        """Queue the witnesses of documents for the next `run`."""
        self._witnesses.append(witnesses)
        self._batch.touch(self)

    def take_found(self, found: pa.Table, cuts: Sequence[Cut]) -> None:
        """Queue the results that executors have found (columns `FOUND`), and their cuts."""
        if found.num_rows or cuts:
            self._elsewhere.append((found, cuts))
            self._batch.touch(self)

    def attach(self, source: Operator, stream: int) -> None:
        """Read the composites of an operator for one more join; the first makes the connection."""
        if source not in self._inlets:

            def take(row: Row, members: Members) -> None:
                self.join_again(stream, cast(Composite, row[VALUES]))

            self._inlets[source] = OperatorReader("joins", source, take)
        self._uses[source] += 1

    def detach(self, source: Operator) -> None:
        """Stop reading an operator's composites for one join; the last join ends the connection."""
        self._uses[source] -= 1
        if not self._uses[source]:
            del self._uses[source]
            self._inlets.pop(source).close()

    def join_again(self, stream: int, composite: Composite) -> None:
        """Queue a composite of a stream of composites as an input of joins."""
        self._again.append((self._composites.number(composite), stream, composite))
        self._batch.touch(self)

    def run(self) -> None:
        """Evaluate the templates over the queued witnesses and composites."""
        batch = self._witnesses
        if self._again:
            batch.append(self._leaves.witnesses(self._again))
        self._witnesses, self._again = [], []
        witnesses = batch[0] if len(batch) == 1 else _united(batch)
        try:
            found, cuts, stored = self._processor.join(
                witnesses, self._are_apart if self._leaves.streams else None
            )
        except EvaluationError as error:
            raise EvaluationFailed(
                str(error), hint="nothing of the batch is kept; push fewer documents at once"
            ) from error
        self.documents.update(stored.tolist())
        elsewhere, self._elsewhere = self._elsewhere, []
        if elsewhere:
            found = pa.concat_tables((found, *(one for one, _ in elsewhere)))
            cuts = [*cuts, *(cut for _, some in elsewhere for cut in some)]
        if not self.operators and not elsewhere:  # no join reads another: one round
            self._end_rounds(found, cuts)
        elif found.num_rows or cuts:
            self._rounds.add(grouped(found, self._ranks), cuts)

    def _ranks(self, docs: Column) -> Column:
        """Return the ranks of documents, which are their places in the order of arrival."""
        ranks = self._processor.documents.ranks(docs)
        # A document without a rank here is one whose witnesses only executors have.
        return np.where(ranks < 0, docs * LEVELS, ranks)

    def _place(self, qid: int) -> tuple[int, int]:
        """Return the sort key of a join: each join comes after those whose results it reads.

        It reads results as composites, or as published documents.  The key is the `level` of its
        streams and the depth of its operator; a join without an operator comes last.
        """
        operator = self.operators.get(qid)
        if operator is None:
            return LAST
        streams = (one.wanted.definition for one in operator.below() if not one.wanted.inputs)
        return max(self._level(cast(str, name)) for name in streams), operator.depth

    def _end_rounds(self, found: pa.Table, cuts: Sequence[Cut]) -> None:
        """Pass on the results, and cuts, of joins that have no more results in this batch."""
        if cuts:
            self._cut(cuts)
        self.results += found.num_rows
        if found.num_rows:
            docs = np.concatenate((found["doc1"].to_numpy(), found["doc2"].to_numpy()))
            self.documents.update(np.unique(docs).tolist())
            self._found(found)
            if self.templates:
                self._hand_on(found)

    def _are_apart(self, ones: Column, others: Column) -> Column:
        """Return a mask of the pairs of documents or composites that have no document in common."""
        left, right = ones.tolist(), others.tolist()
        parts = self._composites.of({*left, *right})
        apart = (
            set(parts[one].bases).isdisjoint(parts[other].bases)
            for one, other in zip(left, right, strict=True)
        )
        return np.fromiter(apart, np.bool_, len(left))

    def _hand_on(self, found: pa.Table) -> None:
        read = {qid: mop for mop in self.templates for qid in mop.read()}
        if not read:
            return
        rows = found.filter(pc.is_in(found["qid"], pa.array(list(read), pa.int32())))
        for part in self._by_newcomer(rows):
            self._hand_on_part(self._passing(part, read), read)

    def _passing(self, rows: pa.Table, read: Mapping[int, TemplateJoin]) -> pa.Table:
        """Return the rows without candidates that fail the residual test of every reader."""
        qids = rows["qid"].to_numpy()
        kept = np.ones(len(qids), np.bool_)
        for qid in np.unique(qids).tolist():
            ports = read[qid].candidate_ports(qid)
            if not ports:
                continue
            at = np.flatnonzero(qids == qid)
            own = rows.take(pa.array(at)) if len(at) < len(qids) else rows
            nodes = pc.list_flatten(own["nodes"]).to_numpy().reshape(len(at), -1)
            columns = Candidates(
                own["doc1"].to_pylist(), own["doc2"].to_pylist(), nodes.T.tolist(), read[qid].split
            )
            passing = [np.fromiter(port.passing(columns), np.bool_, len(at)) for port in ports]
            kept[at] = np.logical_or.reduce(passing)
        return rows if kept.all() else rows.filter(pa.array(kept))

    def _by_newcomer(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield results in parts of about `AT_ONCE` rows, by arrival of their newest documents."""
        if rows.num_rows <= AT_ONCE:
            yield rows
            return
        docs = (rows["doc1"].to_numpy(), rows["doc2"].to_numpy())
        rank = np.maximum(*map(self._ranks, docs))
        order = np.argsort(rank, kind="stable")
        first = steps(rank[order])
        cuts = first[np.flatnonzero(np.diff(first // AT_ONCE)) + 1]
        for part in np.split(order, cuts):
            yield rows.take(pa.array(part))

    def _hand_on_part(self, rows: pa.Table, read: Mapping[int, TemplateJoin]) -> None:
        grouped: dict[tuple[TemplateJoin, int, int, tuple[int, ...]], list[int]] = {}
        for qid, one, other, nodes in zip(*(c.to_pylist() for c in rows.columns), strict=True):
            grouped.setdefault((read[qid], one, other, tuple(nodes)), []).append(qid)
        parts = self._composites.of({n for _, one, other, _ in grouped for n in (one, other)})
        made = [
            (joined(parts, one, other, nodes, mop.split), mop, qids)
            for (mop, one, other, nodes), qids in grouped.items()
        ]
        made.sort(key=_arrival)
        for composite, mop, qids in made:
            self._clock.now = composite.clock
            self.documents.update(composite.docs)
            mop.emit(composite, qids)


@dataclass(eq=False, repr=False)
class Rounds:
    """Holds the results of joins in a batch's rounds, and passes on those of complete joins.

    `run` is called when nothing else of the batch has work.  Then a join can have further results
    only from held results of the joins that it reads, which come before it in the order of
    `Joins._place`.  So the results of the joins that come first in this order are complete.
    """

    depth = 8

    _batch: Batch
    _processor: Processor
    _place: Callable[[int], tuple[int, int]]
    _end: Callable[[pa.Table, Sequence[Cut]], None]
    seconds: float = field(default=0.0, init=False)
    _found: list[pa.Table] = field(default_factory=list, init=False)
    _cuts: list[Cut] = field(default_factory=list, init=False)

    def add(self, found: pa.Table, cuts: Sequence[Cut]) -> None:
        """Hold the results of a round, with the columns that `grouped` adds, and its cuts."""
        self._found.append(found)
        self._cuts += cuts
        self._batch.touch(self)

    def run(self) -> None:
        """Pass on the results and cuts of the joins that come first; hold those of the others."""
        found, cuts = pa.concat_tables(self._found), self._cuts
        self._found, self._cuts = [], []
        qids = found["qid"].to_numpy()
        every = {*np.unique(qids).tolist(), *(cut.qid for cut in cuts)}
        places = {qid: self._place(qid) for qid in every}
        first = min(places.values())
        later = [qid for qid, place in places.items() if place > first]
        if later:
            waits = pa.array(np.isin(qids, later))
            self.add(found.filter(waits), [cut for cut in cuts if places[cut.qid] > first])
            found = found.filter(pc.invert(waits))
            cuts = [cut for cut in cuts if places[cut.qid] == first]
        found, cuts = self._processor.bounded(found, cuts)
        self._end(found.select(FOUND.names), cuts)


def _arrival(made: tuple[Composite, TemplateJoin, list[int]]) -> tuple[object, ...]:
    """Return the sort key of a composite: by arrival, those of the same documents together."""
    return made[0].rank, made[0].docs, made[0].nodes


def _united(batch: Sequence[Witnesses]) -> Witnesses:
    """Return the witnesses of several batches as one."""
    bindings, values = united([(one.bindings, one.values) for one in batch])
    times = pa.concat_tables([one.times for one in batch]).sort_by("doc")
    return Witnesses(bindings, times, values)
