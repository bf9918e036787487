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
    """The options of queries that are registered together: arguments of `Engine.subscribe`."""

    updates: bool = False
    stories: bool = False
    language: str = XSCL
    since: str | int | None = None
    history: bool = False

    @property
    def from_past(self) -> bool:
        """True if the subscriptions begin with matches among kept documents."""
        return self.history or self.since is not None


class EngineCatalog:
    """Changes streams, subscriptions and retention, each change in one transaction.

    A request is compared with the state of the last commit.  So one that is repeated after a
    failure is carried out, although the change that failed was in memory.
    """

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.backfills = Backfills(transactions)
        """The backfills of subscriptions that begin with what is kept."""
        self._declared: set[str] = set()  # names of the streams that `declare` got since the start

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
        """Declare a stream as live, unless it is declared or published already."""
        if not self._state.streams.is_known(name):
            with self._transactions.committed():
                if not self._state.streams.is_known(name):
                    self.declare(name, live=True)

    def raise_lateness(self, needed: Mapping[str, int], attributes: StreamAttributes) -> list[str]:
        """Raise the lateness of streams to what is `needed`, in ticks by stream; make these live.

        Return the streams whose lateness is too small but stays, because subscriptions read them.
        The others get the `attributes`, unless they have some or an event query reads them.  It is
        one transaction for all streams.
        """
        with self._transactions.committed():
            raised, fixed = self._state.streams.raised(needed, schema_of(attributes))
            if raised:
                with self._transactions.change() as state:
                    state.streams.declare(*raised)
        return fixed

    def forget_streams(self, made: Collection[str]) -> list[str]:
        """Delete the declarations of streams that no subscription reads; return those streams.

        `made` are streams that `raise_lateness` has declared.  Those that `declare` has declared,
        too, stay.
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
        """Register queries, given as (name, text), all or none, as `Engine.subscribe` does.

        `pairs` has one query only if its language is one of events.  `seconds` bounds the time that
        a history takes.  If `numbered`, an error has the `row` of its query, from 1.
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
        """Register queries in their order, given as (name, text), each independently of the others.

        Return one value for each query: its error, or None if it is registered.  A query that
        publishes, or in an event language, has a transaction of its own, since later ones may read
        its stream; the queries between two such share one.
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
            # A pause begins after the history was read; pushes do not wait for that.
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
                # `registration.edit` keeps the state of a query with the same results, as after a
                # change of SELECT; for any other it returns False.
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
        """Return the compiled query of a text that may replace a subscription's query.

        None if `language` is one of events.  Raises QueryError, and StreamInUse if others read a
        stream that would have no publisher then.
        """
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
        """Remove a subscription as `Engine.unsubscribe` does; return the names of all removed."""
        with self._transactions.between_batches():
            removed = self._removed(name, cascade=cascade, purge=purge)
            if purge:  # deleted matches leave much free memory behind: give it back
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
                subscriptions.refuse_orphans(name, ", or all at once with cascade (--cascade)")
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
        """Delete the streams whose names begin with a prefix, and their documents.

        No subscription may read them.
        """
        with self._transactions.between_batches():
            with self._transactions.change() as state:
                state.streams.erase(prefix)
                state.eviction.erase(prefix)
            if self._transactions.executors is not None:
                self._transactions.executors.forget()

    # -- With the past ---------------------------------------------------------------------

    def has_past(self, query: str) -> bool:
        """Return True if documents of a stream that a query in XSCL reads are kept."""
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
        """Register queries with a history durably, all or none; `Backfills.serve` reads it later.

        `pairs` are (name, text).  If `numbered`, an error has the `row` of its query, from 1.
        Returns the numbers of the subscriptions whose backfills are left to do: none for a query in
        an event language that publishes, whose history is complete on return.
        """
        if wanted.language != XSCL:
            with self._transactions.committed() as state:  # refuse a wrong query before waiting
                self._published_from(state, pairs, wanted)
            self.backfills.await_running()  # without the lock, so that pushes go on
        with self._transactions.between_batches(), self._exclusive(wanted):
            begun = self._begin(pairs, wanted, acknowledged=True, numbered=numbered)
            if not all(one.acknowledged for one in begun):
                self._complete(begun, None)
                return []
            for one in begun:
                self.backfills.completion(one.subscription)
            return [one.subscription for one in begun]

    def _complete(self, begun: Sequence[Backfill], until: float | None) -> None:
        """Complete backfills; if one fails, remove the subscriptions of all, and raise its error.

        `until` is a time of `time.monotonic`, after which TooLong is raised.
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
        """Register queries, given as (name, text), whose histories are not read yet.

        Return their backfills.  Those not `acknowledged` are dropped at a restart.  If `numbered`,
        an error has the `row` of its query, from 1.
        """
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
        """Return a context in which no other thread runs a backfill; an empty one for XSCL."""
        return nullcontext() if wanted.language == XSCL else self.backfills.exclusive()

    @staticmethod
    def _published_from(
        state: EngineState, pairs: Iterable[tuple[str, str]], wanted: RegistrationOptions
    ) -> int:
        """Return the number of the first document that a history of queries can begin with.

        It is 0 for XSCL.  The history of an event query repeats the event queries that publish what
        it reads.  It begins after these were registered, edited and resumed: earlier documents
        would give rows that were never published.
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
        """Return the number of the first document of a history; `since` as in `Engine.subscribe`.

        Without `since` it is bounded by `DAYS`, `DOCUMENTS` and the age up to which texts are kept.
        """
        documents = self._state.documents
        begin = beginning(DAYS if since is None else since, documents.clock)
        found = first_after(self._transactions.store, begin)
        first = documents.next if found is None else found
        if since is None:
            first = max(first, documents.next - DOCUMENTS, self._state.eviction.first_in_age())
        return first

    def drop_backfill(self, number: int) -> None:
        """Remove the subscription with a number, if its backfill is not complete.

        Its matches are deleted, and its readers are removed with it.
        """
        with self._transactions.between_batches(), self._transactions.committed():
            one = self._state.subscriptions.numbered(number)
            if one is not None:
                self.unsubscribe(one.name, cascade=True, purge=True)

    def begin_without_past(self, number: int) -> None:
        """Begin the subscription with a number now, without the history, which cannot be read.

        It gets another version.  Does nothing if its backfill is complete or was dropped.
        """
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
        """Remove the subscriptions with a backfill that was never acknowledged.

        The process that registered them has ended before it answered.
        """
        for begun in list(self._state.subscriptions.backfills.values()):
            if not begun.acknowledged:
                self.drop_backfill(begun.subscription)

    # -- Retention -------------------------------------------------------------------------

    def retain(self, retention: Retention) -> None:
        """Set and store the retention; the next push applies it."""
        with self._transactions.committed():
            if retention != self._state.eviction.told:
                with self._transactions.change() as state:
                    state.eviction.retain(retention)


def _now(state: EngineState, wanted: RegistrationOptions) -> Beginning:
    """Return the `Beginning` of subscriptions that see documents from the next one on."""
    return Beginning(
        state.documents.next, wanted.updates, stories=wanted.stories, language=wanted.language
    )


def _begin_backfill(
    state: EngineState, one: Subscription, wanted: RegistrationOptions, *, acknowledged: bool
) -> Backfill:
    """Record that the history of a subscription is to be read; return the backfill.

    That of a query in an event language that publishes is not `acknowledged`: if the process ends
    before it is complete, the subscription is dropped.
    """
    most = MATCHES if wanted.since is None else None
    # Executors do not join kept documents for a history, so the engine evaluates its joins.
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
    """Make the query `text` the next version of the subscription `one`, without its state.

    `updates` and `language` are the version's.  It sees documents from now on; if `begun`, the
    backfill of a history that is not read yet, is given, it begins with that history.
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
    """Raise StreamInUse for an event query that publishes a stream which subscriptions read."""
    if one.relational and one.publish is not None and state.subscriptions.readers(one.publish):
        raise StreamInUse(
            f"{one.name!r} publishes the stream {one.publish!r}, which others read as events",
            hint="pause its readers",
        )
