"""Documents in, matches out: one transaction for each push, or for each part of a large one.

The five steps of a transaction are in `Ingest._transact`.  The output does not depend on how the
input is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from feeds.documents import Document
from feeds.faultpoints import reached
from templates.model.join_graph import INFINITE
from templates.processor import FOUND
from xscl.documents.consumed_offsets import BatchKey, Beat
from xscl.documents.document_validation import Rejection, expect_valid
from xscl.engine.executors import ExecutorResults, NumberedDocuments, Numbering, recall
from xscl.engine.heap_trim import LARGE, MANY, trim_heap
from xscl.engine.match_log import MatchLog
from xscl.engine.state import EngineState
from xscl.engine.throughput import PushThroughput, StageTimer
from xscl.engine.transactions import Transactions
from xscl.shredding.arrivals import Arrivals
from xscl.store.queries.lateness import count_late
from xscl.subscriptions.matches import Matches, MatchSequence

AIM = 100_000
"""Results of joins that a transaction should find at most."""
FIRST, MOST = 2_048, 65_536
GROWTH = 4


@dataclass(slots=True)
class PushSize:
    """Decides how many documents the next transaction takes (`size`); guarded by the engine's lock.

    A push is split at document boundaries, so that the results of one transaction fit in memory: an
    arriving document may have thousands with every join.  The size is predicted from the results of
    earlier documents.  It grows slowly, and shrinks at once.
    """

    size: int = FIRST

    def learn(self, documents: int, results: int) -> None:
        """Update `size` from the numbers of documents and join results of a transaction."""
        if not documents:
            return
        fitting = max(1, AIM * documents // max(1, results))
        # At most `GROWTH` times as many documents as these: few documents predict little.
        grown = max(self.size, min(GROWTH * documents, MOST))
        self.size = min(fitting, grown)


EVICTED_AFTER = 64
"""Pushes between two checks for documents that operators over time have released."""


@dataclass(frozen=True, slots=True, eq=False)
class PushResult(MatchSequence):
    """The outcome of a push, committed; as a sequence it has the matches in the order of the log.

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

        It is computed on access, for the subscriptions that are registered then (relation `late`).
        """
        return self._count_late()

    @property
    def _matches(self) -> Matches:  # type: ignore[override]  # a field elsewhere
        return self.matches


@dataclass(slots=True)
class _Push:
    """The documents of a push, and the outcome of its transactions so far.

    `key` identifies the push for its consumer.  `evaluated` is the outcome of the documents on
    executors, None if these had no part in it.  Documents at the indexes in `poison` are not read.
    `accepted` and `rejected` count documents.
    """

    documents: Sequence[Document]
    key: BatchKey | None
    evaluated: ExecutorResults | None
    poison: Collection[int]
    results: list[pa.Table] = field(default_factory=list)
    accepted: int = 0
    rejected: int = 0
    behind: list[int] = field(default_factory=list)  # numbers of documents older than the clock

    def beats(self, start: int, end: int) -> list[Beat]:
        """Return the beats of the key at the documents with indexes from `start` to before `end`.

        The index in a beat is made relative to `start`.  A beat comes before the document of its
        index, or after the last one of the push."""
        if self.key is None:
            return []
        last = len(self.documents)
        return [
            Beat(min(at, end) - start, time)
            for at, time in self.key.beats
            if start <= at < end or (at == last <= end)
        ]


class Ingest:
    """Pushes documents, and advances the clock."""

    def __init__(self, transactions: Transactions, log: MatchLog) -> None:
        self.pace = PushThroughput(lambda after, up_to: log.count(after, up_to))
        self._transactions = transactions
        self._log = log
        self._push_size = PushSize()
        self._numbering = Numbering()

    # -- Pushing ---------------------------------------------------------------------------

    def push(
        self,
        documents: Sequence[Document],
        *,
        strict: bool = False,
        source: BatchKey | tuple[str, int] | None = None,
        evaluated: ExecutorResults | None = None,
        poison: Collection[int] = (),
        listen: Callable[[Matches], None] | None = None,
    ) -> PushResult:
        """Push documents as `Engine.push` does; for consumers of the spool.

        `evaluated` is the outcome of the documents on executors, None if these had no part in it.
        Documents at the indexes in `poison` are not read, but recorded as rejected.  A `source` may
        carry beats, which set the clock between documents.
        """
        push = _Push(documents, BatchKey(*source) if source else None, evaluated, poison)
        if strict:
            expect_valid(documents)
        with self._transactions.lock:
            if push.key is not None and self._transactions.state.ledger.has(push.key):
                return self._result(push)
        start = 0
        while True:
            end = min(start + self._push_size.size, len(documents))
            results = self._transact(push, start, end)
            if listen is None:
                push.results.append(results)
            else:
                with self._transactions.lock:
                    matches = self._log.expand(results)
                listen(matches)
            if end == len(documents):
                return self._result(push)
            start = end

    def _result(self, push: _Push) -> PushResult:
        def late() -> int:
            with self._transactions.lock:
                state = self._transactions.state
                return count_late(state.store, state.readings.table(), push.behind)

        first, *others = push.results or [_NO_RESULTS]
        with self._transactions.lock:
            return PushResult(
                self._log.expand(pa.concat_tables((first, *others)) if others else first),
                push.accepted,
                len(push.documents) - push.accepted - push.rejected,
                push.rejected,
                late,
            )

    def _transact(self, push: _Push, start: int, end: int) -> pa.Table:
        """Push the documents with indexes from `start` to before `end` in one transaction.

        Return its results, with positions.  The transaction with the last document also records the
        key of the push; it does nothing if that key is recorded already.
        """
        laps, key, evaluated = StageTimer(self.pace), push.key, push.evaluated
        documents = push.documents[start:end]
        with self._transactions.change() as state, self._transactions.paused():
            laps.end("wait")
            dataflow = state.dataflow
            state.flow.look(dataflow.passed)
            if key is not None and end == len(push.documents) and not state.ledger.enter(key):
                return _NO_RESULTS
            before = dataflow.joins.results
            if evaluated is None and len(state.registry.elsewhere.rows):
                recall(state, state.registry.elsewhere.rows.tolist())
            elsewhere = None
            if evaluated is not None and evaluated.elsewhere is not None and not push.poison:
                elsewhere = evaluated.elsewhere.of_documents(np.arange(start, end))
            accepted = state.documents.accept(
                documents,
                elsewhere=elsewhere,
                beats=push.beats(start, end),
                poison=[at - start for at in push.poison if start <= at < end],
                arrived=None if key is None else key.arrived,
            )
            reached("accepted")
            state.arrived.append(accepted.arrivals)
            laps.end("accept")
            newcomers = None
            if evaluated is not None:
                newcomers = NumberedDocuments.of(evaluated.numbers[start:end], accepted)
                found, cuts = self._numbering.results(
                    state, evaluated, newcomers, accepted.arrivals
                )
                dataflow.joins.take_found(found, cuts)
            dataflow.shred(accepted.arrivals)
            dataflow.join()
            dataflow.advance_time(accepted.arrivals)
            reached("joined")
            laps.end("join")
            results = self._commit(state)
            position, joined = state.position, dataflow.joins.results - before
            self._push_size.learn(len(documents), joined)
            if newcomers is not None:
                self._numbering.add(newcomers, state.oldest_elsewhere())
            laps.end("store")
        laps.end("commit")
        if joined > MANY or sum(map(len, accepted.arrivals.xml)) > LARGE:
            trim_heap()
        push.accepted += len(accepted.arrivals)
        push.rejected += accepted.rejected
        push.behind += accepted.arrivals.behind()
        self.pace.count(len(accepted.arrivals), position, results.num_rows)
        return results

    def _commit(self, state: EngineState) -> pa.Table:
        """Write all changes of a transaction, evict expired state, and return the results.

        The caller's transaction then commits them.
        """
        before, dataflow, documents = state.position, state.dataflow, state.documents
        results, late = append_results(state, dataflow.results()), dataflow.take_late()
        touched = dataflow.touched()
        if state.composites.new:
            touched |= state.composites.save()
        if state.subscriptions.has_stories:
            state.stories.extend(results)
        state.eviction.keep(state.arrived, touched)
        state.arrived.clear()
        if late:
            docs, watermarks, lateness = zip(*late, strict=True)
            columns = {"doc": docs, "watermark": watermarks, "lateness": lateness}
            state.store.insert("late", columns)
        if dataflow.cuts.pending:
            dataflow.cuts.save()
        if dataflow.automaton.unevaluated.noted or dataflow.automaton.one_sided.noted:
            dataflow.count_unevaluated()
        state.pushes += 1
        waits = dataflow.subscribed.ordered > 0 and not state.pushes % EVICTED_AFTER
        freed = state.processor.state.evict(documents.clock) or waits
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
        """Emit the instants of calendars between two times, in ticks, for a later `replay`."""
        with self._transactions.change() as state:
            state.dataflow.occur(begin, end)
            self._commit(state)

    def replay(self, arrivals: Arrivals, rows: pa.Table, *, in_order: bool = True) -> None:
        """Push documents that another engine has accepted, under the numbers that they have there.

        `rows` has their rows of the table `document`, in the order of `arrivals`.  Unless they are
        `in_order` of time, the clock stays, and operators over time get them in a later flush.
        """
        with self._transactions.change() as state, self._transactions.paused():
            state.documents.replay(arrivals, rows, in_order=in_order)
            state.arrived.append(arrivals)
            state.dataflow.shred(arrivals)
            state.dataflow.join()
            if in_order:
                state.dataflow.advance_time(arrivals)
            self._commit(state)

    def refuse(self, refused: Sequence[Rejection]) -> None:
        """Record documents that other processes could not read in `rejected`, with the reasons."""
        if refused:
            with self._transactions.change() as state:
                state.documents.refuse(refused)

    # -- Time ------------------------------------------------------------------------------

    def flush(self, until: int = INFINITE, rows_until: int = INFINITE) -> Matches:
        """Close all epochs and fire all timers up to the time `until`; return the new matches.

        Epochs after it are closed up to the time `rows_until`, but none from the next timer on.
        Both are in ticks.
        """
        with self._transactions.change() as state:
            state.dataflow.drain(until, rows_until)
            return self._log.expand(self._commit(state))

    def advance(self, to: int, arrival: int | None = None) -> Matches:
        """Set the clock, in ticks, and return the matches that this completes.

        Instants of calendars that the clock passes count as arrived with the document number
        `arrival`, None: with the next one.
        """
        with self._transactions.change() as state:
            state.documents.advance(to)
            state.dataflow.advance(to, arrival)
            state.dataflow.join()
            return self._log.expand(self._commit(state))

    def is_awaited(self, time: int) -> bool:
        """Return True if a query over live streams waits for a clock below `time`, in ticks.

        It waits until the end of an epoch, or a deadline, is past by its lateness and a hundredth
        of that, so that one beat serves many queries.
        """

        def overdue(first: int, late: int) -> bool:
            return first + late + late // 100 < time

        with self._transactions.lock:
            state = self._transactions.state
            readers = state.streams.live_readers()
            return state.dataflow.is_awaited(overdue, readers)

    # -- Consumers -------------------------------------------------------------------------

    def consumed(self, query_id: str) -> int | None:
        """Return the id of the last batch consumed under a query id; None if there is none."""
        with self._transactions.lock:
            self._transactions.expect_current()
            return self._transactions.state.ledger.last(query_id)

    @property
    def segment(self) -> int:
        """The number of the last segment of the spool that was consumed."""
        return self._transactions.state.ledger.segment


def append_results(state: EngineState, found: pa.Table) -> pa.Table:
    """Store results (`FOUND`) at the end of the log; return them with the column `position`."""
    if not found.num_rows:
        return _NO_RESULTS
    first, state.position = state.position + 1, state.position + found.num_rows
    positions = np.arange(first, first + found.num_rows, dtype=np.int64)
    results = found.add_column(0, "position", pa.array(positions))
    state.store.append("result", results)
    return results


_NO_RESULTS = FOUND.insert(0, pa.field("position", pa.int64())).empty_table()
