"""A twin: one query of an engine in a private engine, under the same numbers.

It replays the kept documents up to the engine's clock, as if the subscription had been there when
they arrived.  Its tables of registrations are copies of the engine's rows of that subscription, so
rows of R_T, pairs of variables, streams of composites and documents have the same numbers in both,
and so do the results.  Only its composites are numbered apart, from `Twin.composites` on.

A trial is a query that the engine does not have, evaluated over kept documents by a twin.  The
engine does not change, and its lock is free meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from types import MappingProxyType
from typing import NamedTuple
from weakref import finalize

import numpy as np
import pyarrow.compute as pc

from cep_core import is_calendar
from cep_core.plan import Operator
from xscl.documents.results import Subscription
from xscl.engine.batch_size import FEWEST, BatchSize
from xscl.engine.ingest import Ingest
from xscl.engine.match_log import MatchLog
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.errors import Stopping, TooLong
from xscl.inspection.replay import BATCH, TrialScope, first, past
from xscl.shredding.arrivals import Arrivals
from xscl.store.queries.documents import clock_from, kept_rows
from xscl.store.queries.lateness import count_late
from xscl.store.queries.registration_copies import copy_registration
from xscl.store.queries.rows import RowNumbers
from xscl.store.store import Store
from xscl.subscriptions.matches import Matches
from xscl.subscriptions.subscriptions import Beginning, Subscriptions

SLICE = 0.5
"""Seconds that a trial works on a batch: it can be ended between two of them."""
MOST = 1 << 31
"""The numbers of documents are below it: stage 2 packs two of them into 64 bits."""


class Twin:
    """A private engine in memory with one subscription, which replays kept documents.

    `composites` is the first number of its composites, above those of the engine's documents.
    """

    def __init__(self, live: Transactions) -> None:
        """Make a twin of the engine `live`; `copy` or `register` gives it its subscription."""
        self._live = live
        self._twin = Transactions(None, live.settings.of_twin)
        self.log = MatchLog(self._twin)
        self.ingest = Ingest(self._twin, self.log)
        self._subscription: Subscription
        self.reads: tuple[str, ...] = ()
        """The streams whose documents it replays."""
        self.composites = MOST

    def copy(self, state: EngineState, subscription: Subscription) -> None:
        """Give the twin a subscription of the engine, within a transaction of the engine.

        `state` is the engine's.
        """
        self._subscription = subscription
        self.composites = (state.documents.next + MOST) // 2
        with self._twin.store.transaction():
            self.reads = _copy(state, subscription, self._twin.store)
            self._twin.store.set_progress(next_doc=self.composites)
            if any(map(is_calendar, self.reads)):
                clock = clock_from(state.store, subscription.since)  # where instants begin
                clock = state.store.progress("clock") if clock is None else clock
                self._twin.store.set_progress(clock=clock)
        self._twin.state = EngineState(self._twin.store, self._twin.settings, self._live.compiled)

    @property
    def state(self) -> EngineState:
        """The state of the private engine."""
        return self._twin.state

    def register(self, trial: TrialScope, lateness: Mapping[str, int]) -> None:
        """Give the twin the query of a trial; `lateness` has that of each stream, in ticks."""
        with self._live.lock:
            self.composites = (self._live.state.documents.next + MOST) // 2
        with self._twin.change() as state:
            for name, late in lateness.items():
                state.streams.declare(state.streams.checked(name, late, False, None))
        now = Beginning(self._twin.state.documents.next, trial.updates)
        ready = self._twin.state.registration.prepared_one(trial.name, trial.query, now)
        with self._twin.change() as state:
            state.registration.register([(trial.name, ready)], now)
            state.store.set_progress(next_doc=self.composites)
            state.documents.next = self.composites

    def replay(
        self,
        store: Store,
        docs: RowNumbers,
        *,
        own_time: bool = False,
        in_order: bool = True,
        texts: Mapping[int, bytes] = MappingProxyType({}),
    ) -> list[int]:
        """Push kept documents of a store, given by their numbers in the order of arrival.

        `texts` are those of documents (by number) that are not kept.  With `own_time` the clock at
        a document of a feed's history is at most its time.  Unless they are `in_order` of time, the
        clock stays, and a flush passes them to operators over time in that order.  Returns the
        numbers of the late documents, those with a time before the clock.
        """
        rows = kept_rows(store, docs, texts)
        if not len(rows):
            return []
        if own_time:
            own = pc.if_else(
                rows["history"], pc.min_element_wise(rows["clock"], rows["ts"]), rows["clock"]
            )
            rows = rows.set_column(rows.schema.get_field_index("clock"), "clock", own)
        arrivals = Arrivals.of(rows)
        self.ingest.replay(arrivals, rows.drop_columns(["xml"]), in_order=in_order)
        return arrivals.behind()

    def operators(self, state: EngineState, live: Subscription) -> dict[int, Operator]:
        """Return the engine's operators of the subscription `live`, by their numbers in the twin.

        They are the operators over time and their inputs; `state` is the engine's.
        """
        ours = self.state.subscriptions[self._subscription.name]
        found: dict[int, Operator] = {}
        if not live.ordered:
            return found
        _pair(
            self.state.dataflow.subscribed.operators(ours),
            state.dataflow.subscribed.operators(live),
            found,
        )
        return found

    def close(self) -> None:
        """Close the private engine, and free its memory."""
        with self._twin.lock:
            self.log.close()
            self._twin.close()


def _pair(ours: Iterable[Operator], theirs: Iterable[Operator], found: dict[int, Operator]) -> None:
    """Add each operator of `theirs` to `found`, under the number of the one beside it in `ours`.

    The inputs of each pair of operators are added in the same way.
    """
    for one, other in zip(ours, theirs, strict=True):
        if one.number:
            found[one.number] = other
        _pair(one.wanted.inputs, other.wanted.inputs, found)


def _copy(live: EngineState, subscription: Subscription, store: Store) -> tuple[str, ...]:
    """Copy the registration of a subscription of the engine `live` to an empty store.

    The event queries that publish what it reads are copied, too.  Return the names of the streams
    whose documents the copies read, sorted.
    """
    dataflow, registry = live.dataflow.subscribed, live.registry
    registry.save()
    events = subscription.reads if subscription.relational else ()
    publishers = event_publishers(live.subscriptions, events)
    queries = [*publishers, subscription]
    reads = {name for query in queries for name in query.reads}
    streams = tuple(sorted(reads - {publisher.publish for publisher in publishers}))
    store.insert_rows(
        "stream",
        (
            {"name": n, "lateness": live.streams.lateness(n), "live": False, "attributes": None}
            for n in streams
        ),
    )
    joins = dataflow.qids(subscription)
    copy_registration(
        live.store,
        store,
        subscriptions=[query.number for query in queries],
        composite_streams=[number for query in queries for number in dataflow.of(query).numbers],
        pairs=dataflow.pairs(subscription),
        templates={registry.row(qid).template for qid in joins},
        joins=joins,
    )
    return streams


def event_publishers(known: Subscriptions, streams: Iterable[str]) -> list[Subscription]:
    """Return the event queries from which the documents of streams come, in order of number.

    They are those that publish the streams, those that publish what these read, and so on.
    """
    found: dict[int, Subscription] = {}
    pending = list(streams)
    while pending:
        for publisher in known.publishers(pending.pop()):
            if publisher.relational and publisher.number not in found:
                found[publisher.number] = publisher
                pending += publisher.reads
    return [found[number] for number in sorted(found)]


# -- Trials ----------------------------------------------------------------------------------


class TrialResult(NamedTuple):
    """The outcome of a trial: its `matches`, with counts.

    `cut` has the ids of the documents at which the bound of results cut it.  `late` is the number
    of documents that came too late for the query, `lateness` the largest of its streams in ticks.
    `close` frees the twin, from which the matches are read.  It is called at the latest when the
    last match is freed: the collector of cycles would come late for the twin's threads of DuckDB.
    """

    matches: Matches
    cut: set[str]
    close: Callable[[], None]
    late: int
    lateness: int


def run_trial(
    transactions: Transactions,
    trial: TrialScope,
    until: float | None = None,
    dropped: threading.Event | None = None,
) -> TrialResult:
    """Evaluate a trial on the kept documents of an engine; any thread may call it.

    `until` is a time of `time.monotonic`; `dropped` is set when nobody waits for the answer.
    Raises TooLong after either, Stopping when the engine ends.
    """
    with ExitStack() as failing:
        twin = Twin(transactions)
        failing.callback(twin.close)
        with transactions.lock:
            store = transactions.connect()
            lateness = {
                stream: transactions.state.streams.lateness(stream) for stream in trial.streams
            }
            clock = transactions.state.documents.clock
            latest = max(lateness.values(), default=0)
            watermark = transactions.state.dataflow.watermark(clock, latest)
        twin.register(trial, lateness)
        behind: list[int] = []
        size = BatchSize(SLICE, BATCH, SLICE / FEWEST)
        with closing(store):
            if any(map(is_calendar, trial.streams)) and (begin := first(store, trial)):
                twin.ingest.occur(begin, min(trial.end, clock))
            docs = past(store, trial)
            while len(docs):
                began = time.monotonic()
                if transactions.ending.is_set():
                    raise Stopping
                if until is not None and began > until:
                    raise TooLong
                if dropped is not None and dropped.is_set():
                    raise TooLong
                some, docs = np.split(docs, [size.documents])
                behind += twin.replay(
                    store, some, own_time=trial.own_time, in_order=False, texts=trial.texts
                )
                size.learn(len(some), time.monotonic() - began)
        # Time ends at the engine's: an absence whose deadline is after that is no match yet.
        twin.ingest.flush(watermark, clock)
        state = twin.state
        qids = state.dataflow.subscribed.qids(state.subscriptions[trial.name])
        matches = twin.log.since()
        close = finalize(matches.source, twin.close)
        close.atexit = False
        late = count_late(state.store, state.readings.table(), behind)
        failing.pop_all()
        return TrialResult(matches, state.dataflow.cuts.ids_of(qids), close, late, latest)
