"""Backfills: the matches of what was kept at a registration (docs/decisions/histories.md).

    begin    the subscription is registered without operators, durably            (lock)
    slices   a twin replays the kept documents; their witnesses join the state    (short locks)
    cut-over the twin catches up, the subscription takes over its state           (lock)

The subscription takes over the results of the twin (`xscl.engine.twin`) at one position of the log,
and the shared operators its state: that of joins, composites of inner joins, and rows of operators
over time.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep_core import is_calendar
from templates.model.join_graph import INFINITE
from templates.model.relations import Pair
from xscl.documents.composite_events import composites_of
from xscl.documents.results import XSCL, Backfill, Subscription
from xscl.engine.batch_size import BatchSize
from xscl.engine.disk_guard import is_faulty, is_full
from xscl.engine.ingest import append_results
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.engine.twin import Twin
from xscl.errors import Stopping, StoreError, TooLong
from xscl.inspection.replay import kept_documents, witnesses
from xscl.planning.planned_subscriptions import is_leaf
from xscl.store.queries.documents import earliest_time, has_history
from xscl.store.queries.results import results_of
from xscl.store.queries.rows import RowNumbers, rows_of
from xscl.store.queries.witnesses import documents_of_pairs, pairs_from
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
"""Results of the twin after which a service begins a subscription without its history."""
MOST_FAILURES = 5
"""Failures of the store after which a subscription begins without its history."""
RECHECK = 1.0
"""Seconds after which `serve` looks for backfills that nobody has asked for."""
ATTEMPTS = 3
"""Attempts at a backfill, as each fails if texts are evicted meanwhile; the last one holds the
engine's lock."""

DAYS = "30 d"
"""Time between the begin of a history and the engine's clock."""
MATCHES = 1_000
"""Maximum number of matches of a history: the newest ones."""
DOCUMENTS = 100_000
"""Maximum number of documents between the begin of a history and the registration."""
SHARED = 0
"""The `bound_to` of operators over time that subscriptions with a history share by default."""


def bound_to(known: Iterable[Subscription], first: int) -> int:
    """Return the `bound_to` of a subscription whose history begins with the document `first`.

    Subscriptions share operators over time only if their `bound_to` is equal.  It is `SHARED`,
    unless a `known` subscription has that value and a history that began after `first`: its
    operators lack the documents between.  Then it is `first`.
    """
    shorter = any(one.bound_to == SHARED and one.since > first for one in known)
    return first if shorter else SHARED


class Backfills:
    """Completes the backfills of one engine, one at a time; thread-safe."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._running = threading.RLock()
        self._changed = threading.Condition()
        self._failures = Counter[int]()  # failures in `serve`, by number of the subscription
        self._arrived = -1  # the number that the next document had when the disk last failed
        # by number of the subscription; guarded by `_changed`
        self._completions: dict[int, Future[None]] = {}

    def end(self) -> None:
        """End all backfills and trials, also those that begin later: they raise Stopping."""
        self._transactions.ending.set()
        with self._changed:
            self._changed.notify_all()

    def await_running(self) -> None:
        """Wait until no backfill runs in another thread."""
        with self._running:
            return

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the engine's lock while no other thread runs a backfill, until the block ends."""
        with self._running, self._transactions.lock:
            yield

    def complete(
        self, number: int, until: float | None = None, *, is_bounded: bool = False
    ) -> None:
        """Complete the backfill of the subscription of a number, and those that must precede it.

        `until` is a time of `time.monotonic`, after which it raises TooLong.  If `is_bounded`, it
        also raises TooLong beyond the bounds of a service (`LONGEST`, `MOST_RESULTS`).  Raises
        Stopping after `end`.
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
        """Ask the thread in `serve` for the backfill of the subscription of a number.

        Returns a future, which is done when the backfill is complete or was dropped.
        """
        with self._changed:
            future = self._completions.setdefault(number, Future())
            self._changed.notify_all()
            return future

    def serve(self, completed: Callable[[], None], give_up: Callable[[int], None]) -> None:
        """Complete backfills until `end`: those of `completion`, and all acknowledged ones.

        Of the latter some have no call of `completion`: after a registration that failed once it
        was committed, and after an edit.  `completed` is called after each backfill, `give_up` with
        the number of a subscription whose backfill fails.
        Raises StoreError and OSError: call it again when the disk can be written.
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
        """Return the numbers of the subscriptions with a backfill that a restart would keep."""
        known = self._transactions.state.subscriptions.backfills
        return [one.subscription for one in list(known.values()) if one.acknowledged]

    def _is_its_own(self, error: Exception) -> bool:
        """Return True if an error counts as a failure of the backfill, not of the disk.

        A second fault of the disk counts only if documents have arrived since the first: while the
        disk takes no documents either, the backfill waits for it as documents do.
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
        """Resolve the futures of `completion` whose backfills are complete or were dropped.

        Only commits count: a removal under way drops no backfill.  If the store cannot be read, a
        later call resolves them.
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
        """Return the number of the subscription whose backfill runs next, to complete `number`.

        If `number` has operators over time, it is the first registered one among all such with a
        backfill; else it is `number`.  None if the backfill of `number` is complete or was dropped.
        """
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
    """One attempt to complete a backfill: a twin replays the kept documents.

    The twin has the subscription alone.  The engine then takes its results and state over."""

    def __init__(
        self,
        transactions: Transactions,
        number: int,
        until: float | None,
        is_bounded: bool,
    ) -> None:
        self._is_bounded = is_bounded
        self._worked = 0.0  # seconds that all slices have taken together
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
        self._pushed = -math.inf  # the time at which the last push was noticed

    def close(self) -> None:
        """Close the twins."""
        self._twin.close()
        if self._own is not None:
            self._own.close()

    def complete(self) -> bool:
        """Replay the history and cut over; return True if the backfill needs no other attempt.

        That is also so if the subscription was removed.  False: nothing was taken over, as texts
        were evicted meanwhile that it may not have read.
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
                twin.ingest.advance(begun.clock, begun.doc - 1)
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
        """Make the twin `own` find the matches among what feeds held at their first poll.

        As in a trial, these documents count as if they had arrived at their own times.
        """
        if any(map(is_calendar, own.reads)):
            first = earliest_time(store, own.reads, since=one.since)
            if first is not None:
                own.ingest.occur(first, begun.clock)
        kept = kept_documents(store, own.reads, one.since, one.since, begun.doc)
        for docs in kept.slices(LARGEST_SLICE):
            if self._ending.is_set():
                raise Stopping
            self._refuse_long(time.monotonic())
            own.replay(store, docs, own_time=True, in_order=False)
        own.ingest.flush(self._watermark, begun.clock)

    @property
    def _twins(self) -> Sequence[Twin]:
        """The one or two twins that replay the history.

        The first one replays the documents as they arrived.  The second one, if feeds' histories
        are kept, has replayed these at the documents' own times."""
        return [self._twin] if self._own is None else [self._twin, self._own]

    def _replay(
        self, store: Store, one: Subscription, first: int, end: int, twins: Sequence[Twin]
    ) -> None:
        """Make `twins` replay the kept documents with numbers from `first` to before `end`.

        It goes slice by slice, and rests after each while something is pushed.  The witnesses of
        the documents are added to the engine's join state.
        """
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
        """Return True if the engine had a push in the last `QUIET` seconds."""
        now, pushes = time.monotonic(), self._transactions.state.pushes
        if pushes != self._pushes:
            self._pushes, self._pushed = pushes, now
        return now - self._pushed < QUIET

    def _rest(self, seconds: float, pushes: int) -> None:
        """Pause until both some seconds have passed and some pushes have come.

        It ends early if nothing is pushed for `QUIET` seconds, and at the end of the engine.
        """
        end, last = time.monotonic() + seconds, self._pushes + pushes
        while self._is_busy() and ((left := end - time.monotonic()) > 0 or self._pushes < last):
            if self._ending.wait(min(QUIET / 2, left) if left > 0 else QUIET / 4):
                return

    def _keep_witnesses(self, store: Store, docs: RowNumbers) -> None:
        """Add to the engine's join state the witnesses of documents that the subscription needs."""
        if not self._pairs:
            return
        for some in list(witnesses(store, self._pairs, docs)):
            with self._transactions.change() as state:
                if self._number in state.subscriptions.backfills:
                    state.processor.state.replace(some)

    def _cut_over(
        self, state: EngineState, one: Subscription, first: int, past: int, most: int | None
    ) -> None:
        """Replay the documents from the number `first` on; move results and state to the engine.

        The subscription `one` gets its operators here.  `past` and `most` are those of
        `_adopt_results`."""
        end = state.documents.next
        kept = kept_documents(state.store, self._twin.reads, one.since, first, end)
        if self._pairs:
            for some in list(witnesses(state.store, self._pairs, kept.docs)):
                state.processor.state.replace(some)
        for twin in self._twins:
            for docs in kept.slices(LARGEST_SLICE):
                twin.replay(state.store, docs)
            twin.ingest.advance(state.documents.clock, end - 1)
        known = set(state.dataflow.core.plan.operators)
        state.registration.activate(one)
        fresh = state.dataflow.core.plan.operators.keys() - known
        numbers = _numbered(state, self._twin, one)
        _keep_composites(state, self._twin, numbers)
        # The operators take over the state of the second twin if there is one: an item of a feed's
        # history may begin a sequence, or an absence that is not due yet.
        over_time = self._twins[-1]
        entries = (row["entry"] for row in rows_of(over_time.state.store, "core", order="number"))
        state.dataflow.state_log.adopt(entries, over_time.operators(state, one), fresh)
        self._adopt_results(state, one, past, most, numbers)

    def _adopt_results(
        self,
        state: EngineState,
        one: Subscription,
        past: int,
        most: int | None,
        numbers: Mapping[int, int],
    ) -> None:
        """Take over the results of the twins, within a transaction at their clock.

        The results up to the position `past` of the first twin's log become backfilled matches.  If
        `most` is set, only the newest `most` of them are taken, and as many of the second twin's.
        `numbers` are the engine's numbers of the first twin's composites, by its own.
        """
        store = self._twin.state.store
        for row in rows_of(store, "cut", order="doc"):
            state.dataflow.cuts.adopt(row["qid"], row["doc"])
        state.dataflow.cuts.save()
        delivered = state.acknowledged == state.position
        found = results_of(store, one.qid)
        in_past = pc.less_equal(found["position"], past)
        results = found.drop_columns(["position"])
        _append(state, _newest(results.filter(in_past), most), numbers, one)
        if self._own is not None:
            state.composites.save()  # `_numbered_again` looks for composites in the store
            again = _newest(_in_own_time(state, one, self._own), most)
            _append(state, again, _numbered_again(state, self._own, one), one)
        if delivered:  # move the cursor, as backfilled matches are not delivered
            state.acknowledged = state.position
        backfilled = state.position
        live = _append(state, results.filter(pc.invert(in_past)), numbers, one)
        state.subscriptions.end_backfill(one, backfilled, live)
        state.composites.save()
        if one.stories:
            state.stories.regroup(one.name)
        if one.ordered:
            state.registration.save_plan_state()
        state.store.set_progress(
            position=state.position, told=state.acknowledged, next_doc=state.documents.next
        )


# -- What a subscription takes over from its twins --------------------------------------------


def _in_own_time(state: EngineState, subscription: Subscription, own: Twin) -> pa.Table:
    """Return the results of the twin `own` all of whose documents are of feeds' histories.

    Results that other subscriptions of the same stream of results would receive are left out, and
    those too old for matches to be kept."""
    sharers = state.subscriptions.by_qid[subscription.qid]
    others = min(
        (sharer.since for sharer in sharers if sharer is not subscription), default=INFINITE
    )
    chosen = [
        position
        for position, parts in own.log.since().results()
        if parts
        and all(part.history for part in parts)
        and min(part.first for part in parts) < others
        and max(part.doc for part in parts) >= state.eviction.oldest
    ]
    found = results_of(own.state.store, subscription.qid)
    chosen_rows = pc.is_in(found["position"], pa.array(chosen, pa.int64()))
    return found.filter(chosen_rows).drop_columns(["position"])


def _numbered_again(state: EngineState, own: Twin, subscription: Subscription) -> _Numbers:
    """Return the engine's numbers of the composites in the results of the twin `own`.

    A composite that is in a result of the engine keeps its number.  Any other gets a new number,
    and the clock at which its latest document arrived.
    """
    kept = composites_of(state.store, _in_results(state.store, subscription))
    known = {(one.docs, one.nodes, one.values): number for number, one in kept.items()}
    numbers = _Numbers()
    theirs = own.state.store
    for number, composite in composites_of(theirs, _in_results(theirs, subscription)).items():
        if composite.rank > 0:
            parts = state.documents.stored(set(composite.docs)).values()
            composite = composite._replace(clock=max(parts, key=lambda one: one.rank).clock)
        key = composite.docs, composite.nodes, composite.values
        numbers[number] = known.get(key) or state.composites.number(composite)
    return numbers


class _Numbers(dict[int, int]):
    """The engine's numbers of composites by the twin's numbers; other keys are their own values.

    Those are documents, which have the same number in both.
    """

    def __missing__(self, number: int) -> int:
        return number


def _numbered(state: EngineState, twin: Twin, subscription: Subscription) -> _Numbers:
    """Return the engine's numbers of all composites of a twin.

    A composite that the engine has, in results or in the join state, keeps its number; any other
    gets a new one.
    """
    leaves = state.dataflow.subscribed.pairs(subscription)
    bound = documents_of_pairs(state.store, leaves)
    kept = np.concatenate((_in_results(state.store, subscription), bound))
    known = {composite: number for number, composite in composites_of(state.store, kept).items()}
    numbers = _Numbers()
    for number, composite in composites_of(twin.state.store).items():
        numbers[number] = known.get(composite) or state.composites.number(composite)
    return numbers


def _in_results(store: Store, subscription: Subscription) -> RowNumbers:
    """Return the numbers of documents and composites in a subscription's results, repeated."""
    found = results_of(store, subscription.qid)
    return np.concatenate((found["doc1"].to_numpy(), found["doc2"].to_numpy()))


def _keep_composites(state: EngineState, twin: Twin, numbers: Mapping[int, int]) -> None:
    """Add the twin's composites of inner joins to the engine's join state, under `numbers`."""
    kept = pairs_from(twin.state.store, twin.composites)
    composites = composites_of(twin.state.store)
    arrived = {
        (numbers[doc], int(state.registry.pairs.describe(pair).second[1:].partition("/")[0])): (
            composites[doc]
        )
        for doc, pair in kept
    }
    if arrived:
        state.dataflow.keep([(*key, composite) for key, composite in arrived.items()])


def _newest(found: pa.Table, most: int | None) -> pa.Table:
    return found if most is None else found.slice(max(0, found.num_rows - most))


def _append(
    state: EngineState, found: pa.Table, numbers: Mapping[int, int], subscription: Subscription
) -> list[int]:
    """Store the results `found` by a twin that the engine does not have yet.

    Return the positions of those that it has, if they are after `subscription.backfilled`.  Results
    whose documents are all too old for matches to be kept are left out: subscriptions that share
    them may have received them.  `numbers` are the engine's numbers by the twin's.
    """
    if not found.num_rows:
        return []
    for name in ("doc1", "doc2"):
        column = [numbers[number] for number in found[name].to_pylist()]
        at = found.schema.get_field_index(name)
        found = found.set_column(at, found.schema.field(at), pa.array(column, pa.int64()))
    there, rows = results_of(state.store, subscription.qid), _keys(found)
    known = dict(zip(_keys(there), there["position"].to_pylist(), strict=True))
    oldest = state.eviction.oldest
    new = np.array([row not in known and max(row[:2]) >= oldest for row in rows])
    append_results(state, found.filter(pa.array(new)))
    shared = (known[row] for row in rows if row in known)
    return [position for position in shared if position > subscription.backfilled]


def _keys(found: pa.Table) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (doc1, doc2, nodes) of each result, in the order of the rows."""
    columns = (found[name].to_pylist() for name in ("doc1", "doc2", "nodes"))
    return [(one, other, tuple(nodes)) for one, other, nodes in zip(*columns, strict=True)]
