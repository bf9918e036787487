"""Streams and subscriptions: in, out, and which there are."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from feeds.documents import Document
from xscl import history
from xscl.collector import paused
from xscl.cuts import Stopped
from xscl.documents import Origin
from xscl.errors import Stopping, TooLong, XsclError
from xscl.history import Trial, beginning, past
from xscl.matches import Matches
from xscl.operators.joins import Interleaved
from xscl.priming import first_after, found_before, refuse_unprimed, witnesses
from xscl.pushing import Pushing
from xscl.relational import Attributes, names_of, schema_of
from xscl.results import XSCL, Subscription
from xscl.shapes import Registrable, registrable
from xscl.sizing import FEWEST, Sizing

SLICE = 0.5
"""Seconds that a trial works on a batch: it can be ended between two of them."""


class Subscribing(Pushing):
    """An engine that takes subscriptions."""

    def stream(
        self,
        name: str,
        *,
        lateness: str | int = 0,
        live: bool = False,
        attributes: Attributes | None = None,
    ) -> None:
        """Set a stream's lateness: how far behind the latest document one may still come.

        `lateness` is a duration (`"1 h"`) or a number of ticks.  `attributes`
        say which leaves of its documents relational queries read, and as what:
        `{"title": str, "price": float}`.  Both have to be set before the stream
        is subscribed to.

        Documents of a `live` stream come as they happen, at most so late.  For
        what reads live streams only, a service lets time pass when nothing
        comes: what was absent has been so when its time is over by the wall
        clock.  On all others only documents say how late it is, so what was
        recorded long ago can be replayed.  The clock is one for all streams.
        """
        with self._lock:
            declared = self._streams.checked(name, lateness, live, attributes)
            with self._changing():
                self._streams.declare(declared)

    def make_live(self, name: str) -> None:
        """Let a stream be live of which nothing has been said."""
        if not self._streams.is_known(name):
            with self._lock:
                if not self._streams.is_known(name):
                    self.stream(name, live=True)

    def raise_lateness(
        self, needed: Mapping[str, int], attributes: Attributes | None = None
    ) -> list[str]:
        """Make streams live, and as late as needed at least (in ticks); return those that cannot.

        The lateness of a stream that is subscribed to is fixed: one that would have to be later
        stays as it is.  All others get the attributes that are given, unless some were declared or
        a relational query reads them.  This is one transaction for any number of streams.
        """
        with self._lock:
            raised, fixed = self._streams.too_short(needed)
            loose = needed.keys() - fixed
            bare = self._streams.without_attributes(loose) if attributes else []
            if raised or bare:
                with self._changing():
                    if raised:
                        self._streams.make_late(raised)
                    if attributes and bare:
                        self._streams.give_attributes(bare, schema_of(attributes))
        return fixed

    def subscribe(
        self,
        name: str,
        query: str,
        *,
        updates: bool = False,
        language: str = XSCL,
        since: str | int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Register a query; it sees the documents that arrive from now on.

        `since` lets it begin earlier, so far back from the clock (`"7 d"`, or
        ticks): it has the matches among the documents that are kept from then
        on, and joins later ones with them.  With `updates` it sees new versions
        of documents too.  `language` is `xscl`, or one of events: `cel`, `sase`,
        `eql`, which read streams whose attributes are known (see `stream`).  Raises QueryError, and
        NameTaken for a name that is in use; TooLong if what was before takes
        more than some `seconds` to find, in which nothing is pushed.
        """
        if since is not None:
            self._subscribe_since(name, query, updates, language, since, seconds)
        elif language == XSCL:
            self._subscribe([(name, query)], updates)
        else:
            self._subscribe_query(name, query, language, updates)

    def _subscribe_since(
        self,
        name: str,
        text: str,
        updates: bool,
        language: str,
        since: str | int,
        seconds: float | None,
    ) -> None:
        if language != XSCL:
            raise XsclError("since is for queries in XSCL: what events were before is not kept")
        with self._lock:
            self._subscriptions.refuse_taken(name)
            query = self._compile(text)
            refuse_unprimed(query)
            begin = beginning(since, self._documents.clock)
            first = first_after(self._store, begin, self._documents.next)
            trial = Trial(name, query.source, query.streams, updates, first=first, own_time=False)
            until = None if seconds is None else time.monotonic() + seconds
            found, cut = self._tried(trial, until)
            with self._changing():
                self._registration.register([(name, registrable(query))], updates, first)
                self._prime(self._subscriptions[name], trial, found)
                self._adopt_cuts(self._subscriptions[name], cut)

    def _prime(self, subscription: Subscription, trial: Trial, found: Matches) -> None:
        """Give a new subscription the past: its results, and the join state of its variables."""
        pairs = [self._registry.describe(pair) for pair in self._network.pairs(subscription)]
        for one in list(witnesses(self._store, trial, pairs)):
            self._processor.keep(one)
        if not found:
            return
        rows = found_before(
            self._store,
            self._documents,
            self._composites,
            subscription,
            *found.of_one(),
            self._forgetting.oldest,
        )
        told = self._told == self._position
        results = self._numbered(rows)
        self._store.insert("state.result", results)
        self._composites.save()
        if told:  # who asks for the past has it from `matches`
            self._told = self._position
            self._store.set_progress(told=self._told)
        self._store.set_progress(position=self._position, next_doc=self._documents.next)

    def _adopt_cuts(self, subscription: Subscription, cut: set[str]) -> None:
        """Record the documents, by id, at which the bound of results stopped a trial."""
        if not cut:
            return
        listed = ", ".join("?" * len(cut))
        rows = self._store.fetch(
            f"SELECT doc, id FROM state.document WHERE id IN ({listed})", sorted(cut)
        )
        self._network.cuts.adopt(self._network.qids(subscription)[0], dict(rows))
        self._network.cuts.save()

    def _tried(self, trial: Trial, until: float | None = None) -> tuple[Matches, set[str]]:
        """Return what a trial finds: the matches of an engine of its own, in memory.

        And the ids of the documents at which the bound of results stopped it.
        """
        twin = type(self)(result_bound=self._result_bound)
        with self._lock:
            store = self._store.beside()
            for stream in trial.streams:
                twin.stream(stream, lateness=self._streams.lateness(stream))
        twin.subscribe(trial.name, trial.query, updates=trial.updates)
        size = Sizing(SLICE, history.BATCH, SLICE / FEWEST)
        with closing(store):
            for batch in past(store, trial, lambda: size.documents):
                began = time.monotonic()
                if self._ending.is_set():
                    raise Stopping
                if until is not None and began > until:
                    raise TooLong
                try:
                    twin._take_past(batch)
                except Interleaved:
                    for one in batch:
                        twin._take_past([one])
                size.learn(len(batch), time.monotonic() - began)
        twin.flush()
        qids = twin._network.qids(twin._subscriptions[trial.name])
        return twin._all(), twin._network.cuts.ids_of(qids)

    def _take_past(self, batch: Sequence[tuple[Document, Origin]]) -> None:
        """Take documents that were here before, at the places that they had."""
        with self._changing():
            self._network.begin(several=len(batch) > 1)
            self._take(*zip(*batch, strict=True))
            self._finish()

    def _subscribe_query(self, name: str, text: str, language: str, updates: bool) -> None:
        with self._lock:
            since = self._documents.next
            query = self._registration.planned(name, text, language, updates, since)
            with self._changing():
                self._registration.register_query(name, text, language, query, since)

    def subscribe_many(self, pairs: Iterable[tuple[str, str]], *, updates: bool = False) -> None:
        """Register many queries, all or none; errors name the row that is wrong (from 1)."""
        self._subscribe(pairs, updates, numbered=True)

    def _subscribe(
        self, pairs: Iterable[tuple[str, str]], updates: bool, numbered: bool = False
    ) -> None:
        with self._lock, paused():
            compiled = list(self._registration.compiled(pairs, numbered))
            with self._changing(waits=self._registration.may_wait(one for _, one in compiled)):
                self._registration.register(compiled, updates, self._documents.next)
            self._settle()

    def subscribe_each(
        self, pairs: Sequence[tuple[str, str]], *, updates: bool = False
    ) -> list[XsclError | None]:
        """Register queries of different people; return for each what is wrong with it, if it is.

        Those that stand for themselves are one transaction; one that publishes is one of its own,
        since others may depend on it.
        """
        answers: list[XsclError | None] = [None] * len(pairs)
        together: list[tuple[str, Registrable]] = []
        alone: list[int] = []
        names: set[str] = set()
        with self._lock, paused():
            for place, (name, text) in enumerate(pairs):
                try:
                    ready = self._registration.compiled_one(name, text, names)
                except XsclError as error:
                    answers[place] = error
                    continue
                names.add(name)
                if ready.publish is not None:
                    alone.append(place)
                else:
                    together.append((name, ready))
            if together:
                with self._changing(waits=self._registration.may_wait(one for _, one in together)):
                    self._registration.register(together, updates, self._documents.next)
            for place in alone:
                try:
                    self._subscribe([pairs[place]], updates)
                except XsclError as error:
                    answers[place] = error
            self._settle()
        return answers

    def unsubscribe(self, name: str, *, cascade: bool = False) -> tuple[str, ...]:
        """Remove a subscription, its matches, and the state that nothing else needs.

        Raises StreamInUse if others read what only it publishes; with `cascade` these are removed,
        too.  Returns the names of what was removed.
        """
        with self._lock:
            names = self._subscriptions.dependents(name) if cascade else (name,)
            if not cascade:
                self._subscriptions.refuse_orphans(name)
            ordered = any(self._subscriptions[one].ordered for one in names)
            with self._changing():
                for one in names:
                    self._registration.remove(one)
                self._forgetting.sweep()
                self._registration.set_prompt()
                if ordered:
                    self._registration.save_network()
        return names

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All subscriptions, in the order of registration."""
        return tuple(self._subscriptions)

    def subscription(self, name: str) -> Subscription | None:
        """Return the subscription of a name, None if there is none; waits for nobody."""
        return self._subscriptions.get(name)

    def stopped(self, name: str) -> Stopped | None:
        """Return at which documents the bound of results has stopped a subscription, if at any.

        Waits for nobody.
        """
        found = self._subscriptions.get(name)
        return None if found is None else self._network.stopped(found)

    def knows_stream(self, name: str) -> bool:
        """Return whether a stream is declared or published; waits for nobody, like the next."""
        return self._streams.is_known(name)

    def known_streams(self) -> set[str]:
        """Return the streams that are declared or published."""
        return self._streams.known()

    def publishes(self, stream: str) -> bool:
        """Return whether a subscription publishes a stream."""
        return bool(self._subscriptions.publishers(stream))

    def lateness(self, stream: str) -> int:
        """Return a stream's lateness in ticks."""
        return self._streams.lateness(stream)

    def is_live(self, stream: str) -> bool:
        """Return whether the documents of a stream come as they happen (see `stream`)."""
        return self._streams.is_live(stream)

    def attributes(self, stream: str) -> dict[str, str] | None:
        """Return the attributes that were declared of a stream, their types by name."""
        return names_of(self._streams.declared(stream))

    def end_questions(self) -> None:
        """Have trials, and questions that need some, end soon: they raise Stopping."""
        self._ending.set()
