"""What an engine can be asked: matches, relations, the plan, and what would have matched."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb
import pyarrow as pa

from templates.processor import Pushed
from templates.relations import INFINITE
from xscl.backup import Backup, back_up
from xscl.errors import SqlError, XsclError
from xscl.explain import explain
from xscl.history import TRIED, Trial, beginning, registered
from xscl.look import Look
from xscl.match import Match
from xscl.matches import Matches
from xscl.pages import LIMIT, Page, Pages
from xscl.plangraph import PlanGraph, plan_graph
from xscl.retention import DAY
from xscl.store import Store
from xscl.subscribing import Subscribing
from xscl.why import Read, Why, asked, why

PATIENCE = 0.2
"""Seconds for which a look waits for a push to end, before it sees what was before that."""


class Reading(Subscribing):
    """An engine that answers."""

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
                self._pages = self.other_pages()
            return self._pages

    def other_pages(self) -> Pages:
        """Return a reader of kept matches on one more connection; close it before the engine."""
        with self._lock:
            return Pages(self._store.beside(), lambda: self._subscriptions, self._compile)

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

    def sql(self, query: str) -> pa.Table:
        """Return the answer of one SELECT over the relations, as an Arrow table."""
        with self._lock:
            self._store.expect_open()
            _refuse_all_but_select(query)
            with self._store.telling():
                self._relations.refresh()
            try:
                if not self._registry.waiting:
                    with self._store.reading():
                        return self._store.answer(query)
                with self._store.reading():
                    self._store.refuse_changes(query)
                with self._store.reading(self._registry.write):
                    return self._store.answer(query)
            except duckdb.Error as error:
                raise SqlError(str(error)) from None

    def store(self) -> Store:
        """Return the engine's store on a connection of its own, for tables beside the engine's.

        Close it before the engine.
        """
        with self._lock:
            return self._store.beside()

    def state_by_window(self, store: Store) -> list[tuple[int | None, int, int, int]]:
        """Return how much is kept how long, in ticks; None: for ever, or until it is matched.

        That are witnesses of joins, instances of operators over time, and how many of both have
        come in the last day by the clock.  `store` is a connection of its own (see `store`).
        """
        keeps, since = self._registry.keeps, self._documents.clock - DAY
        witnesses, lately = Counter[int](), Counter[int]()
        for pair, count, late in store.fetch(
            "SELECT pair, count(*), count(*) FILTER (ts > ?)"
            " FROM state.binding JOIN state.times USING (doc) GROUP BY pair",
            [since],
        ):
            if pair < len(keeps) and keeps[pair] >= 0:
                witnesses[min(int(keeps[pair]), INFINITE)] += count
                lately[min(int(keeps[pair]), INFINITE)] += late
        if self._lock.acquire(timeout=PATIENCE):
            try:
                found = [(_ticks(keep), time > since) for keep, time in self._network.instances()]
            finally:
                self._lock.release()
            self._instances = Counter(keep for keep, _ in found)
            self._instances_lately = Counter(keep for keep, is_new in found if is_new)
        instances = self._instances
        lately.update(self._instances_lately)
        return [
            (None if keep == INFINITE else keep, witnesses[keep], instances[keep], lately[keep])
            for keep in sorted({*witnesses, *instances})
        ]

    @property
    def kept_bytes(self) -> int:
        """How many bytes of the state that joins meet are in memory."""
        return self._processor.bytes_in_memory

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
            registry = self._registry
            rows = registry.rows()
            return Look(store, pushed, readings, streams, rows, registry.named, self._qids)
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
        self.save()
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
        found, _ = self._tried(trial, until)
        return found

    def why(self, query: str, *documents: str, read: Read | None = None) -> Why:
        """Return whether a query (its text, or a subscription's name) matches documents, and why.

        `documents` are ids, one for each block, "-" for none; `read` gives texts that are not kept.
        """
        with self._lock:
            known = registered(self._store, self._subscriptions, query)
            compiled = self._compile(query if known is None else known.query)
            lateness = {stream: self._streams.lateness(stream) for stream in compiled.streams}

            def tried(trial: Trial) -> Matches:
                return self._tried(trial)[0]

            question = asked(self._store, compiled, known, documents, lateness, tried, read)
        return why(question)

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
            graph = plan_graph(self._network.core.plan, self._registry, dict(rows))
            return self._flow.rated(graph, self._network.passed())


def _ticks(keep: int | None) -> int:
    return INFINITE if keep is None else keep


def _refuse_all_but_select(query: str) -> None:
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise SqlError(str(error)) from None
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        raise SqlError("only one SELECT statement can be run here", hint="the tables are read-only")
