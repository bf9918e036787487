"""The catalog of an engine: its streams, subscriptions and retention, and changes of these."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from xscl.documents.results import XSCL, Backfill, Subscription
from xscl.documents.retention import Retention
from xscl.engine.backfills import DAYS, DOCUMENTS, MATCHES, Backfills, bound_to
from xscl.engine.executors import recall
from xscl.engine.heap_trim import trim_heap
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.engine.twin import event_publishers
from xscl.errors import StreamInUse, XsclError
from xscl.inspection.replay import beginning
from xscl.planning.compile import QueryPlan
from xscl.planning.event_queries import StreamAttributes, schema_of
from xscl.store.queries.documents import first_after, has_documents
from xscl.store.queries.subscriptions import delete_endpoints_and_tags
from xscl.subscriptions.registration import PreparedQuery
from xscl.subscriptions.subscriptions import Beginning

PATIENCE = 10.0
"""Seconds that a pause waits for the history of its subscription."""


@dataclass(frozen=True, slots=True)
class RegistrationOptions:
    """Options of queries that are registered together, as `Engine.subscribe` has them."""

    updates: bool = False
    stories: bool = False
    language: str = XSCL
    since: str | int | None = None
    history: bool = False

    @property
    def from_past(self) -> bool:
        """True if the subscriptions begin with a history."""
        return self.history or self.since is not None


class EngineCatalog:
    """Changes definitions in transactions, and looks them up.

    A change is compared with the state of the last commit: a request that is repeated after a
    failure is not answered from the change that failed.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.backfills = Backfills(transactions)
        """The backfills of subscriptions that begin with what is kept."""
        self._declared: set[str] = set()  # streams that were declared since the start

    @property
    def _state(self) -> EngineState:
        return self._transactions.state

    # -- Streams ---------------------------------------------------------------------------

    def declare(
        self,
        name: str,
        *,
        lateness: str | int = 0,
        live: bool = False,
        attributes: StreamAttributes | None = None,
    ) -> None:
        """Declare a stream as `Engine.stream` does; an equal declaration is not written again."""
        with self._transactions.committed() as known:
            declared = known.streams.checked(name, lateness, live, attributes)
            self._declared.add(name)
            if not known.streams.has(declared):
                with self._transactions.change() as state:
                    state.streams.declare(declared)

    def declare_live(self, name: str) -> None:
        """Declare a stream as live, unless it is known."""
        if not self._state.streams.is_known(name):
            with self._transactions.committed():
                if not self._state.streams.is_known(name):
                    self.declare(name, live=True)

    def raise_lateness(self, needed: Mapping[str, int], attributes: StreamAttributes) -> list[str]:
        """Make streams live, each with at least a lateness in ticks; return those that lack it.

        Subscriptions read the latter, so their lateness is fixed.  All others get the `attributes`,
        unless some were declared or a relational query reads them.  It is one transaction for any
        number of streams.
        """
        with self._transactions.committed():
            raised, fixed = self._state.streams.raised(needed, schema_of(attributes))
            if raised:
                with self._transactions.change() as state:
                    state.streams.declare(*raised)
        return fixed

    def forget_streams(self, made: Collection[str]) -> list[str]:
        """Delete the declarations by `raise_lateness` of streams that no subscription reads.

        Returns those streams.  A stream that `declare` has declared, too, stays declared.
        """
        with self._transactions.change() as state:
            return state.streams.forget(set(made) - self._declared)

    # -- Subscriptions ---------------------------------------------------------------------

    def committed(self, name: str) -> Subscription | None:
        """Return the subscription of a name as of the last commit, None if there is none.

        Unlike `Engine.subscription` it waits for a change that is under way.  Raises StoreError.
        """
        with self._transactions.committed() as state:
            return state.subscriptions.get(name)

    def subscribe(
        self,
        pairs: Iterable[tuple[str, str]],
        wanted: RegistrationOptions,
        *,
        seconds: float | None = None,
        numbered: bool = False,
    ) -> None:
        """Register queries by name, all or none, as `Engine.subscribe` does.

        A query in an event language is registered alone.  Errors name the row, from 1, if
        `numbered`.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._transactions.between_batches():
            if wanted.from_past:
                with self._exclusive(wanted):
                    self._complete(self._begin(list(pairs), wanted, numbered=numbered), until)
                return
            with self._transactions.committed() as state, self._transactions.paused():
                now = _now(state, wanted)
                ready = dict(state.registration.prepared(pairs, now, numbered=numbered))
                self._register(ready, now)
                self._transactions.freeze()

    def subscribe_each(
        self, pairs: Sequence[tuple[str, str]], wanted: RegistrationOptions
    ) -> list[XsclError | None]:
        """Register queries of different users in order; return the error of each, None for none.

        Independent queries are registered in one transaction; a publishing query, and one in an
        event language, in a transaction of its own, since others may depend on it.
        """
        answers: list[XsclError | None] = [None] * len(pairs)
        together: dict[str, PreparedQuery] = {}
        transactions = self._transactions
        with transactions.between_batches(), transactions.committed(), transactions.paused():
            for place, (name, text) in enumerate(pairs):
                now = _now(self._state, wanted)
                try:
                    if wanted.language == XSCL:
                        ready = self._state.registration.prepared_one(name, text, now, together)
                        if isinstance(ready, QueryPlan) and ready.shape.publish is None:
                            together[name] = ready
                            continue
                    self._register(together, now)
                    together = {}
                    self.subscribe([(name, text)], wanted)
                except XsclError as error:
                    answers[place] = error
            self._register(together, _now(self._state, wanted))
            transactions.freeze()
        return answers

    def _register(self, ready: Mapping[str, PreparedQuery], now: Beginning) -> None:
        if ready:
            with self._transactions.change() as state:
                state.registration.register(ready.items(), now)

    def edit(
        self,
        name: str,
        query: str | None = None,
        *,
        updates: bool | None = None,
        stories: bool | None = None,
        language: str | None = None,
        rename: str | None = None,
        paused: bool | None = None,
    ) -> Subscription:
        """Change a subscription as `Engine.edit` does, in one transaction."""
        known = self._state.subscriptions
        if paused and (one := known.get(name)) is not None and one.number in known.backfills:
            # Its history is complete before the pause begins; pushes do not wait for that.
            self.backfills.complete(one.number, time.monotonic() + PATIENCE)
        transactions = self._transactions
        with transactions.between_batches(), transactions.committed(), transactions.paused():
            one = self._state.subscriptions[name]
            text = one.query if query is None else query
            wanted = (
                text,
                one.updates if updates is None else updates,
                one.language if language is None else language,
            )
            is_other = wanted != (one.query, one.updates, one.language)
            compiled = self._checked_edit(one, *wanted) if is_other else None
            is_grouped = one.stories if stories is None else stories
            if is_grouped and (is_other or not one.stories):
                self._expect_stories(one.name, compiled, text, wanted[2])
            if rename is not None and rename != name:
                self._state.subscriptions.expect_free(rename)
            if paused and not one.is_paused:
                _refuse_pause(self._state, one)
            with self._transactions.change() as state:
                # The state stays if the query has the same results, as after a change of SELECT.
                if is_other and not (
                    compiled is not None
                    and state.registration.edit(name, text, compiled, wanted[1], state.position)
                ):
                    _replace(state, one, *wanted, state.subscriptions.backfills.get(one.number))
                if state.registration.group(name, is_grouped):
                    state.stories.regroup(name)
                if rename is not None and rename != name:
                    name = state.subscriptions.rename(name, rename).name
                if paused is not None and paused != state.subscriptions[name].is_paused:
                    change = state.registration.pause if paused else state.registration.resume
                    change(name, state.position)
            return self._state.subscriptions[name]

    def _expect_stories(
        self, name: str, compiled: QueryPlan | None, text: str, language: str
    ) -> None:
        if language != XSCL:
            raise XsclError("stories are for queries in XSCL")
        registration = self._state.registration
        registration.refuse_stories(compiled or registration.checked(name, text))

    def _checked_edit(
        self, one: Subscription, text: str, updates: bool, language: str
    ) -> QueryPlan | None:
        """Return a query in XSCL that may replace a subscription's; None for an event language."""
        if language != XSCL:
            self._state.subscriptions.refuse_orphans(one.name)
            return None
        query = self._state.registration.checked(one.name, text)
        if one.relational or query.shape.publish != one.publish:
            self._state.subscriptions.refuse_orphans(one.name)
        return query

    def unsubscribe(
        self, name: str, *, cascade: bool = False, purge: bool = False
    ) -> tuple[str, ...]:
        """Remove a subscription as `Engine.unsubscribe` does; return the names of the removed."""
        with self._transactions.between_batches():
            removed = self._removed(name, cascade=cascade, purge=purge)
            if purge:  # matches of large documents leave much memory behind
                self._transactions.store.shrink()
                trim_heap()
            return removed

    def _removed(self, name: str, *, cascade: bool, purge: bool) -> tuple[str, ...]:
        with self._transactions.committed():
            subscriptions = self._state.subscriptions
            if purge and name not in subscriptions and subscriptions.versions(name):
                with self._transactions.change() as state:
                    state.subscriptions.purge(name)
                    state.eviction.sweep()
                return (name,)
            names = subscriptions.dependents(name) if cascade else (name,)
            if not cascade:
                subscriptions.refuse_orphans(name)
            with self._transactions.change() as state:
                ordered = any(state.subscriptions[one].ordered for one in names)
                for one in names:
                    state.registration.remove(one, state.position)
                    delete_endpoints_and_tags(state.store, one)
                    if purge:
                        state.subscriptions.purge(one)
                state.eviction.sweep()
                state.registration.set_prompt()
                if ordered:
                    state.registration.save_plan_state()
        return names

    def erase(self, prefix: str) -> None:
        """Delete the streams with a prefix and their documents, which nobody may read any more."""
        with self._transactions.between_batches():
            with self._transactions.change() as state:
                state.streams.erase(prefix)
                state.eviction.erase(prefix)
            if self._transactions.executors is not None:
                self._transactions.executors.forget()

    # -- With the past ---------------------------------------------------------------------

    def has_past(self, query: str) -> bool:
        """Return True if documents of the streams of a query in XSCL are kept."""
        if self._state.documents.next == 1:
            return False
        streams = self._state.registration.streams_of(query)
        with self._transactions.lock:
            return has_documents(self._transactions.store, streams)

    def subscribe_from(
        self,
        pairs: Sequence[tuple[str, str]],
        wanted: RegistrationOptions,
        *,
        numbered: bool = False,
    ) -> list[int]:
        """Register queries with a history durably, all or none; `serve` of `Backfills` reads it.

        Returns the numbers of the backfills to complete: none for a query in an event language
        that publishes, whose history is complete on return.
        """
        if wanted.language != XSCL:
            with self._transactions.committed() as state:  # a wrong query is refused at once
                self._published_from(state, pairs, wanted)
            self.backfills.await_running()  # pushes go on meanwhile
        with self._transactions.between_batches(), self._exclusive(wanted):
            begun = self._begin(pairs, wanted, acknowledged=True, numbered=numbered)
            if not all(one.acknowledged for one in begun):
                self._complete(begun, None)
                return []
            for one in begun:
                self.backfills.completion(one.subscription)
            return [one.subscription for one in begun]

    def _complete(self, begun: Sequence[Backfill], until: float | None) -> None:
        """Complete backfills; if one fails, remove the subscriptions of all.

        `until` is a time of `time.monotonic`, after which it fails.
        """
        try:
            for one in begun:
                self.backfills.complete(one.subscription, until)
        except BaseException:
            for one in begun:
                self.drop_backfill(one.subscription)
            raise

    def _begin(
        self,
        pairs: Sequence[tuple[str, str]],
        wanted: RegistrationOptions,
        *,
        acknowledged: bool = False,
        numbered: bool = False,
    ) -> list[Backfill]:
        """Register queries that wait for their histories."""
        with self._transactions.committed() as state, self._transactions.paused():
            first = max(self._first(wanted.since), self._published_from(state, pairs, wanted))
            past = replace(
                _now(state, wanted),
                since=first,
                bound_to=bound_to(state.subscriptions, first),
                suspended=True,
            )
            ready = list(state.registration.prepared(pairs, past, numbered=numbered))
            with self._transactions.change() as state:
                return [
                    _begin_backfill(state, one, wanted, acknowledged=acknowledged)
                    for one in state.registration.register(ready, past)
                ]

    def _exclusive(self, wanted: RegistrationOptions) -> AbstractContextManager[None]:
        """Return a context in which no other backfill runs, for a query in an event language."""
        return nullcontext() if wanted.language == XSCL else self.backfills.exclusive()

    @staticmethod
    def _published_from(
        state: EngineState, pairs: Iterable[tuple[str, str]], wanted: RegistrationOptions
    ) -> int:
        """Return the first document of the past that queries of events can have.

        Their histories repeat the operators of event queries that publish what they read.  From
        before these were registered, and from pauses, whose documents are not recorded, they would
        have rows that were never published.
        """
        if wanted.language == XSCL:
            return 0
        reads = [
            stream
            for name, text in pairs
            for stream in state.registration.read_by(name, text, wanted.language)
        ]
        publishers = event_publishers(state.subscriptions, reads)
        return max(
            (
                state.documents.next if publisher.is_bounded else publisher.since
                for publisher in publishers
            ),
            default=0,
        )

    def _first(self, since: str | int | None) -> int:
        """Return the number of the first document of a history."""
        documents = self._state.documents
        begin = beginning(DAYS if since is None else since, documents.clock)
        found = first_after(self._transactions.store, begin)
        first = documents.next if found is None else found
        if since is None:
            first = max(first, documents.next - DOCUMENTS, self._state.eviction.first_in_age())
        return first

    def drop_backfill(self, number: int) -> None:
        """Remove a subscription whose backfill is not complete."""
        with self._transactions.between_batches(), self._transactions.committed():
            one = self._state.subscriptions.numbered(number)
            if one is not None:
                self.unsubscribe(one.name, cascade=True, purge=True)

    def begin_without_past(self, number: int) -> None:
        """Begin a subscription from now on, as a new version: its history could not be read."""
        with self._transactions.between_batches(), self._transactions.committed():
            one = self._state.subscriptions.numbered(number)
            if one is None:
                return
            wanted = one.query, one.updates, one.language
            self._checked_edit(one, *wanted)
            with self._transactions.change() as state:
                _replace(state, one, *wanted, None)
                state.subscriptions.mark_without_past(one.name)

    def drop_unacknowledged(self) -> None:
        """Remove the subscriptions whose registration an earlier process has not acknowledged."""
        for begun in list(self._state.subscriptions.backfills.values()):
            if not begun.acknowledged:
                self.drop_backfill(begun.subscription)

    # -- Retention -------------------------------------------------------------------------

    def retain(self, retention: Retention) -> None:
        """Set and store the retention."""
        with self._transactions.committed():
            if retention != self._state.eviction.told:
                with self._transactions.change() as state:
                    state.eviction.retain(retention)


def _now(state: EngineState, wanted: RegistrationOptions) -> Beginning:
    """Return the beginning of subscriptions that see the documents from now on."""
    return Beginning(
        state.documents.next, wanted.updates, stories=wanted.stories, language=wanted.language
    )


def _begin_backfill(
    state: EngineState, one: Subscription, wanted: RegistrationOptions, *, acknowledged: bool
) -> Backfill:
    """Record that the history of a subscription is to be read.

    A publishing query in an event language is acknowledged only after its history.
    """
    most = MATCHES if wanted.since is None else None
    # Executors do not read the past.
    elsewhere = set(state.registry.elsewhere.rows.tolist())
    if shared := elsewhere.intersection(state.dataflow.subscribed.qids(one)):
        recall(state, shared)
    here = state.documents.next, state.documents.clock
    acknowledged &= not (one.relational and one.publish)
    begun = Backfill(one.number, one.key, *here, most, acknowledged)
    state.subscriptions.begin_backfill(one.name, begun, state.position)
    return begun


def _replace(
    state: EngineState,
    one: Subscription,
    text: str,
    updates: bool,
    language: str,
    begun: Backfill | None,
) -> None:
    """Make a query the next version of a subscription, with a backfill or from now on.

    Its state begins anew.  `begun` is the backfill of a subscription whose history is not read
    yet; its next version has the same one.
    """
    registration, end = state.registration, state.documents.next
    start = Beginning(end, updates, replaces=one, language=language)
    if begun is not None:
        start = replace(start, since=one.since, bound_to=one.bound_to, suspended=True)
    registration.remove(one.name, state.position)
    query = registration.prepared_one(one.name, text, start)
    (added,) = registration.register([(one.name, query)], replace(start, stories=one.stories))
    if begun is not None:
        again = replace(begun, subscription=added.number, doc=end, clock=state.documents.clock)
        state.subscriptions.begin_backfill(one.name, again, state.position)
    if one.is_paused:
        registration.pause(one.name, state.position)
    state.eviction.sweep()
    registration.set_prompt()
    registration.save_plan_state()


def _refuse_pause(state: EngineState, one: Subscription) -> None:
    """Raise StreamInUse for a query in an event language whose rows others read in the plan."""
    if one.relational and one.publish is not None and state.subscriptions.readers(one.publish):
        raise StreamInUse(
            f"{one.name!r} publishes the stream {one.publish!r}, which others read as events",
            hint="pause its readers",
        )
