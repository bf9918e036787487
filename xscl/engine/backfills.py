"""Backfills: the matches of what was kept at a registration (docs/decisions/histories.md).

    begin    the subscription is registered without operators, durably            (lock)
    slices   a twin replays the kept documents; their witnesses join the state    (short locks)
    cut-over the twin catches up, the subscription takes over its state           (lock)

Pushes go on between slices.  A crash before the cut-over leaves the registration, and the backfill
begins again.  Backfills run one at a time: the operators over time of one that was registered
earlier have their state before a later one shares them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress

from templates.model.relations import Pair
from xscl.documents.results import XSCL, Backfill, Subscription
from xscl.engine.batch_size import BatchSize
from xscl.engine.disk_guard import is_faulty, is_full
from xscl.engine.histories import adopt_results, adopt_state
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.engine.twin import Twin
from xscl.errors import Stopping, StoreError, TooLong
from xscl.inspection.replay import kept_documents, witnesses
from xscl.planning.planned_subscriptions import is_leaf
from xscl.store.queries.past import has_history
from xscl.store.queries.rows import RowNumbers
from xscl.store.store import Store

_log = logging.getLogger(__name__)

LARGEST_SLICE = 1_000
"""Documents of the largest slice.

The statements of a slice take 40 to 60 ms however few documents it has.
"""
EACH = 1 / 640
"""Seconds for a document before any was read: the first slice has 128."""
IDLE, BUSY = 0.2, 0.1
"""Seconds of a slice while nothing is pushed, and while something is."""
CATCH_UP = 2
"""Documents of a slice for each that arrived since the slice before: else a slice whose statements
are slow would be made smaller and smaller, and the twin would never catch up."""
REST = 40
"""The pause after a slice while something is pushed, in multiples of its time and of the pushes
that it met.

A push beside a slice may take twice its time: the interpreter runs one thread.  So fewer than one
push in 20 may meet one, also where slices are shorter than the time between two pushes
(docs/measurements.md#histories).
"""
QUIET = 0.5
"""Seconds without a push that end a pause."""
FEW = 100
"""Documents that are left to the cut-over at most, unless they arrive faster than a twin reads."""
ROUNDS = 20
"""Attempts to catch up with what arrives; the cut-over replays the rest."""
LONGEST = 300.0
"""Seconds of slices after which a service begins a subscription without its history."""
MOST_RESULTS = 1_000_000
"""Results after which a service does so."""
MOST_FAILURES = 5
"""Failures of the store after which a subscription begins without its history."""
RECHECK = 1.0
"""Seconds after which `serve` looks for backfills that nobody has asked for."""
ATTEMPTS = 3
"""Attempts between which texts were evicted; the last one holds the lock of the engine."""


class Backfills:
    """Completes the backfills of one engine; thread-safe."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._running = threading.RLock()
        self._changed = threading.Condition()
        self._failures = Counter[int]()  # of the thread in `serve`
        self._arrived = -1  # the documents that there were when the disk failed it last
        self._completions: dict[int, Future[None]] = {}  # guarded by `_changed`

    def end(self) -> None:
        """Stop all backfills and trials, also later ones: they raise Stopping."""
        self._transactions.ending.set()
        with self._changed:
            self._changed.notify_all()

    def await_running(self) -> None:
        """Wait until the backfill that runs is complete, if one does."""
        with self._running:
            return

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock of the engine while no backfill runs, for one that may not be cut."""
        with self._running, self._transactions.lock:
            yield

    def complete(
        self, number: int, until: float | None = None, *, is_bounded: bool = False
    ) -> None:
        """Complete the backfill of a subscription, and those that have to precede it.

        `until` is a time of `time.monotonic`.  Raises TooLong after it, and if one `is_bounded` for
        one that is too large; Stopping after `end`.
        """
        seconds = -1 if until is None else max(0.0, until - time.monotonic())
        if not self._running.acquire(timeout=seconds):
            raise TooLong
        try:
            while (following := self._following(number)) is not None:
                self._run(following, until, is_bounded)
        finally:
            self._running.release()
        self._resolve()

    # -- For a service ---------------------------------------------------------------------

    def completion(self, number: int) -> Future[None]:
        """Return the future of a backfill that the thread in `serve` completes; it never fails."""
        with self._changed:
            future = self._completions.setdefault(number, Future())
            self._changed.notify_all()
            return future

    def serve(self, completed: Callable[[], None], give_up: Callable[[int], None]) -> None:
        """Complete the backfills of acknowledged registrations, and all asked for, until `end`.

        Nobody asks for that of a registration that was committed and failed afterwards, or of the
        next version of an edited one.
        `completed` is called after each, `give_up` for one that fails.  Raises StoreError and
        OSError: call it again when the disk can be written.
        """
        while not self._transactions.ending.is_set():
            with self._changed:
                number = min((*self._completions, *self._acknowledged()), default=0)
                if not number:
                    self._changed.wait(RECHECK)
                    continue
            try:
                self.complete(number, is_bounded=True)
            except Stopping:
                return
            except (StoreError, OSError) as error:
                self._failures[number] += self._is_its_own(error)
                if self._failures[number] < MOST_FAILURES:
                    raise
                self._give_up(number, error, give_up)
            except Exception as error:
                self._give_up(number, error, give_up)
            completed()

    def _acknowledged(self) -> list[int]:
        """Return the backfills of registrations that a restart keeps."""
        known = self._transactions.state.subscriptions.backfills
        return [one.subscription for one in list(known.values()) if one.acknowledged]

    def _is_its_own(self, error: Exception) -> bool:
        """Return whether a failure is one of the history alone.

        While the disk takes no documents either, a history waits for it as they do.
        """
        if not (is_full(error) or is_faulty(error)):
            return True
        before, self._arrived = self._arrived, self._transactions.state.documents.next
        return self._arrived > before

    def _give_up(self, number: int, error: Exception, give_up: Callable[[int], None]) -> None:
        if isinstance(error, TooLong):
            _log.warning("the history of subscription %d is too long to be read", number)
        else:
            _log.error("the history of a subscription cannot be read", exc_info=error)
        give_up(number)
        self._resolve()

    def _resolve(self) -> None:
        """Resolve the futures of the backfills that are complete or were dropped.

        A removal that is not committed drops none.  While the database is lost, none is known to be
        dropped; `serve` comes back to it.
        """
        futures: list[Future[None]] = []
        with suppress(StoreError), self._transactions.committed() as state, self._changed:
            known = state.subscriptions.backfills
            done = [number for number in self._completions if number not in known]
            futures = [self._completions.pop(number) for number in done]
        for future in futures:
            future.set_result(None)

    # -- One after the other ---------------------------------------------------------------

    def _following(self, number: int) -> int | None:
        """Return the backfill to run before that of a number is complete; None if it is."""
        with self._transactions.committed() as state:
            known = state.subscriptions
            one = known.numbered(number)
            if one is None or not one.ordered:
                return None if one is None else number
            earlier = map(known.numbered, sorted(known.backfills))
            return next(each.number for each in earlier if each is not None and each.ordered)

    def _run(self, number: int, until: float | None, is_bounded: bool) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            with ExitStack() as held:
                run = _Run(self._transactions, number, until, is_bounded)
                held.callback(run.close)
                if attempt == ATTEMPTS:
                    held.enter_context(self._transactions.lock)
                if run.complete():
                    return


class _Run:
    """One attempt to complete a backfill."""

    def __init__(
        self,
        transactions: Transactions,
        number: int,
        until: float | None,
        is_bounded: bool,
    ) -> None:
        self._is_bounded = is_bounded
        self._worked = 0.0  # seconds of all slices
        self._transactions = transactions
        self._ending = transactions.ending
        self._number = number
        self._until = until
        self._twin = Twin(transactions)
        self._pairs: Sequence[Pair] = ()
        self._own: Twin | None = None
        self._watermark = 0
        self._size = BatchSize(IDLE, LARGEST_SLICE, EACH, fewest=1)
        self._next = transactions.state.documents.next
        self._pushes = transactions.state.pushes
        self._pushed = -math.inf  # when something was pushed last

    def close(self) -> None:
        """Free the twins."""
        self._twin.close()
        if self._own is not None:
            self._own.close()

    def complete(self) -> bool:
        """Complete the backfill, or end if the subscription was removed.

        Returns False if texts were evicted meanwhile that it may not have read.
        """
        with self._transactions.change() as state:
            one = state.subscriptions.numbered(self._number)
            if one is None:
                return True
            begun, texts = state.subscriptions.backfills[self._number], state.eviction.texts_from
            self._twin.copy(state, one)
            if one.language == XSCL and has_history(state.store, self._twin.reads, one.since):
                self._own = Twin(self._transactions)
                self._own.copy(state, one)
                lateness = max(map(state.streams.lateness, self._own.reads))
                self._watermark = state.dataflow.watermark(begun.clock, lateness)
            pairs = map(state.registry.pairs.describe, state.dataflow.subscribed.pairs(one))
            self._pairs = [pair for pair in pairs if not is_leaf(pair)]
        with closing(self._transactions.connect()) as store:
            if self._own is not None:
                self._replay_in_own_time(store, self._own, one, begun)
            reached = begun.doc
            self._replay(store, one, one.since, reached, self._twins[:1])
            for twin in self._twins:
                twin.advance(begun.clock, begun.doc)
            past = self._twin.state.position
            for _ in range(ROUNDS):
                following = store.progress("next_doc")
                if following - reached <= FEW:
                    break
                self._replay(store, one, reached, following, self._twins)
                reached = following
        with self._transactions.change() as state:
            current = state.subscriptions.numbered(self._number)
            if current is None:
                return True
            if state.eviction.texts_from > texts:
                return False
            self._cut_over(state, current, reached, past, begun.most)
        return True

    def _replay_in_own_time(
        self, store: Store, own: Twin, one: Subscription, begun: Backfill
    ) -> None:
        """Find the matches among what feeds held when first polled, as `try` does."""
        own.begin_own_time(store, begun.clock)
        kept = kept_documents(store, own.reads, one.since, one.since, begun.doc)
        for docs in kept.slices(LARGEST_SLICE):
            if self._ending.is_set():
                raise Stopping
            self._refuse_long(time.monotonic())
            own.replay(store, docs, own_time=True, in_order=False)
        own.end_own_time(self._watermark, begun.clock)

    @property
    def _twins(self) -> Sequence[Twin]:
        """The twin, and that in own time if there is one."""
        return [self._twin] if self._own is None else [self._twin, self._own]

    def _replay(
        self, store: Store, one: Subscription, first: int, end: int, twins: Sequence[Twin]
    ) -> None:
        """Replay the kept documents from one number to before another, slice by slice."""
        kept = kept_documents(store, self._twin.reads, one.since, first, end)
        start = 0
        while start < len(kept):
            if self._ending.is_set():
                raise Stopping
            began, pushes = time.monotonic(), self._transactions.state.pushes
            self._refuse_long(began)
            least = min(LARGEST_SLICE, CATCH_UP * self._arrived())
            following = kept.end_of_slice(start, max(self._size.documents, least))
            docs = kept.docs[start:following]
            for twin in twins:
                twin.replay(store, docs)
            self._keep_witnesses(store, docs)
            start = following
            took = time.monotonic() - began
            self._worked += took
            self._size.learn(len(docs), took)
            is_busy = self._is_busy()
            self._size.seconds = BUSY if is_busy else IDLE
            if is_busy:
                met = self._pushes - pushes
                self._rest(REST * took, REST * (met + 1) if met else 0)

    def _refuse_long(self, now: float) -> None:
        if self._until is not None and now > self._until:
            raise TooLong
        if self._is_bounded and (
            self._worked > LONGEST or self._twin.state.position > MOST_RESULTS
        ):
            raise TooLong

    def _arrived(self) -> int:
        """Return the number of documents that have arrived since the last slice."""
        before, self._next = self._next, self._transactions.state.documents.next
        return self._next - before

    def _is_busy(self) -> bool:
        """Return whether something was pushed lately."""
        now, pushes = time.monotonic(), self._transactions.state.pushes
        if pushes != self._pushes:
            self._pushes, self._pushed = pushes, now
        return now - self._pushed < QUIET

    def _rest(self, seconds: float, pushes: int) -> None:
        """Pause for some seconds and some pushes, or until nothing is pushed any more."""
        end, last = time.monotonic() + seconds, self._pushes + pushes
        while self._is_busy() and ((left := end - time.monotonic()) > 0 or self._pushes < last):
            if self._ending.wait(min(QUIET / 2, left) if left > 0 else QUIET / 4):
                return

    def _keep_witnesses(self, store: Store, docs: RowNumbers) -> None:
        """Add the witnesses of documents to the state of joins."""
        if not self._pairs:
            return
        for some in list(witnesses(store, self._pairs, docs)):
            with self._transactions.change() as state:
                if self._number in state.subscriptions.backfills:
                    state.processor.keep(some)

    def _cut_over(
        self, state: EngineState, one: Subscription, first: int, past: int, most: int | None
    ) -> None:
        """Replay what has arrived, and take over what the twin has."""
        end = state.documents.next
        kept = kept_documents(state.store, self._twin.reads, one.since, first, end)
        if self._pairs:
            for some in list(witnesses(state.store, self._pairs, kept.docs)):
                state.processor.keep(some)
        for twin in self._twins:
            for docs in kept.slices(LARGEST_SLICE):
                twin.replay(state.store, docs)
            twin.advance(state.documents.clock, end)
        known = set(state.dataflow.core.plan.operators)
        state.registration.activate(one)
        fresh = state.dataflow.core.plan.operators.keys() - known
        adopt_state(state, self._twin, self._twins[-1], one, fresh)
        adopt_results(state, self._twin, self._own, one, past, most)
