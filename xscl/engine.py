"""The engine: subscriptions in, documents in, matches out.

`push` takes a batch through both stages within one transaction: accept,
shred, join, store the results, and do the same again for what subscriptions
publish.  The output does not depend on how the input is cut into batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from feeds.documents import Document
from templates.processor import Processor
from templates.registry import Registry
from xscl.compile import CompiledQuery, compile_query
from xscl.documents import Accepted, Documents, Origin
from xscl.errors import SqlError, StreamInUse, XsclError
from xscl.explain import explain
from xscl.language.parser import MAX_LATENESS, parse_block, parse_window
from xscl.match import Match, Matches, Reader, Results, Subscription
from xscl.relations import Relations
from xscl.store import Store
from xscl.subscriptions import Subscriptions
from xscl.xpath.nfa import Automaton
from xscl.xpath.shred import shred


class Engine:
    """A set of subscriptions over streams of documents.

    With a path everything is kept in that DuckDB file and the next engine
    continues exactly where this one stopped; without one it lives in memory.
    `views` chooses Algorithm 4 (materialised R_L and R_R) or Algorithm 1.
    """

    def __init__(self, path: str | Path | None = None, *, views: bool = True) -> None:
        self._store = Store(path)
        self._views = views
        self._lock = threading.RLock()
        self._compile = lru_cache(maxsize=10_000)(compile_query)
        self._load()

    def _load(self) -> None:
        """Rebuild everything in memory from the store."""
        self._registry = Registry(self._store.connection)
        self._processor = Processor(self._store.connection, self._registry, views=self._views)
        self._documents = Documents(self._store)
        self._subscriptions = Subscriptions(self._store, self._registry)
        self._reader = Reader(self._compile, self._documents.tree)
        self._position = self._store.meta("position")
        self._latenesses: dict[str, int] = dict(
            self._store.fetch("SELECT name, lateness FROM state.stream")
        )
        self._automaton = Automaton()
        self._read_pairs()
        self._relations = Relations(self._store, self._registry, self._processor)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; the engine cannot be used any more."""
        with self._lock:
            self._store.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Make a change whole: if it fails, the store and what is in memory are as before."""
        with self._lock:
            try:
                with self._store.transaction():
                    yield
            except BaseException:
                self._load()
                raise

    # -- Streams and subscriptions ---------------------------------------------------------

    def stream(self, name: str, *, lateness: str | int = 0, live: bool = False) -> None:
        """Set a stream's lateness: how far behind the latest document one may still come.

        `lateness` is a duration (`"1 h"`) or a number of ticks.  It has to be
        set before the stream is subscribed to.
        """
        ticks = lateness if isinstance(lateness, int) else parse_window(lateness)
        if not 0 <= ticks <= MAX_LATENESS:
            raise XsclError(
                f"the lateness {ticks} is out of range", hint="a duration such as 1 h, or ticks"
            )
        with self._changing():
            if ticks != self._lateness(name) and name in self._subscriptions.streams():
                raise StreamInUse(
                    f"the lateness of {name!r} cannot change while subscriptions read it",
                    hint="set it before the first subscription",
                )
            self._store.fetch(
                "INSERT INTO state.stream VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                " SET lateness = excluded.lateness, live = excluded.live",
                [name, ticks, live],
            )
            self._latenesses[name] = ticks

    def subscribe(self, name: str, query: str, *, updates: bool = False) -> None:
        """Register a query; it sees the documents that arrive from now on.

        With `updates` it sees new versions of documents too.  Raises
        QueryError, and NameTaken for a name that is in use.
        """
        self._subscribe([(name, query)], updates)

    def subscribe_many(self, pairs: Iterable[tuple[str, str]], *, updates: bool = False) -> None:
        """Register many queries, all or none; errors name the row that is wrong (from 1)."""
        self._subscribe(pairs, updates, numbered=True)

    def _subscribe(
        self, pairs: Iterable[tuple[str, str]], updates: bool, numbered: bool = False
    ) -> None:
        with self._lock:
            compiled = list(self._compiled(pairs, numbered))
            with self._changing():
                for name, query in compiled:
                    before = self._lateness_published(query)
                    lateness = max(self._lateness(stream) for stream in query.streams)
                    since = self._documents.next
                    self._subscriptions.add(
                        name, query, lateness=lateness, since=since, updates=updates
                    )
                    self._refuse_late_publisher(query, before)
                self._subscriptions.save()
                self._read_pairs()

    def _compiled(
        self, pairs: Iterable[tuple[str, str]], numbered: bool
    ) -> Iterator[tuple[str, CompiledQuery]]:
        """Yield names and compiled queries, and refuse what can be refused before any change."""
        names: set[str] = set()
        for row, (name, query) in enumerate(pairs, 1):
            try:
                self._subscriptions.refuse_taken(name, names)
                yield name, self._compile(query)
            except XsclError as error:
                if numbered:
                    error.add_note(f"in row {row}, subscription {name!r}")
                raise
            names.add(name)

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription, its matches, and the state that nothing else needs."""
        with self._changing():
            pairs = self._registry.row(self._subscriptions[name].qid).pairs
            dropped = self._subscriptions.remove(name)
            self._processor.forget_pairs([p for p in pairs if not self._registry.is_kept(p)])
            self._documents.forget_texts()
            for pair in dropped:
                self._automaton.remove(pair)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """All subscriptions, in the order of registration."""
        return tuple(self._subscriptions)

    def _read_pairs(self) -> None:
        """Ask stage 1 for the pairs that are new or have changed."""
        for pair in self._registry.take_changed():
            first, second = parse_block(pair.first), parse_block(pair.second)
            self._automaton.add(pair.number, first, second, pair.valued)

    def _lateness(self, stream: str) -> int:
        """Return a stream's lateness; a published one has the largest of its inputs."""
        inputs = [
            self._lateness(source)
            for publisher in self._subscriptions.publishers(stream)
            for source in publisher.reads
        ]
        return max([*inputs, self._latenesses.get(stream, 0)])

    def _lateness_published(self, query: CompiledQuery) -> int:
        """Return the lateness of the stream that a query publishes."""
        return 0 if query.normal.publish is None else self._lateness(query.normal.publish)

    def _refuse_late_publisher(self, query: CompiledQuery, before: int) -> None:
        """Raise if a new publisher makes a stream later than its readers have been told."""
        stream = query.normal.publish
        if stream is None:
            return
        if self._subscriptions.streams().get(stream) and self._lateness_published(query) > before:
            raise StreamInUse(
                f"publishing {stream!r} from later streams would change what its readers keep",
                hint="subscribe the publisher before its readers",
            )

    # -- Documents -------------------------------------------------------------------------

    def push(
        self,
        documents: Iterable[Document] | Document,
        *,
        strict: bool = False,
        source: tuple[str, int] | None = None,
    ) -> Matches:
        """Take a batch of documents in and return the matches that it completes, committed.

        A document that cannot be parsed is recorded in `rejected` (with
        `strict` it raises, and nothing of the batch is taken).  `source` is
        the (query id, batch id) of a consumer: a batch that was seen before
        changes nothing.
        """
        if isinstance(documents, Document):
            documents = (documents,)
        with self._changing():
            if source is not None and not self._record(source):
                return self._expand(_RESULTS.empty_table())
            arriving: list[tuple[Document, Origin | None]] = [(d, None) for d in documents]
            found: list[pa.Table] = []
            while arriving:
                results = self._join(self._documents.accept(arriving, strict=strict))
                found.append(results)
                arriving = self._published(results)
            if self._processor.evict(self._documents.clock):
                self._documents.forget_texts()
            self._store.set_meta(
                position=self._position,
                clock=self._documents.clock,
                next_doc=self._documents.next,
            )
            return self._expand(pa.concat_tables([_RESULTS.empty_table(), *found]))

    def _join(self, accepted: Sequence[Accepted]) -> pa.Table:
        """Take accepted documents through both stages, and store and return the results."""
        if not accepted:
            return _RESULTS.empty_table()
        witnesses = shred(self._automaton, (a.arrival for a in accepted))
        results = self._numbered(self._processor.join(witnesses))
        self._store.insert("state.result", results)
        passing = pa.array(self._registry.passing(), pa.int32())
        kept = pc.invert(pc.is_in(witnesses.bindings["pair"], passing))
        columns = (witnesses.bindings["doc"].filter(kept), results["doc1"], results["doc2"])
        self._documents.keep_texts(
            accepted, {doc for column in columns for doc in column.to_pylist()}
        )
        return results

    def _numbered(self, found: pa.Table) -> pa.Table:
        """Return results in the order of their documents, each with its position."""
        ordered = found.sort_by(
            [("doc2", "ascending"), ("doc1", "ascending"), ("qid", "ascending")]
        )
        first, self._position = self._position + 1, self._position + found.num_rows
        positions = np.arange(first, first + found.num_rows, dtype=np.int64)
        return ordered.add_column(0, "position", pa.array(positions))

    def _published(self, results: pa.Table) -> list[tuple[Document, Origin | None]]:
        """Return the output documents of subscriptions that publish."""
        if not self._subscriptions.publishes:
            return []
        return [
            (
                Document(match.publish, match.id, match.t1, match.xml(), match.history),
                Origin(*match.arrived, match.version),
            )
            for match in self._expand(results)
            if match.publish is not None
        ]

    def _record(self, source: tuple[str, int]) -> bool:
        """Enter a batch into the ledger; False if it is there."""
        if self._store.fetch(
            "SELECT 1 FROM state.ledger WHERE query_id = ? AND batch_id = ?", source
        ):
            return False
        self._store.fetch("INSERT INTO state.ledger VALUES (?, ?)", source)
        return True

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch that was consumed under a query id."""
        with self._lock:
            rows = self._store.fetch(
                "SELECT max(batch_id) FROM state.ledger WHERE query_id = ?", [query_id]
            )
        return None if rows[0][0] is None else int(rows[0][0])

    def flush(self) -> Matches:
        """End the input: return the matches that waited for time to pass.

        No operator waits yet: joins deliver at once.
        """
        return self._expand(_RESULTS.empty_table())

    # -- Reading ---------------------------------------------------------------------------

    def matches(self, after: Match | int | None = None) -> Sequence[Match]:
        """Return the kept matches again: all, those after a match, or after a position."""
        first = after.position if isinstance(after, Match) else (after or 0) + 1
        with self._lock:
            rows = self._store.arrow(
                f"SELECT * FROM state.result WHERE position >= {int(first)} ORDER BY position"
            )
            found = self._expand(rows)
            if not isinstance(after, Match):
                return found
            # a result is the match of all who share it, so the one given may not be its last
            passed = [match.id for match in found[: found.count_first()]]
            return found[passed.index(after.id) + 1 if after.id in passed else len(passed) :]

    def sql(self, query: str) -> pa.Table:
        """Return the answer of one SELECT over the relations, as an Arrow table."""
        with self._lock:
            _refuse_all_but_select(query)
            self._relations.refresh()
            try:
                with self._store.reading():
                    return self._store.arrow(query)
            except duckdb.Error as error:
                raise SqlError(str(error)) from None

    def store(self) -> Store:
        """Return the engine's store on a connection of its own, for tables beside the engine's.

        Close it before the engine.
        """
        with self._lock:
            return self._store.beside()

    def document(self, name: str) -> bytes | None:
        """Return the text of a document by its id; None if it is not kept (any more)."""
        with self._lock:
            rows = self._store.fetch(
                "SELECT t.xml FROM state.document d JOIN state.text t USING (doc) WHERE d.id = ?",
                [name],
            )
            return bytes(rows[0][0]) if rows else None

    def explain(self, query: str, *, sql: bool = False) -> str:
        """Return how a subscription, or a query that is not registered, is evaluated."""
        with self._lock:
            return explain(self._store, self._registry, self._subscriptions, query, sql=sql)

    def _expand(self, rows: pa.Table) -> Matches:
        by_qid = self._subscriptions.by_qid
        qids = pc.unique(rows["qid"]).to_pylist()
        subscribers = {qid: by_qid[qid] for qid in qids if qid in by_qid}
        return Matches(Results(rows, self._documents.stored), subscribers, self._reader)


_RESULTS = pa.schema(
    [
        ("position", pa.int64()),
        ("qid", pa.int32()),
        ("doc1", pa.int64()),
        ("doc2", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
    ]
)


def _refuse_all_but_select(query: str) -> None:
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise SqlError(str(error)) from None
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        raise SqlError("only one SELECT statement can be run here", hint="the tables are read-only")
