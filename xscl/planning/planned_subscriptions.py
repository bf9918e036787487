"""Subscriptions of the plan: operators, rows of R_T, readers of results, counts of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cep_core import Query, StateLog
from cep_core.plan import Operator, Plan, Wanted
from templates.model.relations import Pair
from templates.registry import Registry, RowOfRT
from templates.template import add
from xscl.documents.results import Subscription
from xscl.errors import QueryError
from xscl.planning.compile import QueryPlan
from xscl.planning.event_queries import Relational, composite_of_row
from xscl.planning.operators.joins import PublishQueue, ResultCollector, composite_in
from xscl.planning.operators.leaves import Leaves
from xscl.planning.planner import PlannedQuery, Planner, one_sided_numbers
from xscl.planning.truncations import Cuts, Truncation
from xscl.shredding.automaton.nfa import Automaton

_STREAMS = "streams"
"""The holder, in the state log, of the event streams that relational queries read."""


def _holder(subscription: Subscription) -> str:
    """Return the name under which the state log lists the operators of a subscription."""
    return f"query {subscription.key}"


def is_leaf(pair: Pair) -> bool:
    """Test if a pair of variables is one of a composite stream."""
    return pair.first.startswith("#")


class InstalledPairs:
    """Installs pairs of variables in the automaton, or in `Leaves` if they are of composites."""

    def __init__(self, leaves: Leaves) -> None:
        self.automaton = Automaton()
        self._leaves = leaves
        self.refused: dict[int, QueryError] = {}

    def install(self, pairs: Sequence[Pair]) -> None:
        """Install variable pairs; later documents and composites yield their R_bin rows."""
        of_documents = []
        for pair in pairs:
            if is_leaf(pair):
                self._leaves.add(pair)
            else:
                of_documents.append(pair)
        self.automaton.install(of_documents)

    def install_stored(self, pairs: Sequence[Pair]) -> None:
        """Install, after a restart, the pairs of the store.

        A pair that this release refuses has no bindings, so rows of R_T with it have no results.
        """
        try:
            self.install(pairs)
        except QueryError:
            for pair in pairs:
                try:
                    self.install([pair])
                except QueryError as error:
                    self.refused[pair.number] = error

    def remove(self, pairs: Sequence[int]) -> None:
        """Remove pairs that no row of R_T uses any more."""
        for pair in pairs:
            self.automaton.remove(pair)
            self._leaves.remove(pair)


@dataclass(eq=False, repr=False)
class StreamScans:
    """Holds one scan for each stream that rows of R_T over blocks read, and counts its users."""

    _plan: Plan
    _source: Callable[[str], Operator]
    operators: dict[str, Operator] = field(default_factory=dict, init=False)
    _rows: Counter[str] = field(default_factory=Counter, init=False)  # counts of users by stream

    def acquire(self, streams: Iterable[str]) -> None:
        """Insert the scans of those streams that have none, and count a user of each."""
        for stream in streams:
            if not self._rows[stream]:
                scan = Wanted("xpath_scan", (), (self._source(stream),))
                self.operators[stream] = self._plan.insert(scan)
            self._rows[stream] += 1

    def release(self, streams: Iterable[str]) -> None:
        """Count one user less of the scans of streams; release those without users."""
        for stream in streams:
            self._rows[stream] -= 1
            if not self._rows[stream]:
                del self._rows[stream]
                self._plan.release(self.operators.pop(stream))


@dataclass(eq=False, repr=False)
class PlannedSubscriptions:
    """Attaches subscriptions to the plan and detaches them.

    A subscription that is one join over blocks, and no more, is a row of R_T and has no operator
    of its own (docs/decisions/registration.md).
    """

    _registry: Registry
    _planner: Planner
    _relational: Relational
    _collector: ResultCollector
    _published: PublishQueue
    _scans: StreamScans
    _pairs: InstalledPairs
    _log: StateLog
    _truncations: Cuts
    _planned: dict[str, PlannedQuery] = field(default_factory=dict, init=False)
    _suspended: set[str] = field(default_factory=set, init=False)
    _refused: set[str] = field(default_factory=set, init=False)
    # `ordered` counts subscriptions with operators over time or calendars, and event queries.
    # `nested` counts those where an operator over time reads a join over another such operator.
    ordered: int = field(default=0, init=False)
    # `users` counts subscriptions by operator, `template_users` their joins by template number.
    # Shares of the cost are divided by these counts.
    users: Counter[Operator] = field(default_factory=Counter, init=False)
    template_users: Counter[int] = field(default_factory=Counter, init=False)
    nested: int = field(default=0, init=False)

    def plan(
        self, query: QueryPlan, since: int, updates: bool, bound_to: int | None = None
    ) -> PlannedQuery:
        """Insert the operators of a query into the plan; `attach` adds a subscription to them.

        The query sees documents with numbers from `since` on, and with `updates` later versions.
        Its operators over time are shared with queries of the same `bound_to`; None: with all.
        """
        return self._planner.plan(query, since, updates, bound_to)

    def refuse(self, subscription: Subscription) -> None:
        """Give no results to a stored subscription whose query this release refuses.

        Its row of R_T stays registered, and with it the state of the join.
        """
        if subscription.is_row:
            self.mute(subscription)
            self._refused.add(subscription.key)
        else:
            self._suspended.add(subscription.key)

    def refusal(self, subscription: Subscription) -> QueryError | None:
        """Return the error by which this release refuses a pair of a subscription; None without."""
        if not self._pairs.refused:
            return None
        found = map(self._pairs.refused.get, self.pairs(subscription))
        return next(filter(None, found), None)

    def end_suspension(self, subscription: Subscription) -> PlannedQuery | None:
        """End a suspension; return the rows of R_T and stream numbers that are held, or None.

        The caller passes them to `release` after `attach`.
        """
        self._suspended.discard(subscription.key)
        return self._planned.pop(subscription.key, None)

    def release(self, planned: PlannedQuery) -> None:
        """Release the rows of R_T and stream numbers of a query in the plan.

        `planned` is what `end_suspension` returned; `attach` was called in between.
        """
        self._pairs.remove(self._planner.release(planned))

    def attach(
        self,
        subscription: Subscription,
        planned: PlannedQuery | Query | None,
        *,
        suspended: bool = False,
    ) -> None:
        """Make a subscription read the results of its planned query.

        `planned` is None for a row of R_T over blocks.  No operator reads such a row, so the plan
        needs only a scan of its streams, one for all such rows.  A suspended subscription has its
        rows of R_T and numbers of streams, but no operators: neither state nor results.
        """
        if suspended:
            self._suspend(subscription, planned)
            return
        if planned is None:
            self._scans.acquire(subscription.reads)
        elif isinstance(planned, PlannedQuery):
            planned.one_sided = one_sided_numbers(planned.held)
            self._planned[subscription.key] = planned
            if planned.ordered:
                self.ordered += 1
                self.nested += planned.nested
                self._log.hold(_holder(subscription), planned.held)
        else:
            self.ordered += 1
            self._relational.qids[subscription.key] = subscription.qid
            self._log.hold(_holder(subscription), planned.held)
            self._log.hold(_STREAMS, self._relational.adopted())
        self._count(subscription, 1)
        self._collect(subscription)

    def _suspend(self, subscription: Subscription, planned: PlannedQuery | Query | None) -> None:
        self._suspended.add(subscription.key)
        if isinstance(planned, PlannedQuery):
            self._planner.release_operators(planned)
            self._planned[subscription.key] = planned
        elif planned is not None:
            self._relational.remove(subscription.key)

    def unmute(self, subscription: Subscription) -> None:
        """Collect and publish the results of a subscription, unless it is paused."""
        if subscription.key not in self._suspended | self._refused:
            self._collect(subscription)

    def _collect(self, subscription: Subscription) -> None:
        key = subscription.key
        if subscription.is_paused:
            if subscription.relational:
                self._relational.muted.add(key)
        elif subscription.relational:
            self._relational.muted.discard(key)
            if subscription.publish is not None:
                self._published.add(self._relational.root(key), subscription, composite_of_row)
        elif (planned := self._planned.get(key)) is None:
            self._collector.readers[subscription.qid] += 1
        else:
            assert planned.root is not None
            self._collector.add_reader(subscription.qid, planned.root.operator)
            self._published.add(planned.root.operator, subscription, composite_in)

    def mute(self, subscription: Subscription) -> None:
        """Neither collect nor publish the results of a subscription; its state continues."""
        has_results = subscription.key not in self._suspended | self._refused
        if subscription.is_paused or not has_results:
            return
        self._published.remove(subscription.key)
        if subscription.relational:
            self._relational.muted.add(subscription.key)
        else:
            self._collector.remove_reader(subscription.qid)

    def detach(self, subscription: Subscription) -> tuple[int, ...]:
        """Remove a subscription; return the pairs of variables that nothing uses any more."""
        self.mute(subscription)
        self._count(subscription, -1)
        is_suspended = subscription.key in self._suspended
        self._suspended.discard(subscription.key)
        self._refused.discard(subscription.key)
        if subscription.relational:
            if not is_suspended:
                self._relational.remove(subscription.key)
                self.ordered -= 1
                self._log.release(_holder(subscription))
                self._log.hold(_STREAMS, self._relational.adopted())
            return ()
        planned = self._planned.pop(subscription.key, None)
        if planned is None and not subscription.is_row:  # its query was refused at the start
            pairs: tuple[int, ...] = ()
        elif planned is None:
            if not is_suspended:
                self._scans.release(subscription.reads)
            pairs = self._registry.remove(subscription.qid)
        else:
            if not is_suspended:
                self.ordered -= planned.ordered
                self.nested -= planned.ordered and planned.nested
                self._log.release(_holder(subscription))
            pairs = self._planner.release(planned)
        self._truncations.keep(self._registry.__contains__)
        self._pairs.remove(pairs)
        return pairs

    def _count(self, subscription: Subscription, by: int) -> None:
        """Add `by` (1 or -1) to the counts of users of a subscription's operators and templates."""
        found = self.of(subscription)  # one call only, as a start counts all subscriptions
        for operator in dict.fromkeys(found.held):
            add(self.users, operator, by)
        if subscription.key not in self._suspended:
            for one in found.placed:
                add(self.template_users, one.template, by)

    def set_prompt(self, prompt: bool) -> None:
        """Set whether joins run within each epoch, too, or only after a push.

        They run within it with `prompt`, and always while the count `nested` is above 0.
        """
        self._planner.core.batch.prompt = prompt or self.nested > 0

    def of(self, subscription: Subscription) -> PlannedQuery:
        """Return a subscription's operators and rows in the plan.

        They are stored for subscriptions with operators of their own, and made anew for others.
        """
        planned = self._planned.get(subscription.key)
        if planned is not None:
            return planned
        works = subscription.key not in self._suspended
        if subscription.relational:
            held = list(self._relational.operators(subscription.key)) if works else []
            return PlannedQuery(held=held, numbers=[subscription.qid])
        if not subscription.is_row:  # its query was refused at the start
            return PlannedQuery()
        scans = self._scans.operators
        # `why` asks for a removed subscription, too, whose streams may have no scan any more.
        held = [scans[stream] for stream in subscription.reads if works and stream in scans]
        return PlannedQuery(
            held=held, placed=[RowOfRT(subscription.template, subscription.qid, ())]
        )

    def pairs(self, subscription: Subscription) -> list[int]:
        """Return the pairs of variables that a subscription uses, by number."""
        return [pair for qid in self.qids(subscription) for pair in self._registry.row(qid).pairs]

    def qids(self, subscription: Subscription) -> list[int]:
        """Return the qids of the rows of R_T that a subscription uses."""
        return [one.qid for one in self.of(subscription).placed]

    def templates(self, subscription: Subscription) -> list[int]:
        """Return the template number of each join of a subscription; none while it is suspended."""
        if subscription.key in self._suspended:
            return []
        return [one.template for one in self.of(subscription).placed]

    def operators(self, subscription: Subscription) -> Iterable[Operator]:
        """Return the operators of a subscription, inputs before the operators that read them."""
        return dict.fromkeys(self.of(subscription).held)

    def one_sided(self, subscription: Subscription) -> int:
        """Return the number of comparisons that failed because only one side was a number.

        They are counted from the registration or the last start on.
        """
        planned = self._planned.get(subscription.key)
        return 0 if planned is None else one_sided_numbers(planned.held) - planned.one_sided

    def stopped(self, subscription: Subscription) -> Truncation | None:
        """Return the count of documents at which a subscription's results were cut; None for 0."""
        return self._truncations.of(
            self.qids(subscription), subscription.since, ordered=subscription.ordered
        )
