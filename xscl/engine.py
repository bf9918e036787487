"""The engine: subscriptions in, documents in, matches out.

`push` takes a batch through both stages within one transaction: accept,
shred, join, store the results, and do the same again for what subscriptions
publish.  The output does not depend on how the input is cut into batches.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from feeds.documents import Document
from feeds.faultpoints import reached
from templates.processor import Processor, Pushed
from templates.registry import Registry
from templates.relations import INFINITE
from xscl import history
from xscl.backup import Backup, back_up
from xscl.collector import paused, settle, unsettle
from xscl.compile import compile_query
from xscl.composites import Composite, Composites
from xscl.compositestreams import CompositeStreams
from xscl.documents import Accepted, Documents, Origin, check
from xscl.errors import SqlError, Stopping, StoreError, TooLong, XsclError
from xscl.explain import explain
from xscl.forgetting import Forgetting
from xscl.history import TRIED, Trial, beginning, past, registered
from xscl.lateness import Readings
from xscl.ledger import Batch, Ledger
from xscl.look import Look
from xscl.match import Match, Reader, groups_of, output_of
from xscl.matches import Matches
from xscl.network import Network
from xscl.outlets import Published
from xscl.pace import Laps, Pace
from xscl.pages import LIMIT, Page, Pages
from xscl.plangraph import PlanGraph, plan_graph
from xscl.priming import first_after, found_before, refuse_unprimed, witnesses
from xscl.registration import Registration
from xscl.relational import Attributes
from xscl.relations import Relations
from xscl.results import XSCL, Results, Subscription
from xscl.retention import Retention
from xscl.shapes import Registrable
from xscl.sizing import FEWEST, Sizing
from xscl.store import Store
from xscl.streams import Streams
from xscl.subscriptions import Subscriptions
from xscl.why import Read, Why, asked, why
from xscl.workers import Workers
from xscl.xpath.artefact import Artefacts
from xscl.xpath.portions import Part

SETTLED = 1_000
"""Subscriptions that come before the collector is told that they are here to stay."""
FORGOTTEN_AFTER = 64
"""Pushes from one look for what operators over time need no more to the next."""
PATIENCE = 0.2
"""Seconds for which a look waits for a push to end, before it sees what was before that."""

SLICE = 0.5
"""Seconds that a trial works on a batch: it can be ended between two of them."""


class Engine:
    """A set of subscriptions over streams of documents.

    With a path everything is kept in that DuckDB file and the next engine
    continues exactly where this one stopped; without one it lives in memory.
    `views` chooses Algorithm 4 (materialised R_L and R_R) or Algorithm 1.
    `retention` says how long to keep what no query needs: see `retain`.
    `workers` is the number of processes that help to shred large batches; each
    has a copy of the automaton, which is some kilobytes for each subscription.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        views: bool = True,
        retention: Retention | None = None,
        workers: int = 0,
    ) -> None:
        self._store = Store(path)
        self._workers = Workers(workers)
        self._views = views
        self._lock = threading.RLock()
        self._pages: Pages | None = None
        self._settled = 0  # subscriptions that were there when the collector was last told
        self.pace = Pace()
        self._laps = Laps(self.pace)
        self._ending = threading.Event()
        self._compile = lru_cache(maxsize=10_000)(compile_query)
        try:
            with self._store.telling(), paused():
                self._load()
            self._settle()
        except BaseException:
            self._store.close()
            raise
        if retention is not None:
            self.retain(retention)

    def _load(self) -> None:
        """Rebuild everything in memory from the store."""
        self._registry = Registry(self._store.connection)
        self._processor = Processor(self._store.connection, self._registry, views=self._views)
        self._documents = Documents(self._store)
        self._composites = Composites(self._store, self._documents)
        self._subscriptions = Subscriptions(self._store, self._registry)
        self._reader = Reader(self._compile, self._documents.tree)
        self._position = self._store.progress("position")
        self._ledger = Ledger(self._store)
        self._told = self._store.progress("told")
        self._streams = Streams(self._store, self._subscriptions, self._compile)
        self._numbers = CompositeStreams(self._store)
        self._accepted: list[Accepted] = []
        self._results = 0  # matches of the push that was finished last
        self._pushes = 0
        self._network = Network(
            self._registry,
            self._processor,
            self._documents,
            self._composites,
            self._numbers.take,
            self._streams.lateness,
            self._publish,
            self._streams.schema,
        )
        self._forgetting = Forgetting(
            self._store,
            self._documents,
            self._composites,
            self._network.core.plan,
            self._network.waiting,
        )
        self._registration = Registration(
            self._store,
            self._registry,
            self._processor,
            self._subscriptions,
            self._streams,
            self._numbers,
            self._network,
            self._compile,
        )
        self._registration.plan_again()
        self._readings = Readings(
            self._subscriptions, self._registry, self._streams.lateness, self._compile
        )
        self._relations = Relations(
            self._store, self._registry, self._processor, self._readings, self._streams
        )
        self._pushed: Pushed | None = self._processor.pushed  # None: a commit is under way

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; the engine cannot be used any more."""
        with self._lock:
            self._workers.close()
            if self._pages is not None:
                self._pages.close()
                self._pages = None
            self._store.close()
            self._unsettle()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make a change whole: if it fails, the store and what is in memory are as before."""
        with self._lock:
            self._store.expect_open()
            try:
                with self._store.transaction():
                    yield
                    self._pushed = None
                self._pushed = self._processor.pushed
            except BaseException as error:
                self._recover(error)
                raise

    def _recover(self, error: BaseException) -> None:
        """Make what is in memory as the store is again; an engine that cannot is closed."""
        self._unsettle()
        self._workers.close()
        try:
            self._load()
            self._settle()
        except Exception as again:
            self._store.close()
            raise StoreError(
                f"the engine is closed: after a failure its state could not be read again: {again}",
                hint="is the disk full or failing? mend that and start again, or report this",
            ) from error

    @property
    def retention(self) -> Retention | None:
        """How long things are kept that no query needs; None: as `Retention()`, nobody said."""
        return self._forgetting.told

    def retain(self, retention: Retention) -> None:
        """Say how long to keep what no query needs any more: texts, matches, identities.

        The store remembers it.  It changes no match: only what can be read again, tried or asked
        about later.
        """
        with self._lock:
            if retention != self.retention:
                with self._changing():
                    self._forgetting.retain(retention)

    # -- Streams and subscriptions ---------------------------------------------------------

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
        """
        with self._lock:
            declared = self._streams.checked(name, lateness, live, attributes)
            with self._changing():
                self._streams.declare(declared)

    def raise_lateness(self, needed: Mapping[str, int]) -> list[str]:
        """Make streams as late as needed (in ticks) at least; return those that cannot be.

        The lateness of a stream that is subscribed to is fixed.  This is one transaction for any
        number of streams.
        """
        with self._lock:
            raised, fixed = self._streams.too_short(needed)
            if raised:
                with self._changing():
                    self._streams.make_late(raised)
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
        of documents too.  `language` is `xscl` or `cel`; CEL reads streams
        whose attributes are known (see `stream`).  Raises QueryError, and
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
            trial = Trial(name, query.source, query.streams, updates, first=first)
            until = None if seconds is None else time.monotonic() + seconds
            found = self._tried(trial, until)
            with self._changing():
                self._registration.register([(name, query)], updates, first)
                self._prime(self._subscriptions[name], trial, found)

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
            with self._changing():
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
                with self._changing():
                    self._registration.register(together, updates, self._documents.next)
            for place in alone:
                try:
                    self._subscribe([pairs[place]], updates)
                except XsclError as error:
                    answers[place] = error
            self._settle()
        return answers

    def _unsettle(self) -> None:
        if self._settled:
            self._settled = 0
            unsettle()

    def _settle(self) -> None:
        if len(self._subscriptions) >= self._settled + SETTLED:
            self._settled = len(self._subscriptions)
            settle()

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

    # -- Documents -------------------------------------------------------------------------

    def push(
        self,
        documents: Iterable[Document] | Document,
        *,
        strict: bool = False,
        source: Batch | tuple[str, int] | None = None,
        parts: Sequence[Part | None] = (),
        poison: Collection[int] = (),
    ) -> Matches:
        """Take a batch of documents in and return the matches that it completes, committed.

        A document that cannot be parsed is recorded in `rejected` (with
        `strict` it raises, and nothing of the batch is taken).  `source` is
        the (query id, batch id) of a consumer: a batch that was seen before
        changes nothing.  `parts` are the witnesses of documents that were
        shredded elsewhere, with patterns that `publish_patterns` left there.  The documents at
        the places in `poison` are not read, but recorded as rejected.
        """
        documents = (documents,) if isinstance(documents, Document) else tuple(documents)
        poisoned = [documents[at] for at in sorted(poison)]
        if poison:
            parts = [part for at, part in enumerate(parts) if at not in poison]
            documents = tuple(one for at, one in enumerate(documents) if at not in poison)
        if strict:
            check(documents)
        laps = Laps(self.pace)
        with self._changing(), paused():
            laps.end("wait")
            self._laps = laps
            if source is not None and not self._ledger.enter(Batch(*source)):
                return self._expand(_RESULTS.empty_table())
            self._documents.refuse_poison(poisoned)
            if not parts:
                network = self._network
                parts = self._workers.parts(network.automaton, network.changes, documents)
            accepted = self._take([(document, None) for document in documents], strict, parts)
            self._network.pass_by([one.arrival for one in accepted])
            self._network.run()
            reached("joined")
            laps.end("join")
            matches = self._finish()
            laps.end("store")
        laps.end("commit")
        self.pace.count(len(accepted), self._results)
        return matches

    def _take(
        self,
        documents: Sequence[tuple[Document, Origin | None]],
        strict: bool = False,
        parts: Sequence[Part | None] = (),
    ) -> list[Accepted]:
        """Take documents in, and have everything run that does not wait for time to pass."""
        accepted = self._documents.accept(documents, strict=strict, parts=parts)
        reached("accepted")
        self._laps.end("accept")
        self._accepted.extend(accepted)
        self._network.take(accepted)
        self._network.run()
        return accepted

    def _finish(self) -> Matches:
        """Store what a push has brought, forget what is needed no more, and return the matches."""
        before = self._position
        results = self._numbered(self._network.results())
        self._results = self._receivers(results)
        self._store.insert("state.result", results)
        touched = self._network.touched() | self._composites.save()
        self._forgetting.keep(self._accepted, touched)
        self._accepted.clear()
        self._store_late()
        self._pushes += 1
        waits = self._network.ordered and not self._pushes % FORGOTTEN_AFTER
        freed = self._processor.evict(self._documents.clock) or waits
        self._forgetting.forget(before, freed=freed)
        if self._network.take_changed():
            self._registration.save_network()
        self._documents.finish()
        self._store.set_progress(
            position=self._position,
            told=self._told,
            clock=self._documents.clock,
            next_doc=self._documents.next,
            segment=self._ledger.segment,
            **self._forgetting.numbers(),
        )
        reached("stored")
        return self._expand(results)

    def _receivers(self, results: pa.Table) -> int:
        """Return how many matches results are, one for each subscription of a result's join."""
        by_qid = self._subscriptions.by_qid
        counts = pc.value_counts(results["qid"]).to_pylist()
        return sum(one["counts"] * len(by_qid.get(one["values"], ())) for one in counts)

    def _numbered(self, found: pa.Table) -> pa.Table:
        """Return results, each with its position."""
        first, self._position = self._position + 1, self._position + found.num_rows
        positions = np.arange(first, first + found.num_rows, dtype=np.int64)
        return found.add_column(0, "position", pa.array(positions))

    def _store_late(self) -> None:
        if late := self._network.take_late():
            docs, watermarks, lateness = zip(*late, strict=True)
            missed = pa.nulls(len(late), pa.string())
            rows = pa.table([docs, missed, watermarks, lateness], names=list(_LATE))
            self._store.insert("state.late", rows)

    def _publish(self, found: Sequence[Published]) -> None:
        """Take the output documents of matches in: what their subscriptions publish."""
        sources = {doc for _, composites in found for one in composites for doc in one.sources}
        stored = self._documents.stored(sources)
        accepted = self._documents.accept(
            [
                (output_of(subscription, group, stored, self._reader), _place(group[0]))
                for subscription, composites in found
                for group in groups_of(subscription, composites)
            ]
        )
        self._accepted.extend(accepted)
        self._network.take(accepted)

    def untold(self) -> Matches:
        """Return the matches that were committed after the last call of `tell`, and of this.

        A process may be killed between the commit of matches and their delivery.  Who asks for the
        first time has no such matches.
        """
        with self._lock:
            if self._told < 0:
                self.tell(durable=True)
            return self._all(self._told + 1)

    def tell(self, *, durable: bool = False) -> None:
        """Note that all matches so far were handed on; durable at once or with the next push."""
        with self._lock:
            self._told = self._position
            if durable and self._told != self._store.progress("told"):
                with self._changing():
                    self._store.set_progress(told=self._position)

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch that was consumed under a query id."""
        with self._lock:
            self._store.expect_open()
            return self._ledger.last(query_id)

    @property
    def segment(self) -> int:
        """The segment up to which the spool was consumed."""
        return self._ledger.segment

    def publish_patterns(self, artefacts: Artefacts) -> None:
        """Leave the patterns of today for processes that shred documents elsewhere."""
        with self._lock:
            artefacts.publish(self._network.automaton)

    def flush(self) -> Matches:
        """End the input: return the matches that waited for time to pass.

        All epochs are closed and all deadlines are over; `push` may follow, but
        what is older is late then.
        """
        with self._changing():
            self._network.drain()
            return self._finish()

    def advance(self, to: int) -> Matches:
        """Set the clock, in ticks: nothing earlier is waited for; return what that completes."""
        with self._changing():
            self._documents.clock = max(self._documents.clock, to)
            self._network.advance(to)
            self._network.run()
            return self._finish()

    # -- Reading ---------------------------------------------------------------------------

    def matches(self, after: Match | int | None = None) -> Sequence[Match]:
        """Return the kept matches again: all, those after a match, or after a position.

        What comes after one that is no longer kept begins with the oldest that is.
        """
        first = after.position if isinstance(after, Match) else (after or 0) + 1
        with self._lock:
            found = self._all(first)
            if not isinstance(after, Match):
                return found
            # a result is the match of all who share it, so the one given may not be its last
            passed = [m.id for m in found[: found.count_first()] if m.position == first]
            return found[passed.index(after.id) + 1 if after.id in passed else len(passed) :]

    def pages(self) -> Pages:
        """Return what reads kept matches page by page: on its own connection, without the lock.

        It ends with the engine.
        """
        with self._lock:
            if self._pages is None:
                self._pages = Pages(
                    self._store.beside(), lambda: self._subscriptions, self._compile
                )
            return self._pages

    def matches_of(
        self,
        name: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of one subscription's kept matches, between two positions."""
        pages = self._pages or self.pages()
        return pages.of(name, after=after, before=before, limit=limit, newest_first=newest_first)

    def _all(self, first: int = 1) -> Matches:
        return self._expand(
            self._store.arrow(
                f"SELECT * FROM state.result WHERE position >= {int(first)} ORDER BY position"
            )
        )

    def sql(self, query: str) -> pa.Table:
        """Return the answer of one SELECT over the relations, as an Arrow table."""
        with self._lock:
            self._store.expect_open()
            _refuse_all_but_select(query)
            with self._store.telling():
                self._relations.refresh()
            try:
                with self._store.reading():
                    return self._store.answer(query)
            except duckdb.Error as error:
                raise SqlError(str(error)) from None

    def store(self) -> Store:
        """Return the engine's store on a connection of its own, for tables beside the engine's.

        Close it before the engine.
        """
        with self._lock:
            return self._store.beside()

    def state_by_window(self, store: Store) -> list[tuple[int | None, int]]:
        """Return how many witnesses are kept how long, in ticks; None: for ever.

        `store` is a connection of its own (see `store`).
        """
        keeps, counted = self._registry.keeps, Counter[int]()
        rows = store.fetch("SELECT pair, count(*) FROM state.binding GROUP BY pair")
        for pair, count in rows:
            if pair < len(keeps):
                counted[int(keeps[pair])] += count
        kept = sorted((keep, count) for keep, count in counted.items() if keep >= 0)
        return [(None if keep >= INFINITE else keep, count) for keep, count in kept]

    @property
    def pushed(self) -> Pushed | None:
        """What the last push brought: the same object as long as nothing was committed."""
        return self._pushed

    @contextmanager
    def look(self, store: Store) -> Iterator[Look]:
        """Yield all there is to be seen between two pushes; others may go on pushing.

        `store` is a connection of its own (see `store`), on which a transaction is open for as
        long as the block runs.
        """
        patience = PATIENCE
        while True:
            locked = self._lock.acquire(timeout=patience)
            try:
                if locked:
                    self._store.expect_open()
                before = self._pushed
                with store.reading():
                    store.progress("position")  # from here on the transaction sees what it sees
                    look = self._seen(store, before, locked)
                    if locked:
                        self._lock.release()
                        locked = False
                    elif self._pushed is not before:
                        look = None
                    if look is not None:
                        yield look
                        return
            finally:
                if locked:
                    self._lock.release()
            patience = -1  # it is about to commit, or something is not at hand: wait

    def _seen(self, store: Store, pushed: Pushed | None, locked: bool) -> Look | None:
        """Return what is there; None if it cannot be told without the lock."""
        streams = self._streams.table() if locked else self._streams.at_hand
        if pushed is None or streams is None:
            return None
        with suppress(RuntimeError, KeyError):  # without the lock, something may have changed
            readings = self._readings.table()
            return Look(store, pushed, readings, streams, self._registry.rows(), self._qids)
        return None

    def _qids(self, names: Iterable[str]) -> set[int]:
        """Return the rows of R_T that subscriptions use, as far as they are still there."""
        found: set[int] = set()
        for name in names:
            with suppress(XsclError, KeyError):  # it was removed meanwhile
                found.update(self._network.qids(self._subscriptions[name]))
        return found

    def backup(self, path: str | Path) -> Backup:
        """Write everything that is kept to one file, and return what is in it.

        It is the state between two pushes; other threads may go on pushing.  Raises BackupError
        if the file cannot be written, or for an engine in memory.  `xscl.restore` puts it back.
        """
        with self._lock:
            store = self._store.beside()
        with closing(store):
            return back_up(store, Path(path))

    def document(self, name: str) -> bytes | None:
        """Return the text of a document by its id; None if it is not kept (any more)."""
        with self._lock:
            rows = self._store.fetch(
                "SELECT t.xml FROM state.document d JOIN state.text t USING (doc) WHERE d.id = ?",
                [name],
            )
            return bytes(rows[0][0]) if rows else None

    def try_query(
        self, query: str, since: str | int | None = None, seconds: float | None = None
    ) -> Sequence[Match]:
        """Return what a query would have matched on the kept documents; nothing is registered.

        `query` is its text or the name of a subscription; `since` says how far back from the
        clock to begin, as a duration (`"7 d"`) or in ticks.  Raises TooLong after some `seconds`.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            known = registered(self._store, self._subscriptions, query)
            compiled = self._compile(query if known is None else known.query)
            trial = Trial(
                TRIED if known is None else known.name,
                compiled.source,
                compiled.streams,
                known is not None and known.updates,
                begin=beginning(since, self._documents.clock),
            )
        return self._tried(trial, until)

    def end_questions(self) -> None:
        """Have trials, and questions that need some, end soon: they raise Stopping."""
        self._ending.set()

    def why(self, query: str, *documents: str, read: Read | None = None) -> Why:
        """Return whether a query (its text, or a subscription's name) matches documents, and why.

        `documents` are ids, one for each block, "-" for none; `read` gives texts that are not kept.
        """
        with self._lock:
            known = registered(self._store, self._subscriptions, query)
            compiled = self._compile(query if known is None else known.query)
            lateness = {stream: self._streams.lateness(stream) for stream in compiled.streams}
            question = asked(self._store, compiled, known, documents, lateness, self._tried, read)
        return why(question)

    def _tried(self, trial: Trial, until: float | None = None) -> Matches:
        """Return what a trial finds: the matches of an engine of its own, in memory."""
        twin = Engine(views=self._views)
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
                with twin._changing():
                    twin._take(batch)
                    twin._finish()
                size.learn(len(batch), time.monotonic() - began)
        twin.flush()
        return twin._all()

    def explain(
        self, query: str, *, sql: bool = False, seen: Callable[[str], bool] | None = None
    ) -> str:
        """Return how a subscription, or a query that is not registered, is evaluated.

        `seen` says which subscriptions, by name, whoever asks may know of; None: all.
        """
        with self._lock:
            return explain(
                *(self._store, self._registry, self._subscriptions, self._network, query),
                sql=sql,
                seen=seen,
            )

    def plan(self) -> PlanGraph:
        """Return the plan of all subscriptions as a graph to look at."""
        with self._lock:
            rows = self._store.fetch(
                "SELECT template, count(*) FROM state.subscription GROUP BY template"
            )
            return plan_graph(self._network.core.plan, self._registry, dict(rows))

    def _expand(self, rows: pa.Table) -> Matches:
        by_qid = self._subscriptions.by_qid
        qids = pc.unique(rows["qid"]).to_pylist()
        subscribers = {qid: by_qid[qid] for qid in qids if qid in by_qid}
        splits = {qid: sharers[0].split for qid, sharers in subscribers.items()}
        results = Results(rows, splits, self._composites.of, self._documents.stored)
        return Matches(results, subscribers, self._reader)


_LATE = ("doc", "missed", "watermark", "lateness")

_RESULTS = pa.schema(
    [
        ("position", pa.int64()),
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)


def _place(composite: Composite) -> Origin:
    """Return the place of what is published of a composite: right after it."""
    return Origin(composite.clock, composite.rank + 1, composite.first, composite.version)


def _refuse_all_but_select(query: str) -> None:
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise SqlError(str(error)) from None
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        raise SqlError("only one SELECT statement can be run here", hint="the tables are read-only")
