"""The dataflow of documents through the one plan of all queries.

Documents pass the plan in two steps, so that the output does not depend on
how they were cut into batches.  First the monotone operators process the batch
as a whole: scans, joins, and published matches, in rounds.  Each row is as late
as if its documents had been pushed alone.  Then the clock advances document by
document, and closes epochs in order; the output of operators over time is
joined, published and scanned in its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import pyarrow as pa

import cep_core
from cep_core import Schema, is_calendar
from cep_core.plan import (
    AwaitedTimes,
    Builder,
    MOp,
    Plan,
    Wanted,
    members_of,
)
from templates.model.join_graph import INFINITE, LEFT
from templates.processor import Processor
from templates.registry import Registry
from xscl.documents.composite_events import Composite, CompositeEvents
from xscl.documents.document_log import DocumentLog
from xscl.documents.results import Subscription
from xscl.language.functions import EVENT_FUNCTIONS
from xscl.planning.event_queries import Relational
from xscl.planning.operators.events import COMPOSITE, Attributes, Collect, Instants, Record, Records
from xscl.planning.operators.joins import (
    JoinDefinition,
    Joins,
    PublishedMatches,
    PublishQueue,
    ResultCollector,
    TemplateJoin,
    XPathScan,
)
from xscl.planning.operators.leaves import Leaves
from xscl.planning.operators.refine import Refine
from xscl.planning.plan_graph import template_name
from xscl.planning.planned_subscriptions import (
    InstalledPairs,
    PlannedSubscriptions,
    StreamScans,
)
from xscl.planning.planner import RULES, Planner
from xscl.planning.temporal_lowering import FUNCTIONS_OVER_TIME
from xscl.planning.truncations import Cuts
from xscl.shredding.arrivals import Arrival, Arrivals, shred
from xscl.store.queries.tables import LEVELS


class _AwaitedBy(NamedTuple):
    """The lanes and calendars on which the operators of `subscriptions` wait."""

    subscriptions: Sequence[Subscription]
    lanes: AwaitedTimes
    calendars: frozenset[str]


class Dataflow:
    """The plan, its subscriptions, its state, and the documents that pass through it.

    `number` maps the definition of a composite stream to its number.  `lateness` and `schema` map a
    stream of documents to its lateness, in ticks, and to its attributes, if known.
    `publish` makes documents of matches.  `automaton` is that of stage 1, `joins` is stage 2.
    """

    def __init__(
        self,
        registry: Registry,
        processor: Processor,
        documents: DocumentLog,
        composites: CompositeEvents,
        number: Callable[[str], int],
        lateness: Callable[[str], int],
        publish: Callable[[Sequence[PublishedMatches]], None],
        schema: Callable[[str], Schema | None],
        cuts: Cuts,
    ) -> None:
        self.cuts = cuts
        self._documents = documents
        leaves = self._leaves = Leaves(documents.tree)
        self._processor = processor
        self._registry = registry
        self.pairs = InstalledPairs(leaves)
        self.automaton = self.pairs.automaton
        self._scan: XPathScan
        self._scanned: Counter[str] = Counter()  # counts of scans by stream
        self._collector = ResultCollector(processor, composites, leaves)
        self.core = cep_core.Engine(
            rules=RULES,
            functions={**FUNCTIONS_OVER_TIME, **EVENT_FUNCTIONS},
            builders=self._builders(registry),
            types=[COMPOSITE],
            exact=True,
        )
        self.core.clock.now = documents.clock
        self.state_log = self.core.keep_log()
        plan = self.core.plan
        published = PublishQueue(plan.batch, publish)

        self.joins = Joins(
            processor,
            composites,
            leaves,
            plan.batch,
            self.core.clock,
            self._collector.collect,
            cuts.note,
            published.level,
        )
        self._records = Records(self.core.clock)
        planner = self._planner = Planner(self.core, registry, number, lateness)
        self.relational = Relational(self.core, self._records, planner.source, lateness, schema)
        self.subscribed = PlannedSubscriptions(
            registry,
            planner,
            self.relational,
            self._collector,
            published,
            StreamScans(plan, planner.source),
            self.pairs,
            self.state_log,
            cuts,
        )
        self._entered: Counter[tuple[str, ...]] = Counter()  # document counts by streams
        self._awaited = _AwaitedBy((), AwaitedTimes(()), frozenset())

    def _builders(self, registry: Registry) -> Mapping[str, Builder]:
        def xpath_scan(plan: Plan, wanted: Wanted, number: int) -> MOp:
            self._scan = XPathScan(wanted, number, self._scanned)  # all documents have one channel
            return self._scan

        def template_join(plan: Plan, wanted: Wanted, number: int) -> MOp:
            assert isinstance(wanted.definition, JoinDefinition)
            graph = registry.members[wanted.definition.template].template.graph
            split = sum(1 for node in graph.nodes if node.output and node.side == LEFT)
            return TemplateJoin(wanted, number, self.joins, split)

        tree = self._documents.tree
        return {
            "xpath_scan": xpath_scan,
            "template_join": template_join,
            "refine": lambda plan, wanted, number: Refine(
                wanted, number, tree, self._documents.read, plan.batch, plan.clock
            ),
            "attributes": lambda plan, wanted, number: Attributes(wanted, number, tree, self.cuts),
            "collect": lambda plan, wanted, number: Collect(wanted, number),
            "record": lambda plan, wanted, number: Record(wanted, number, self._records),
            "instants": lambda plan, wanted, number: Instants(wanted, number),
        }

    def shred(self, arrivals: Arrivals) -> None:
        """Shred documents to witnesses (R_bin, R_docTS) for stage 2; emit those that are events."""
        self._entered.update(arrivals.streams)
        read = [
            place
            for place, streams in enumerate(arrivals.streams)
            if any(map(self._scanned.__getitem__, streams))
        ]
        if read:
            began = perf_counter()
            self.joins.take(shred(self.automaton, arrivals, read))
            self._scan.output.rows += len(read)
            self._scan.seconds += perf_counter() - began
        if self.relational.qids:
            self._emit(arrivals)

    def _emit(self, arrivals: Arrivals) -> None:
        """Emit the documents of streams that relational queries read as events."""
        events = self.relational.streams
        each = zip(arrivals.streams, arrivals.ts.tolist(), arrivals.firsts.tolist(), strict=True)
        for place, (streams, ts, first) in enumerate(each):
            sources = [self.core.plan.sources[name] for name in streams if name in events]
            if sources:
                members = members_of(sorted({source.slot for source in sources}))
                sources[0].channel.emit((ts, ts, first, Arrival(arrivals, place)), members)

    def count_unevaluated(self) -> None:
        """Count the conditions that could not be evaluated in the documents of this push."""

        def ids(docs: set[int]) -> dict[int, str]:
            return {doc: one.id for doc, one in self._documents.stored(docs).items()}

        self.automaton.unevaluated.count(ids)
        self.automaton.one_sided.count(ids)

    def join(self) -> None:
        """Evaluate the templates, in rounds until no result is joined or published any more."""
        self.core.plan.batch.run()

    def advance_time(self, arrivals: Arrivals) -> None:
        """Advance the clock document by document in arrival order; close each epoch it passes."""
        if self.subscribed.ordered or self.core.plan.lanes:
            columns = (arrivals.clocks, arrivals.ranks, arrivals.ts, arrivals.firsts)
            each = zip(*(column.tolist() for column in columns), strict=True)
            for clock, rank, ts, first in each:
                self.advance(clock, first)  # a beat may have raised the clock
                if self.relational.qids or self._passes_instant(ts):
                    self.core.pass_instants(ts, first)
                    self._records.release(rank - rank % LEVELS + LEVELS)
                    self.join()
                self.advance(ts)
        self.advance(self._documents.clock)
        self.join()

    def advance(self, clock: int, arrival: int | None = None) -> None:
        """Advance the clock to a time, in ticks, and close the epochs that end before it.

        Instants that the clock passes get the arrival number `arrival`, or else the next one.
        """
        if self._passes_instant(clock):
            number = self._documents.next_number() if arrival is None else arrival
            self.core.pass_instants(clock, number)
            self.join()
        if self.core.plan.lanes:
            self.core.raise_clock(clock)
        else:
            self.core.clock.now = max(self.core.clock.now, clock)

    def _passes_instant(self, clock: int) -> bool:
        """Test if the clock passes an instant of a calendar that some query reads."""
        reads = self.relational.qids or self._planner.calendars
        return bool(reads) and clock > self.core.next_instant()

    def occur(self, begin: int, end: int) -> None:
        """Emit the instants between two times, in ticks, before any document that follows."""
        self.core.begin_instants(begin)
        self.core.pass_instants(end, self._documents.next_number())
        self.join()

    def keep(self, composites: Sequence[tuple[int, int, Composite]]) -> None:
        """Add earlier composites, each with its number and its stream, to the state of joins."""
        self._processor.state.replace(self._leaves.witnesses(composites))

    def watermark(self, clock: int, lateness: int) -> int:
        """Return the last time, in ticks, for which nothing more can arrive, except late documents.

        A flush (`drain`) raises it to the end of the last absence that it has ended.
        """
        lane = self.core.plan.lanes.get(lateness)
        return max(clock - lateness, -INFINITE if lane is None else lane.closed) - 1

    def drain(self, until: int = INFINITE, rows_until: int = INFINITE) -> None:
        """Close the epochs and fire the timers of all lanes up to the time `until`, in ticks.

        Later epochs close up to `rows_until`, but none from a lane's next timer on.
        """
        for lane in self.core.plan.lanes.values():
            lane.drain(until, rows_until)
        self.join()

    def results(self) -> pa.Table:
        """Return and clear the results since the last call, as `ResultCollector.results` does."""
        return self._collector.results(self.relational.found() if self.relational.qids else ())

    def touched(self) -> set[int]:
        """Return and clear the numbers of documents and composites with new bindings or results."""
        found = set(self.joins.documents)
        self.joins.documents.clear()
        return found

    def passed(self) -> dict[str, int]:
        """Return the number of rows that streams, templates and m-ops have emitted, by node name.

        A stream emits documents.
        """
        found: Counter[str] = Counter()
        for names, documents in self._entered.items():
            for name in names:
                found[name] += documents
        for number, rows in self._collector.by_template.items():
            found[template_name(number)] = rows
        for mop in self.core.plan.mops:
            found[mop.label] = sum(channel.rows for channel in mop.channels())
        return found

    def time_spent(self) -> dict[str, float]:
        """Return the seconds that nodes of the plan have taken since the start, by their names.

        What stage 2 computes for all templates together is divided among them in proportion to
        their own times.
        """
        own = {number: one.seconds for number, one in self._registry.members.items() if one.seconds}
        factor = max(1.0, self.joins.seconds / sum(own.values())) if own else 0.0
        templates = {template_name(number): seconds * factor for number, seconds in own.items()}
        return {**templates, **self.core.plan.seconds()}

    def is_awaited(self, overdue: Callable[[int, int], bool], by: Sequence[Subscription]) -> bool:
        """Return True if a subscription in `by` waits for an overdue epoch or instant.

        `overdue` decides that, given a time and a lateness in ticks.  `by` must be the same object
        as before if its members are the same.
        """
        lanes = self.core.plan.lanes.values()
        due = [lane for lane in lanes if overdue(lane.next_epoch(), lane.lateness)]
        instants = overdue(self.core.next_instant(), 0)
        if (due or instants) and self._awaited.subscriptions is not by:
            operators = (operator for one in by for operator in self.subscribed.operators(one))
            read = frozenset(stream for one in by for stream in one.reads if is_calendar(stream))
            self._awaited = _AwaitedBy(by, AwaitedTimes(operators), read)
        if instants and overdue(self.core.next_instant(self._awaited.calendars), 0):
            return True
        return any(overdue(self._awaited.lanes.first(lane), lane.lateness) for lane in due)

    def take_late(self) -> list[tuple[int, int, int]]:
        """Return and clear the late documents: (document, watermark, lateness), in ticks.

        A row is as late as the newest of its documents; the lateness is that of
        the operators over time that missed it.
        """
        if not self.core.late:
            return []
        lanes = {mop.label: mop.lane for mop in self.core.plan.mops if mop.lane is not None}
        found: dict[tuple[int, int, int], None] = {}
        for row, watermark, missed in self.core.late:
            parts = [value for value in row if isinstance(value, Composite)]
            doc = max((*parts[0].docs, 0)) if parts else 0  # 0 and below are no documents
            doc = doc if doc > 0 else row[2]
            for label in missed:
                lane = lanes.get(label.partition(", ")[0])
                if lane is not None:
                    found[doc, watermark, lane.lateness] = None
        self.core.late.clear()
        return list(found)
