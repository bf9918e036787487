"""The one plan in which all queries run, and what feeds it.

Documents go through the plan in two steps, so that the output does not depend
on how they were cut into batches.  First what is monotone takes the batch as a
whole: scans, joins, and what is published from them, in rounds.  Each row goes
on as late as it would be alone.  Then the clock is raised document by document,
and epochs are closed in order; what operators over time put out is joined,
published and scanned in its turn.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

import cep_core
from cep_core import AttributeType, Query, Schema
from cep_core.plan import (
    Awaited,
    Builder,
    Channel,
    Members,
    MOp,
    Operator,
    Plan,
    Row,
    StateMOp,
    Wanted,
    members_of,
)
from templates.model.join_graph import LEFT
from templates.model.relations import Pair
from templates.processor import Processor
from templates.registry.registry import Placed, Registry
from xscl.documents.composite_events import Composite, Composites, composite_of
from xscl.documents.document_log import LEVELS, Documents
from xscl.documents.results import Subscription
from xscl.language.parser import parse_block
from xscl.planning.event_queries import Relational, composite_of_row
from xscl.planning.operators.attributes import Attributes
from xscl.planning.operators.collect import Collect
from xscl.planning.operators.joins import JoinDefinition, Joins, TemplateJoin
from xscl.planning.operators.leaves import Leaves
from xscl.planning.operators.record import Record, Records
from xscl.planning.operators.refine import Refine
from xscl.planning.operators.scan import XPathScan
from xscl.planning.plan_graph import Passed
from xscl.planning.planner import Planned, Planner
from xscl.planning.query_plan import Outline
from xscl.planning.result_collector import Findings
from xscl.planning.result_sinks import Outlet, Published, Publisher, Publishing, composite_in
from xscl.planning.rules import RULES
from xscl.planning.temporal_lowering import FUNCTIONS_OVER_TIME
from xscl.planning.truncations import Cuts, Stopped
from xscl.shredding.arrivals import Arrival, Arrivals
from xscl.shredding.automaton.pattern import ask
from xscl.shredding.remote.image import Image


def _composite(text: str) -> Composite:
    return composite_of(json.loads(text))


COMPOSITE = AttributeType(Composite, json.dumps, _composite)
_STREAMS = "streams"


def _query(name: str) -> str:
    """Return under which name the operators of a subscription are held."""
    return f"query {name}"


class Network:
    """The plan with its subscriptions, and the results of the documents that it was given.

    `number` gives the number of a stream of composites by its definition,
    `lateness` that of a stream of documents, `schema` what is known of its
    attributes; `publish` makes documents of matches; `image` is that of the automaton.
    """

    def __init__(
        self,
        registry: Registry,
        processor: Processor,
        documents: Documents,
        composites: Composites,
        number: Callable[[str], int],
        lateness: Callable[[str], int],
        publish: Callable[[Sequence[Published]], None],
        schema: Callable[[str], Schema | None],
        image: Image,
        cuts: Cuts,
    ) -> None:
        self.cuts = cuts
        self._registry = registry
        self._documents = documents
        self._composites = composites
        self._image = image
        self.automaton = image.automaton()
        self._leaves = Leaves(documents.tree)
        self._findings = Findings(registry, composites, self._leaves)
        self.core = cep_core.Engine(
            rules=RULES,
            functions=FUNCTIONS_OVER_TIME,
            builders=self._builders(),
            types=[COMPOSITE],
            exact=True,
        )
        self._log = self.core.keep_log()
        self.core.clock.now = documents.clock
        plan = self.core.plan
        self._records = Records(self.core.clock)
        self._publishing = Publishing(plan.batch, publish)
        self._joins = Joins(
            processor,
            composites,
            self._leaves,
            plan.batch,
            self.core.clock,
            registry.kept,
            self._findings.take,
            cuts.note,
            self._reads_results,
            lambda: bool(self._publishers),
        )
        self.planner = Planner(plan, registry, number, lateness)
        self.relational = Relational(
            self.core, self._records, self.planner.source, lateness, schema
        )
        self._planned: dict[str, Planned] = {}
        self._scans: dict[str, Operator] = {}  # of streams that rows of R_T are joined over
        self._joined: Counter[str] = Counter()  # subscriptions that are such rows, by stream
        self._ordered: dict[str, None] = {}  # subscriptions with operators over time
        self._nested = 0  # of these, those that read joins of the rows of another
        self._outlets: dict[int, Outlet] = {}
        self._publishers: dict[str, Publisher] = {}
        self._entered: Counter[tuple[str, ...]] = Counter()  # documents by their streams
        self._awaited: tuple[Sequence[Subscription], Awaited] = (), Awaited(())

    def _builders(self) -> Mapping[str, Builder]:
        def template_join(plan: Plan, wanted: Wanted, number: int) -> MOp:
            assert isinstance(wanted.definition, JoinDefinition)
            graph = self._registry.members[wanted.definition.template].template.graph
            split = sum(1 for node in graph.nodes if node.output and node.side == LEFT)
            return TemplateJoin(wanted, number, self._joins, split)

        tree = self._documents.tree
        return {
            "xpath_scan": lambda plan, wanted, number: XPathScan(
                wanted, number, self.automaton, self._joins, plan.batch
            ),
            "template_join": template_join,
            "refine": lambda plan, wanted, number: Refine(
                wanted, number, tree, self._documents.read, plan.batch, plan.clock
            ),
            "attributes": lambda plan, wanted, number: Attributes(
                wanted, number, tree, self.cuts, plan.batch, plan.clock
            ),
            "collect": lambda plan, wanted, number: Collect(wanted, number),
            "record": lambda plan, wanted, number: Record(wanted, number, self._records),
        }

    # -- Subscriptions ---------------------------------------------------------------------

    def plan(self, query: Outline, since: int, updates: bool) -> Planned:
        """Put a query into the plan; `attach` lets a subscription read it."""
        return self.planner.plan(query, since, updates)

    def attach(self, subscription: Subscription, planned: Planned) -> None:
        """Let a subscription have what its query yields."""
        root = planned.root
        assert root is not None
        self._planned[subscription.name] = planned
        self._findings.begin(subscription.qid)
        if planned.ordered:
            self._ordered[subscription.name] = None
            self._nested += planned.nested
            self._log.hold(_query(subscription.name), planned.held)
        if subscription.qid < 0:
            outlet = self._outlets.get(subscription.qid)
            if outlet is None:
                outlet = Outlet(root.operator, subscription.qid, self._findings.rows)
                self._outlets[subscription.qid] = outlet
            outlet.uses += 1
        if subscription.publish is not None:
            self._publish_from(root.operator, subscription, composite_in)

    def attach_row(self, subscription: Subscription) -> None:
        """Let a subscription have the results of a row of R_T over blocks.

        Unless it publishes them nobody in the plan reads the row, so all that the plan needs is a
        scan of its streams, one for all such rows.
        """
        if subscription.publish is not None:
            placed = Placed(subscription.template, subscription.qid, ())
            graph = self._registry.members[placed.template].template.graph
            streams = [subscription.reads[0], subscription.reads[-1]][: 1 + graph.two_sided]
            self.attach(subscription, self.planner.plan_row(placed, streams))
            return
        self._findings.begin(subscription.qid)
        for stream in subscription.reads:
            if not self._joined[stream]:
                source = self.planner.source(stream)
                scan = Wanted("xpath_scan", (), (source,))
                self._scans[stream] = self.core.plan.insert(scan)
            self._joined[stream] += 1

    def _detach_row(self, subscription: Subscription) -> None:
        for stream in subscription.reads:
            self._joined[stream] -= 1
            if not self._joined[stream]:
                del self._joined[stream]
                self.core.plan.release(self._scans.pop(stream))

    def attach_query(self, subscription: Subscription, query: Query) -> None:
        """Let a subscription have what a relational query finds."""
        self.relational.attach(subscription.name, subscription.qid)
        self._log.hold(_query(subscription.name), query.held)
        self._hold_streams()
        if subscription.publish is not None:
            assert query.root is not None
            self._publish_from(query.root, subscription, composite_of_row)

    def _publish_from(
        self, root: Operator, subscription: Subscription, composite: Callable[[Row], Composite]
    ) -> None:
        self._publishers[subscription.name] = Publisher(
            root, subscription, self._publishing, composite
        )

    def detach(self, subscription: Subscription) -> tuple[int, ...]:
        """Take a subscription out; return the pairs of variables that nothing uses any more."""
        publisher = self._publishers.pop(subscription.name, None)
        if publisher is not None:
            publisher.close()
        if subscription.relational:
            self.relational.remove(subscription.name)
            self._log.release(_query(subscription.name))
            self._hold_streams()
            return ()
        self._findings.end(subscription.qid)
        planned = self._planned.pop(subscription.name, None)
        if planned is None:
            self._detach_row(subscription)
            return self._drop(self._registry.remove(subscription.qid))
        self._ordered.pop(subscription.name, None)
        self._nested -= planned.nested
        if subscription.qid < 0:
            outlet = self._outlets[subscription.qid]
            outlet.uses -= 1
            if not outlet.uses:
                del self._outlets[subscription.qid]
                outlet.close()
        pairs = self.planner.release(planned)
        self._log.release(_query(subscription.name))
        return self._drop(pairs)

    def _drop(self, pairs: tuple[int, ...]) -> tuple[int, ...]:
        self.cuts.keep(self._registry.__contains__)
        for pair in pairs:
            self.automaton.remove(pair)
            self._leaves.remove(pair)
        return pairs

    def pairs(self, subscription: Subscription) -> list[int]:
        """Return the pairs of variables that a subscription uses."""
        return [pair for qid in self.qids(subscription) for pair in self._registry.row(qid).pairs]

    def qids(self, subscription: Subscription) -> list[int]:
        """Return the rows of R_T that a subscription uses."""
        planned = self._planned.get(subscription.name)
        if planned is not None:
            return [one.qid for one in planned.placed]
        return [subscription.qid] if subscription.template else []

    def _reads_results(self, qid: int) -> bool:
        """Return whether a row of R_T joins what other joins find or subscriptions publish."""
        published = {one.stream for one in self._publishers.values()}
        for number in self._registry.row(qid).pairs:
            pair = self._registry.describe(number)
            if _is_leaf(pair) or parse_block(pair.first, short=True).stream in published:
                return True
        return False

    def stopped(self, subscription: Subscription) -> Stopped | None:
        """Return where the bound of results has stopped a subscription, None if nowhere."""
        return self.cuts.of(
            self.qids(subscription), subscription.since, ordered=subscription.ordered
        )

    def numbers(self, subscription: Subscription) -> list[int]:
        """Return the numbers of the streams of composites that a subscription uses."""
        planned = self._planned.get(subscription.name)
        if planned is not None:
            return planned.numbers
        return [subscription.qid] if subscription.relational else []

    def operators(self, subscription: Subscription) -> Iterable[Operator]:
        """Return the operators of a subscription, the lower ones first."""
        planned = self._planned.get(subscription.name)
        if planned is not None:
            return dict.fromkeys(planned.held)
        if subscription.relational:
            return dict.fromkeys(self.core.query(subscription.name).held)
        return [self._scans[stream] for stream in subscription.reads]

    def ask(self, pairs: Sequence[Pair]) -> None:
        """Have the bindings of pairs of variables found."""
        of_documents = []
        for pair in pairs:
            if _is_leaf(pair):
                self._leaves.add(pair)
            else:
                of_documents.append(pair)
        ask(self.automaton, of_documents)

    def ask_again(self, pairs: Sequence[Pair]) -> None:
        """Have the bindings of all pairs found after a restart, as far as they are not already."""
        self.ask(self._image.missing(self.automaton, pairs))

    def set_prompt(self, prompt: bool) -> None:
        """Say whether some operator over time reads, in its epoch, what is made of another's."""
        self.core.plan.batch.prompt = prompt or self._nested > 0

    # -- Documents -------------------------------------------------------------------------

    def take(self, arrivals: Arrivals) -> None:
        """Hand documents to the scans."""
        entered = Counter(arrivals.streams)
        self._entered.update(entered)
        entrances = {streams: self._entrance(streams) for streams in entered}
        each = zip(arrivals.streams, arrivals.ts.tolist(), arrivals.firsts.tolist(), strict=True)
        for place, (streams, ts, first) in enumerate(each):
            entrance = entrances[streams]
            if entrance is not None:
                channel, members = entrance
                channel.emit((ts, ts, first, Arrival(arrivals, place)), members)

    def _entrance(self, streams: tuple[str, ...]) -> tuple[Channel, Members] | None:
        """Return where documents of some streams enter, None if nothing reads them."""
        sources = self.core.plan.sources
        read = [sources[stream] for stream in streams if stream in sources]
        if not read:
            return None
        return read[0].channel, members_of(sorted({source.slot for source in read}))

    def begin(self, *, several: bool) -> None:
        """Begin a transaction; `several`: it has more than one document."""
        self._joins.begin(several=several)

    @property
    def joined(self) -> int:
        """How many results the joins of this transaction have found."""
        return self._joins.results

    def shred(self, arrivals: Arrivals) -> None:
        """Find the witnesses of documents (R_bin, R_docTS), for stage 2."""
        self.take(arrivals)
        self.core.plan.batch.run(below=Joins.depth)

    def join(self) -> None:
        """Evaluate the templates, and in rounds what their results are joined with or publish."""
        self.core.plan.batch.run()

    def advance_time(self, arrivals: Arrivals) -> None:
        """Advance the clock document by document in arrival order; close each epoch it passes."""
        if self.ordered or self.core.plan.lanes:
            times = (arrivals.clocks.tolist(), arrivals.ranks.tolist(), arrivals.ts.tolist())
            for clock, rank, ts in zip(*times, strict=True):
                self.advance(clock)  # there may have been a beat
                if self.relational.qids:
                    self._records.release(rank + LEVELS)
                    self.join()
                self.advance(ts)
        self.advance(self._documents.clock)
        self.join()

    def advance(self, clock: int) -> None:
        """Raise the clock: epochs before it are closed."""
        if self.core.plan.lanes:
            self.core.raise_clock(clock)
        else:
            self.core.clock.now = max(self.core.clock.now, clock)

    def drain(self) -> None:
        """Close all epochs, and fire all timers: nothing more is waited for."""
        for lane in self.core.plan.lanes.values():
            lane.drain()
        self.join()

    def results(self) -> pa.Table:
        """Return what was found since the last time, see `Findings.results`."""
        return self._findings.results(self.relational.found() if self.relational.qids else ())

    def touched(self) -> set[int]:
        """Return the documents and composites in which something was found since the last time."""
        found = set(self._joins.documents)
        self._joins.documents.clear()
        return found

    def passed(self) -> Passed:
        """Return how many rows streams, templates and m-ops have handed on so far."""
        streams: Counter[str] = Counter()
        for names, documents in self._entered.items():
            for name in names:
                streams[name] += documents
        mops = {
            mop.label: sum(channel.rows for channel in mop.channels())
            for mop in self.core.plan.mops
        }
        return Passed(streams, self._findings.by_template, mops)

    def is_awaited(self, overdue: Callable[[int, int], bool], by: Sequence[Subscription]) -> bool:
        """Return whether anything that is overdue concerns one of some subscriptions.

        `overdue` says that of a time and a lateness; `by` is the same if its members are.
        """
        lanes = self.core.plan.lanes.values()
        due = [lane for lane in lanes if overdue(lane.next_epoch(), lane.lateness)]
        if due and self._awaited[0] is not by:
            operators = (operator for one in by for operator in self.operators(one))
            self._awaited = by, Awaited(operators)
        return any(overdue(self._awaited[1].first(lane), lane.lateness) for lane in due)

    def waiting(self) -> set[int]:
        """Return the documents of all composites that operators over time still hold."""
        return {doc for composite in self._held() for doc in composite.docs}

    def instances(
        self, operators: Iterable[Operator] | None = None
    ) -> Iterator[tuple[int | None, int]]:
        """Yield of each instance of operators over time for how long it is kept, and its time.

        That is of some operators or of all; None: until a row ends it.
        """
        mops = self.core.plan.mops if operators is None else {one.mop for one in operators}
        for mop in mops:
            if isinstance(mop, StateMOp):
                for row, _ in mop.kept():
                    yield mop.keeps, row[1]

    def _held(self) -> Iterator[Composite]:
        plan = self.core.plan
        rows = [row for lane in plan.lanes.values() for _, row, _ in lane.waiting()]
        for mop in plan.mops:
            if isinstance(mop, StateMOp):
                rows.extend(row for row, _ in mop.kept())
        for row in rows:
            yield from (value for value in row if isinstance(value, Composite))

    # -- Keeping ---------------------------------------------------------------------------

    @property
    def ordered(self) -> bool:
        """Whether there is any operator over time."""
        return bool(self._ordered or self.relational.qids)

    def take_changes(self) -> tuple[list[cep_core.Entry], list[int]]:
        """Return the new entries of what operators over time keep, and the numbers of the gone."""
        return self._log.pop()

    def restore(self, entries: Iterable[cep_core.Entry]) -> None:
        """Take back what the operators of the same subscriptions kept."""
        self._log.restore(entries)

    def _hold_streams(self) -> None:
        """Let what is kept speak of the streams of events that relational queries read."""
        self._log.hold(_STREAMS, self.relational.adopted())

    def take_late(self) -> list[tuple[int, int, int]]:
        """Return the documents that came too late since the last time: watermark, lateness.

        A row is as late as the newest of its documents; the lateness is that of
        the operators over time that missed it.
        """
        lanes = {mop.label: mop.lane for mop in self.core.plan.mops if mop.lane is not None}
        found: dict[tuple[int, int, int], None] = {}
        for row, watermark, missed in self.core.late:
            parts = [value for value in row if isinstance(value, Composite)]
            doc = max(parts[0].docs) if parts and parts[0].docs else row[2]
            for label in missed:
                lane = lanes.get(label.partition(", ")[0])
                if lane is not None:
                    found[doc, watermark, lane.lateness] = None
        self.core.late.clear()
        return list(found)


def _is_leaf(pair: Pair) -> bool:
    """Whether a pair of variables is one of a composite stream."""
    return pair.first.startswith("#")
