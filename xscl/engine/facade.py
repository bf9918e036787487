"""The engine: subscriptions in, documents in, matches out.

Engine          the library interface, and the parts that a service uses beside it
Transactions    store and state, changed together or not at all
EngineState     the state in memory, built from the store
Ingest          documents in, matches out
EngineCatalog   streams, subscriptions, retention
MatchLog        matches by position
EngineQueries   relations in SQL, trials, explanations, the plan
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import NoneType
from typing import Self, overload

import pyarrow as pa

from feeds.documents import Document, DocumentColumns
from templates.model.result_bound import RESULTS
from xscl.documents.consumed_offsets import BatchKey
from xscl.documents.document_validation import check_stream, out_of_range
from xscl.documents.results import XSCL, Subscription
from xscl.documents.retention import Retention
from xscl.engine.backup import Backup
from xscl.engine.catalog import EngineCatalog, RegistrationOptions
from xscl.engine.ingest import Ingest, PushResult
from xscl.engine.match_log import LIMIT, MatchLog, Page
from xscl.engine.queries import EngineQueries
from xscl.engine.state import EngineState, Settings
from xscl.engine.story_log import Story, StoryLog
from xscl.engine.transactions import Transactions
from xscl.inspection.reasons import Diagnosis, Why
from xscl.inspection.why import TextReader
from xscl.planning.event_queries import StreamAttributes, names_of
from xscl.planning.plan_graph import PlanGraph
from xscl.planning.truncations import Truncation
from xscl.store.store import Store
from xscl.subscriptions.match import Match, html_table
from xscl.subscriptions.matches import Matches, MatchSequence
from xscl.time_format import LATEST

__all__ = ["Engine"]


class Engine:
    """A set of subscriptions over streams of documents (Hong 2009, chapter 6).

    With a path all state is in that file, a database of SQLite, and the next engine continues
    exactly where this one stopped; without one it is in memory.  Times and durations are integers,
    *ticks*, of microseconds where dates are meant.  Any thread may call any method; one that
    changes something waits for the one before it.  All methods raise StoreError if the store cannot
    be read or written, and after `close`.

    The parts `transactions`, `catalog`, `ingest`, `log` and `queries` are for the service; they may
    change between releases.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        retention: Retention | None = None,
        kept_memory: int | None = None,
        result_bound: int = RESULTS,
        owns_process: bool = False,
    ) -> None:
        """Open the engine of a file, or a new one.

        `retention` bounds the age of data that no query needs (see `retain`).  `kept_memory` bounds
        the join state in memory, in bytes (the rest is read from the store when it is met); None:
        a quarter of the machine's.  `result_bound` is the largest number of results of one
        arriving document with one join: if there are more, there is none.  It belongs to a store as
        its queries do, so open it with the same one.  `owns_process` says that the process runs for
        this engine: it may then control the garbage collector.

        Raises StoreInUse if another process has the file open, and another StoreError if it is
        damaged, of another version, or older than its mark.
        """
        self._path = path or "in memory"
        self.transactions = Transactions(path, Settings(kept_memory, result_bound, owns_process))
        with ExitStack() as opened:
            opened.callback(self.transactions.close)
            self.log = MatchLog(self.transactions)
            opened.callback(self.log.close)
            self.ingest = Ingest(self.transactions, self.log)
            self.catalog = EngineCatalog(self.transactions)
            self.queries = EngineQueries(self.transactions, self.log)
            self.catalog.drop_unacknowledged()
            if retention is not None:
                self.retain(retention)
            opened.pop_all()

    def __repr__(self) -> str:
        count = len(self.subscriptions)
        return f"<xscl.Engine {self._path}: {count} subscription{'' if count == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """Return the subscriptions as a table, for notebooks."""
        found = self.subscriptions
        rows = ((one.name, one.language, one.query) for one in found)
        return html_table(("subscription", "language", "query"), rows, len(found))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; later calls raise StoreError."""
        with self.transactions.lock:
            try:
                self.log.close()
            finally:
                self.transactions.close()

    def connect(self) -> Store:
        """Return the store on a new connection, for tables that are not the engine's.

        Close it before the engine.
        """
        return self.transactions.connect()

    @property
    def state(self) -> EngineState:
        """The state in memory as of the last commit; after a failed transaction another object."""
        return self.transactions.state

    # -- Documents -------------------------------------------------------------------------

    def push(
        self,
        documents: Iterable[Document] | Document,
        *,
        strict: bool = False,
        source: BatchKey | tuple[str, int] | None = None,
        listen: Callable[[Matches], None] | None = None,
    ) -> PushResult:
        """Push documents, and return the matches that they complete with counts of documents.

        All is committed then.  A document that cannot be parsed is recorded in the relation
        `rejected`.  `source` is the (query id, batch id) of a consumer such as a query of Spark: a
        batch that was pushed before changes nothing.

        It is one transaction, unless documents have very many results: then it is split between
        documents (docs/decisions/bounds.md), and the batch counts as pushed with the last one.
        When a batch that was broken off comes again, its documents that are there are unchanged.
        `listen` is called with the matches of each transaction, without the lock; the result has
        none then, so that those of a large batch are never in memory together.

        Raises MalformedDocument or DocumentError for the first document that cannot be taken if
        `strict`; then none is taken.  Raises DocumentError for a stream that no query can name, and
        TypeError for what is no Document.
        """
        documents = _checked(documents)
        return self.ingest.push(documents, strict=strict, source=source, listen=listen)

    def consumed(self, query_id: str) -> int | None:
        """Return the batch id of the last push whose `source` had a query id; None without one."""
        return self.ingest.consumed(query_id)

    def flush(self) -> Matches:
        """End the input, and return the matches that waited for time to pass.

        All epochs are closed and all deadlines have passed; `push` may follow, but older documents
        are late then.
        """
        return self.ingest.flush()

    def advance(self, to: int) -> Matches:
        """Advance the clock to a time, in ticks; return the matches that this completes.

        The clock does not go back.  Raises DocumentError for a time beyond the year 9999.
        """
        _expect("a time", to, int)
        if abs(to) > LATEST:
            raise out_of_range(to)
        return self.ingest.advance(to)

    def document(self, name: str) -> bytes | None:
        """Return the text of a document; None if it is not kept (any more).

        `name` is the document's name, such as `orders/17`, or an id that no other document has.
        Raises DocumentError for an id of several documents.
        """
        return self.queries.document(name)

    @property
    def retention(self) -> Retention | None:
        """The retention that was set; None if none was, which has the effect of `Retention()`."""
        return self.state.eviction.told

    def retain(self, retention: Retention) -> None:
        """Set the retention of data that no query needs any more: texts, matches, identities.

        It is stored.  It changes no match, only what can be read, tried or explained later.
        """
        _expect("a retention", retention, Retention)
        self.catalog.retain(retention)

    # -- Streams ---------------------------------------------------------------------------

    def stream(
        self,
        name: str,
        *,
        lateness: str | int = 0,
        live: bool = False,
        attributes: StreamAttributes | None = None,
    ) -> None:
        """Set a stream's lateness: how far behind the latest document one may still come.

        `lateness` is a duration (`"1 h"`) or a number of ticks.  `attributes` are the leaves of
        its documents that relational queries read, with their types: `{"title": str, "price":
        float}`.

        Documents of a `live` stream arrive as they happen, within the lateness.  For queries over
        live streams only, a service advances the clock by the wall clock, so that deadlines pass
        without documents.  On all other streams only documents advance the clock, so old records
        can be replayed.  The clock is one for all streams.

        Raises StreamInUse or XsclError for another lateness or other attributes of a stream that
        is subscribed to, QueryError for an invalid duration, DocumentError for an invalid name.
        """
        _expect("the name of a stream", name, str)
        _expect("a lateness", lateness, str, int)
        _expect("attributes", attributes, Mapping, NoneType)
        check_stream(name)
        self.catalog.declare(name, lateness=lateness, live=live, attributes=attributes)

    def lateness(self, stream: str) -> int:
        """Return a stream's lateness in ticks, 0 if it was not declared."""
        return self.state.streams.lateness(stream)

    def is_live(self, stream: str) -> bool:
        """Return True if the documents of a stream arrive as they happen (see `stream`)."""
        return self.state.streams.is_live(stream)

    def attributes(self, stream: str) -> dict[str, str] | None:
        """Return the declared attributes of a stream, each with the name of its type, by name.

        None if no attributes were declared.
        """
        return names_of(self.state.streams.declared(stream))

    # -- Subscriptions ---------------------------------------------------------------------

    def subscribe(
        self,
        name: str,
        query: str,
        *,
        updates: bool = False,
        stories: bool = False,
        language: str = XSCL,
        since: str | int | None = None,
        history: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Register a query; it sees the documents that arrive from now on.

        With a `history` it begins with what is kept: it has the newest 1,000 matches of the last
        30 days, marked as `backfilled`, and joins later documents with kept ones.  `since` begins
        so far back from the clock (`"7 d"`, or ticks) instead, with all matches.
        With `updates` it sees new versions of documents too.  With `stories` its matches that share
        a document are one story (see `stories`).  `language` is `xscl`, or one of
        events: `cel`, `sase`, `eql`, which read streams whose attributes are known (see `stream`).

        Raises QueryError for a query that cannot be parsed or planned, NameTaken for a name in
        use, TooLong if the matches of the past take more than `seconds`: then it is not registered.
        Other threads push meanwhile; what they push is joined like what they push afterwards.
        """
        _expect("the name of a subscription", name, str)
        _expect("a query", query, str)
        _expect("since", since, str, int, NoneType)
        _expect("history", history, bool)
        wanted = RegistrationOptions(updates, stories, language, since, history)
        self.catalog.subscribe([(name, query)], wanted, seconds=seconds)

    def subscribe_many(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        updates: bool = False,
        stories: bool = False,
        history: bool = False,
    ) -> None:
        """Register queries in XSCL, given as (name, query), all or none.

        The options are those of `subscribe`.  Raises the error of the first query that is wrong,
        with its `row` (from 1).
        """
        _expect("history", history, bool)
        wanted = RegistrationOptions(updates, stories, history=history)
        self.catalog.subscribe(_checked_pairs(pairs), wanted, numbered=True)

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
        """Change a subscription, all or nothing, and return it; an option that is None stays.

        Another query is its next version.  It sees the documents that arrive from now on; if only
        SELECT changes, the state stays, and it joins them with earlier ones.  The matches of
        earlier versions stay (`Match.version`).  With `stories` they are all grouped into stories;
        False ends that.  `rename` is another name for the subscription and all its matches, whose
        ids stay.  While it is `paused`, it has no matches and publishes nothing; its state
        continues, so that documents of that time are joined with those that arrive afterwards.

        Raises what `subscribe` raises, UnknownSubscription, and StreamInUse if others read what
        only the current query publishes.
        """
        _expect("the name of a subscription", name, str)
        if query is not None:
            _expect("a query", query, str)
        return self.catalog.edit(
            name,
            query,
            updates=updates,
            stories=stories,
            language=language,
            rename=rename,
            paused=paused,
        )

    def unsubscribe(
        self, name: str, *, cascade: bool = False, purge: bool = False
    ) -> tuple[str, ...]:
        """Remove a subscription, and the state that no other needs.

        Its matches stay, under its name, as long as the retention allows; with `purge` they are
        deleted, also those of a subscription that was removed before.  Returns the names of what
        was removed: with `cascade` also of subscriptions that read what only it publishes.  Raises
        UnknownSubscription, and StreamInUse if there are such without `cascade`.
        """
        _expect("the name of a subscription", name, str)
        return self.catalog.unsubscribe(name, cascade=cascade, purge=purge)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All subscriptions, in the order of registration."""
        return tuple(self.state.subscriptions)

    def subscription(self, name: str) -> Subscription | None:
        """Return the subscription of a name, None if there is none; does not wait for a push."""
        return self.state.subscriptions.get(name)

    def refused(self, name: str) -> str | None:
        """Return why this release refuses the stored query of a subscription; None if it does not.

        A subscription that an earlier release took has then no results.  It can be edited,
        exported and removed.
        """
        error = self.state.subscriptions.refusal(self.state.subscriptions[name])
        return None if error is None else str(error)

    def stopped(self, name: str) -> Truncation | None:
        """Return the number and the last of the recent documents that had too many results.

        They had more results of the subscription's joins than the bound, and so no matches
        (docs/decisions/bounds.md).  None without such documents, or for an unknown name.  Does not
        wait for a push.
        """
        state = self.state
        found = state.subscriptions.get(name)
        return None if found is None else state.dataflow.subscribed.stopped(found)

    # -- Matches ---------------------------------------------------------------------------

    def matches(
        self, name: str | Match | int | None = None, *, after: Match | int | None = None
    ) -> MatchSequence:
        """Return kept matches in their order: all, or those of the subscription `name`.

        With `after`, a match or a position, only those that follow it; without a name it may be the
        first argument.  After a match that is not kept any more, they begin with the oldest kept
        one.  Raises UnknownSubscription.
        """
        _expect("a subscription or a place", name, str, Match, int, NoneType)
        _expect("after", after, Match, int, NoneType)
        if not isinstance(name, str):
            return self.log.after(name if after is None else after)
        start = after.position if isinstance(after, Match) else after or 0
        return self.log.of(name, start)

    def matches_of(
        self,
        name: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = LIMIT,
        newest_first: bool = False,
    ) -> Page:
        """Return a page of at most `limit` kept matches of a subscription.

        Their positions are above `after` and below `before`.  Raises UnknownSubscription.
        """
        return self.log.page(
            name, after=after, before=before, limit=limit, newest_first=newest_first
        )

    def stories(
        self, name: str, *, before: int | None = None, limit: int = LIMIT, merged: bool = False
    ) -> list[Story]:
        """Return the stories of a subscription that has them, the one that grew last first.

        A story is a connected component of its kept matches: two that share a document are of one
        story.  It is called after the document that founded it.  Of stories that a later match
        joins the one that was founded first keeps its id, and takes over the others; these are
        returned with `merged` only.  At most `limit` stories are returned: the newest, or with the
        position `before` those whose `last` is smaller.  Raises UnknownSubscription.
        """
        _expect("the name of a subscription", name, str)
        return StoryLog(self.log).newest(name, before=before, limit=limit, merged=merged)

    # -- Questions -------------------------------------------------------------------------

    def sql(self, query: str) -> pa.Table:
        """Return the answer of one SELECT over the relations of the paper (section 6.4).

        Raises SqlError for anything but one valid SELECT.
        """
        _expect("a query", query, str)
        return self.queries.sql(query)

    def try_query(
        self, query: str, since: str | int | None = None, seconds: float | None = None
    ) -> Sequence[Match]:
        """Evaluate a query on the kept documents without registering it; return its matches.

        `query` is its text or the name of a subscription; `since` says how far back from the
        clock to begin, as a duration (`"7 d"`) or in ticks.  Raises QueryError,
        UnknownSubscription, and TooLong after some `seconds`.
        """
        _expect("a query", query, str)
        _expect("since", since, str, int, NoneType)
        return self.queries.trial(query, since, seconds).matches

    @overload
    def why(self, query: str, *, since: str | int | None = None) -> Diagnosis: ...

    @overload
    def why(
        self, query: str, document: str, /, *documents: str, read: TextReader | None = None
    ) -> Why: ...

    def why(
        self,
        query: str,
        *documents: str,
        read: TextReader | None = None,
        since: str | int | None = None,
    ) -> Why | Diagnosis:
        """Explain why a query (its text, or a subscription's name) matches documents, or why not.

        `documents` are names or ids, one for each block, "-" for none; an id means that on the
        stream of the block if several have it.  `read` gives texts that are not kept, by name.
        Without documents the answer is a `Diagnosis` of a query that has no match so far: it
        counts the documents that match each block, names what none of them has, and explains the
        documents that come closest to a match.  The newest kept documents are examined, from
        `since` on, for about two seconds of CPU.

        Raises QueryError, UnknownSubscription, DocumentError for a document that is not known or
        whose text is not kept, XsclError for a wrong number of documents, and TooLong for documents
        with too many choices of nodes.
        """
        for one in (query, *documents):
            _expect("a query or a document's id", one, str)
        _expect("since", since, str, int, NoneType)
        if documents:
            return self.queries.why(query, *documents, read=read)
        return self.queries.diagnose(query, since)

    def explain(
        self, query: str, *, sql: bool = False, seen: Callable[[str], bool] | None = None
    ) -> str:
        """Explain the evaluation of a subscription, or of the text of a query.

        With `sql` it is the conjunctive query of each join (section 6.4.4).  `seen` decides which
        subscriptions, by name, may be mentioned; None: all.  Raises QueryError and
        UnknownSubscription.
        """
        _expect("a query", query, str)
        return self.queries.explain(query, sql=sql, seen=seen)

    def plan(self) -> PlanGraph:
        """Return the plan of all subscriptions as a graph.

        Nodes have the number of rows since the start, and those a second in the last minute.
        """
        return self.queries.plan()

    def backup(self, path: str | Path) -> Backup:
        """Write a backup of all state to one file, and return its description.

        It is the state between two pushes; other threads may continue to push.  `xscl restore`
        restores it.  Raises BackupError if the file cannot be written, or for an engine in memory.
        """
        return self.queries.backup(Path(path))


def _checked(documents: object) -> Sequence[Document]:
    """Return the argument of `Engine.push` as a sequence of documents.

    Raises TypeError for anything else, DocumentError for the name of a stream that is invalid.
    """
    if isinstance(documents, Document):
        documents = (documents,)
    if isinstance(documents, DocumentColumns):
        return documents
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        given = type(documents).__name__
        raise TypeError(f"push takes Documents, not {given}: Document(stream, id, timestamp, xml)")
    checked = tuple(documents)
    for number, one in enumerate(checked):
        if not isinstance(one, Document):
            raise TypeError(f"push takes Documents, not {type(one).__name__} (element {number})")
        for name in one.streams:
            check_stream(name)
    return checked


def _expect(what: str, value: object, *kinds: type) -> None:
    """Raise TypeError unless a value has one of some types; `what` names it in the message."""
    if not isinstance(value, kinds):
        names = " or ".join("None" if kind is NoneType else kind.__name__ for kind in kinds)
        raise TypeError(f"{what} is {names}, not {type(value).__name__}")


def _checked_pairs(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield each (name, query); raises TypeError for one that is not two texts."""
    for number, pair in enumerate(pairs, 1):
        match pair:
            case (str(), str()):
                yield pair
            case _:
                raise TypeError(f"row {number} is (name, query), two texts, not {pair!r:.100}")
