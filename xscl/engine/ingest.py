"""Documents in, matches out: one transaction for each push, or for each part of a large one.

The five steps of a transaction are in `Ingest._transact`.  The output does not depend on how the
input is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from feeds.documents import Document, DocumentColumns
from feeds.faultpoints import reached
from templates.columns.columns import Column
from templates.model.relations import INFINITE
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.documents.document_validation import Refusal, expect_valid
from xscl.engine.executors import Evaluated, Numbered, Numbering, recall
from xscl.engine.heap_trim import LARGE, MANY, trim_heap
from xscl.engine.match_log import MatchLog
from xscl.engine.state import EngineState
from xscl.engine.throughput import Laps, Pace
from xscl.engine.transactions import Transactions
from xscl.errors import DocumentError
from xscl.shredding.arrivals import Arrivals, RemoteWitnesses
from xscl.store.queries.lateness import count_late
from xscl.store.queries.rejected import insert_late
from xscl.store.queries.results import insert_results
from xscl.subscriptions.matches import Matches, MatchSequence

AIM = 100_000
"""Results of joins that a transaction should find at most."""
FIRST, MOST = 2_048, 65_536
GROWTH = 4


@dataclass(slots=True)
class PushSize:
    """The number of documents of the next transaction; guarded by the engine's lock.

    A push is split at document boundaries, so that the results of one transaction fit in memory: an
    arriving document may have thousands with every join.  The number is predicted from
    earlier documents.  The size grows slowly, and shrinks at once.
    """

    size: int = FIRST

    def learn(self, documents: int, results: int) -> None:
        """Learn the number of results of a transaction's documents."""
        if not documents:
            return
        fitting = max(1, AIM * documents // max(1, results))
        grown = max(self.size, min(GROWTH * documents, MOST))  # few documents say little of many
        self.size = min(fitting, grown)


EVICTED_AFTER = 64
"""Pushes from one look for what operators over time need no more to the next."""


@dataclass(frozen=True, slots=True, eq=False)
class PushResult(MatchSequence):
    """The outcome of a push, committed; as a sequence, its matches in order.

    `matches` are expanded as they are read.  Every document is counted once: as `accepted` (new,
    or a new version), `unchanged` (its id and content are known) or `rejected` (recorded in the
    relation `rejected` with the reason).
    """

    matches: Matches
    accepted: int
    unchanged: int
    rejected: int
    _count_late: Callable[[], int] = field(repr=False)

    @property
    def late(self) -> int:
        """The number of accepted documents that arrived too late for some subscription.

        It is computed on access, for the subscriptions of that moment (relation `late`).
        """
        return self._count_late()

    @property
    def _matches(self) -> Matches:  # type: ignore[override]  # a field elsewhere
        return self.matches


@dataclass(frozen=True, slots=True)
class PushSlice:
    """Documents, what executors found in them, and the beats between them.

    `numbers` are those of the documents on executors; None: they were not there.  `arrived` is the
    time at which the documents came in, None for the engine's clock.
    """

    documents: Sequence[Document]
    elsewhere: RemoteWitnesses | None
    beats: Sequence[Beat]
    arrived: int | None = None
    numbers: Column | None = None

    def cut(self, start: int, end: int) -> PushSlice:
        """Return some of the documents; a beat belongs to the document that it comes before."""
        if start == 0 and end >= len(self.documents):
            return self
        last = len(self.documents)
        beats = tuple(
            Beat(min(at, end) - start, time)
            for at, time in self.beats
            if start <= at < end or (at == last <= end)
        )
        elsewhere = self.elsewhere and self.elsewhere.chosen(slice(start, end))
        numbers = None if self.numbers is None else self.numbers[start:end]
        return PushSlice(self.documents[start:end], elsewhere, beats, self.arrived, numbers)

    def without(self, places: Collection[int]) -> PushSlice:
        """Return the documents at all other places, to be shredded here."""
        if not places:
            return self
        documents = tuple(one for at, one in enumerate(self.documents) if at not in places)
        beats = (Beat(at - sum(p < at for p in places), time) for at, time in self.beats)
        numbers = None if self.numbers is None else np.delete(self.numbers, sorted(places))
        return PushSlice(documents, None, tuple(beats), self.arrived, numbers)


@dataclass(slots=True)
class _Outcome:
    """The accumulated results and counts of a push's transactions."""

    results: list[pa.Table]
    accepted: int = 0
    rejected: int = 0
    behind: list[int] = field(default_factory=list)  # documents before the clock


class Ingest:
    """Pushes documents, and advances the clock."""

    def __init__(self, transactions: Transactions, log: MatchLog) -> None:
        self.pace = Pace(lambda after, up_to: log.count(after, up_to))
        self._transactions = transactions
        self._log = log
        self._push_size = PushSize()
        self._numbering = Numbering()

    # -- Pushing ---------------------------------------------------------------------------

    def push(
        self,
        documents: Iterable[Document] | Document,
        *,
        strict: bool = False,
        source: BatchKey | tuple[str, int] | None = None,
        evaluated: Evaluated | None = None,
        poison: Collection[int] = (),
        listen: Callable[[Matches], None] | None = None,
    ) -> PushResult:
        """Push documents as `Engine.push` does; for consumers of the spool.

        `evaluated` is what executors found in the documents.  Those at the places in `poison` are
        not read, but recorded as rejected.  A `source` may carry beats, which set the clock between
        documents.
        """
        if isinstance(documents, Document):
            documents = (documents,)
        elif not isinstance(documents, DocumentColumns):
            documents = tuple(documents)
        batch = None if source is None else BatchKey(*source)
        beats, arrived = ((), None) if batch is None else (tuple(batch.beats), batch.arrived)
        elsewhere = None if evaluated is None else evaluated.elsewhere
        numbers = None if evaluated is None else evaluated.numbers
        whole = PushSlice(documents, elsewhere, beats, arrived, numbers).without(poison)
        if strict:
            expect_valid(whole.documents)
        outcome = _Outcome([])
        with self._transactions.lock:
            if batch is not None and self._transactions.state.ledger.has(batch):
                return self._result(outcome, len(documents))
            if poison:
                self.reject_poison([documents[at] for at in sorted(poison)])
        start, end = 0, len(whole.documents)
        while True:
            some = whole.cut(start, start + self._push_size.size)
            last = start + len(some.documents) == end
            results = self._transact(some, batch if last else None, outcome, evaluated)
            if listen is None:
                outcome.results.append(results)
            else:
                with self._transactions.lock:
                    matches = self._log.expand(results)
                listen(matches)
            if last:
                outcome.rejected += len(poison)
                return self._result(outcome, len(documents))
            start += len(some.documents)

    def _result(self, outcome: _Outcome, given: int) -> PushResult:
        def late() -> int:
            with self._transactions.lock:
                state = self._transactions.state
                return count_late(state.store, state.readings.table(), outcome.behind)

        first, *others = outcome.results or [_NO_RESULTS]
        with self._transactions.lock:
            return PushResult(
                self._log.expand(pa.concat_tables((first, *others)) if others else first),
                outcome.accepted,
                given - outcome.accepted - outcome.rejected,
                outcome.rejected,
                late,
            )

    def _transact(
        self,
        portion: PushSlice,
        batch: BatchKey | None,
        outcome: _Outcome,
        evaluated: Evaluated | None,
    ) -> pa.Table:
        """Push documents in one transaction, with the batch that they end; return the results."""
        laps = Laps(self.pace)
        with self._transactions.change() as state, self._transactions.paused():
            laps.end("wait")
            dataflow = state.dataflow
            state.flow.look(dataflow.passed)
            if batch is not None and not state.ledger.enter(batch):
                return _NO_RESULTS
            dataflow.begin()
            if portion.numbers is None and len(state.registry.elsewhere.rows):
                recall(state, state.registry.elsewhere.rows.tolist())
            accepted = state.documents.accept(
                portion.documents,
                elsewhere=portion.elsewhere,
                beats=portion.beats,
                arrived=portion.arrived,
            )
            reached("accepted")
            state.arrived.append(accepted.arrivals)
            laps.end("accept")
            newcomers = None
            if evaluated is not None and portion.numbers is not None:
                newcomers = Numbered.of(portion.numbers, accepted)
                found, cuts = self._numbering.results(
                    state, evaluated, newcomers, accepted.arrivals
                )
                dataflow.take_found(found, cuts)
            dataflow.shred(accepted.arrivals)
            dataflow.join()
            dataflow.advance_time(accepted.arrivals)
            reached("joined")
            laps.end("join")
            results = self._commit(state)
            position, joined = state.position, dataflow.joined
            self._push_size.learn(len(portion.documents), joined)
            if newcomers is not None:
                self._numbering.add(newcomers, state.oldest_elsewhere())
            laps.end("store")
        laps.end("commit")
        if joined > MANY or sum(len(one.xml) for one in portion.documents) > LARGE:
            trim_heap()
        outcome.accepted += len(accepted.arrivals)
        outcome.rejected += accepted.rejected
        outcome.behind += accepted.arrivals.behind()
        self.pace.count(len(accepted.arrivals), position, results.num_rows)
        return results

    def _commit(self, state: EngineState) -> pa.Table:
        """Write the results of a transaction, evict expired state, and return the results."""
        before, dataflow, documents = state.position, state.dataflow, state.documents
        results, late = append_results(state, dataflow.results()), dataflow.take_late()
        touched = dataflow.touched()
        if state.composites.new:
            touched |= state.composites.save()
        state.eviction.keep(state.arrived, touched)
        state.arrived.clear()
        if late:
            insert_late(state.store, late)
        if dataflow.cuts.pending:
            dataflow.cuts.save()
        if dataflow.automaton.unevaluated.noted or dataflow.automaton.one_sided.noted:
            dataflow.count_unevaluated()
        state.pushes += 1
        waits = dataflow.subscribed.ordered > 0 and not state.pushes % EVICTED_AFTER
        freed = state.processor.evict(documents.clock) or waits
        state.eviction.forget(before, freed=freed)
        if dataflow.subscribed.ordered:
            state.registration.save_plan_state()
        documents.finish()
        state.store.set_progress(
            position=state.position,
            told=state.acknowledged,
            clock=documents.clock,
            next_doc=documents.next,
            segment=state.ledger.segment,
            **state.eviction.numbers(),
        )
        reached("stored")
        return results

    def occur(self, begin: int, end: int) -> None:
        """Emit the instants of calendars between two times, before documents are replayed."""
        with self._transactions.change() as state:
            state.dataflow.begin()
            state.dataflow.occur(begin, end)
            self._commit(state)

    def replay(self, arrivals: Arrivals, rows: pa.Table, *, in_order: bool = True) -> None:
        """Push documents of another engine's past, under the numbers that they have there.

        Unless they are `in_order` of time, the clock stays, and operators over time wait for a
        flush.
        """
        with self._transactions.change() as state, self._transactions.paused():
            state.dataflow.begin()
            state.documents.replay(arrivals, rows, in_order=in_order)
            state.arrived.append(arrivals)
            state.dataflow.shred(arrivals)
            state.dataflow.join()
            if in_order:
                state.dataflow.advance_time(arrivals)
            self._commit(state)

    def reject_poison(self, documents: Sequence[Document]) -> None:
        """Record documents as rejected that crashed a process that read them."""
        error = DocumentError("a process ended while it read the document", reason_code="poison")
        self.refuse([(document, error) for document in documents])

    def refuse(self, refused: Sequence[Refusal]) -> None:
        """Record documents as rejected that other processes have read, each with the reason."""
        if refused:
            with self._transactions.change() as state:
                state.documents.refuse(refused)

    # -- Time ------------------------------------------------------------------------------

    def flush(self, until: int = INFINITE, rows_until: int = INFINITE) -> Matches:
        """Close all epochs and fire all timers; return the matches of that.

        The times are those up to which it does: see `Lane.drain`.
        """
        with self._transactions.change() as state:
            state.dataflow.begin()
            state.dataflow.drain(until, rows_until)
            return self._log.expand(self._commit(state))

    def advance(self, to: int, arrival: int | None = None) -> Matches:
        """Set the clock, in ticks, and return the matches that this completes.

        Instants that it passes have the number `arrival`, or one of their own.
        """
        with self._transactions.change() as state:
            state.documents.advance(to)
            state.dataflow.begin()
            state.dataflow.advance(to, arrival)
            state.dataflow.join()
            return self._log.expand(self._commit(state))

    def is_awaited(self, time: int) -> bool:
        """Return True if a query over live streams waits for the clock to reach a time, in ticks.

        It waits for the end of an epoch, or for a deadline, plus a hundredth of its lateness, so
        that one beat serves many.
        """

        def overdue(first: int, late: int) -> bool:
            return first + late + late // 100 < time

        with self._transactions.lock:
            state = self._transactions.state
            readers = state.streams.live_readers()
            return state.dataflow.is_awaited(overdue, readers)

    # -- Consumers -------------------------------------------------------------------------

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch that was consumed under a query id."""
        with self._transactions.lock:
            self._transactions.expect_current()
            return self._transactions.state.ledger.last(query_id)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self._transactions.state.ledger.segment


def append_results(state: EngineState, found: pa.Table) -> pa.Table:
    """Store results at the end of the log, and return them with their positions."""
    if not found.num_rows:
        return _NO_RESULTS
    first, state.position = state.position + 1, state.position + found.num_rows
    positions = np.arange(first, first + found.num_rows, dtype=np.int64)
    results = found.add_column(0, "position", pa.array(positions))
    insert_results(state.store, results)
    return results


_RESULTS = pa.schema(
    [
        ("position", pa.int64()),
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)
_NO_RESULTS = _RESULTS.empty_table()
