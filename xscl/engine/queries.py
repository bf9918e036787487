"""Queries of an engine: relations in SQL, documents, trials, explanations, the plan, backups."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from templates.model.conjunctive_query import BACKWARD, FORWARD
from templates.model.join_graph import INFINITE, JoinGraph
from templates.processor import Pushed
from templates.registry import NumberedVariable
from templates.template import JoinRow
from xscl.documents.document_ids import UNKNOWN, find_document
from xscl.documents.results import Subscription
from xscl.documents.retention import DAY
from xscl.engine.backup import Backup, back_up
from xscl.engine.match_log import MatchLog
from xscl.engine.state import EngineState
from xscl.engine.transactions import Transactions
from xscl.engine.twin import TrialResult, run_trial
from xscl.errors import DocumentError, SqlError, XsclError
from xscl.inspection.diagnosis import TRIAL_SECONDS, diagnose
from xscl.inspection.explain import (
    PlanUsers,
    absence_warning,
    explain,
    plan_users,
    silent_streams,
    unmet,
)
from xscl.inspection.reasons import Diagnosis, Why
from xscl.inspection.rebuilt_relations import (
    VALUED,
    documents_seen,
    may_read_joins,
    may_read_values,
    rebuilt,
)
from xscl.inspection.replay import TRIED, TrialScope, beginning, registered, subscription_named
from xscl.inspection.vocabulary import QueryNames, QueryWarning, Vocabularies, Vocabulary
from xscl.inspection.why import TextReader, Visible, WhyQuestion, question_of, why
from xscl.language.names import EVERYTHING
from xscl.planning.compile import CompiledQuery, compile_query
from xscl.planning.operators.events import instances
from xscl.planning.plan_graph import CostShares, PlanGraph, PlanNode, plan_graph
from xscl.shredding.conditions.unevaluated import Tally
from xscl.store.queries import relations
from xscl.store.queries.documents import document_named, documents_by_stream, text_named
from xscl.store.queries.witnesses import witnesses_by_pair
from xscl.store.store import Store
from xscl.subscriptions.matches import VALUES, values_table

# -- A consistent read, concurrent with pushes -------------------------------------------------

# The store is read in a transaction of its own, which sees whole commits only.  The state in memory
# (the relations of the last push, the readers of streams) must be of the same commit.  If the
# engine's lock is free, it is held until the transaction has its snapshot.  A push may hold it for
# seconds; then the read is optimistic: `EngineState.pushed` is another object after each commit,
# and None while one is under way.  If it is the same before and after BEGIN, the database snapshot
# and the relations in memory belong to one commit.

PATIENCE = 0.2
"""Seconds for which a read waits for a push to end, before it reads what was before that."""


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A store within a transaction, and the state in memory of the same commit.

    `pushed` is the outcome of stage 2 at that commit.  `readings` is `LatenessBounds.table`,
    `streams` is `StreamDefinitions.table`, `rows` are the rows of R_T by qid.  `named` returns
    (number, variable, variable below it) for numbers of pairs of variables, also of pairs not
    stored yet.  `qids` returns the rows of R_T of the subscriptions with some names.
    `documents_seen` returns by qid the number of the first document that a subscription of the row
    sees.  `most` is the bound of results.
    """

    store: Store
    pushed: Pushed
    readings: pa.Table
    streams: pa.Table
    rows: Mapping[int, JoinRow]
    named: Callable[[Iterable[int]], Sequence[tuple[int, NumberedVariable, NumberedVariable]]]
    qids: Callable[[Iterable[str]], set[int]]
    documents_seen: Callable[[], Mapping[int, int]]
    most: int


@contextmanager
def read_snapshot(transactions: Transactions, store: Store) -> Iterator[ReadSnapshot]:
    """Yield a snapshot of an engine for reading; other threads may push while the block runs.

    `store` is a connection that no other thread uses (`Transactions.connect`): a transaction is
    open on it while the block runs.
    """
    patience = PATIENCE
    while True:
        locked = transactions.lock.acquire(timeout=patience)
        try:
            if locked:
                transactions.expect_current()
            before = transactions.state.pushed
            with store.reading():
                store.progress("position")  # the first read gives the transaction its snapshot
                found = _snapshot(transactions, store, before, locked)
                if locked:
                    transactions.lock.release()
                    locked = False
                elif transactions.state.pushed is not before:
                    found = None
                if found is not None:
                    yield found
                    return
        finally:
            if locked:
                transactions.lock.release()
        patience = -1  # the read without the lock has failed: wait for the lock


def _snapshot(
    transactions: Transactions, store: Store, pushed: Pushed | None, locked: bool
) -> ReadSnapshot | None:
    """Return the snapshot of the commit whose outcome is `pushed`.

    None if it cannot be read without the lock, since a commit is under way (`pushed` is None) or
    the table of streams is not cached.  `locked` says that the caller has the lock.
    """
    state = transactions.state
    streams = state.streams.table() if locked else state.streams.cached_table
    if pushed is None or streams is None:
        return None

    def qids(names: Iterable[str]) -> set[int]:
        found: set[int] = set()
        now = transactions.state
        for name in names:
            with suppress(XsclError, KeyError):  # the subscription was removed meanwhile
                found.update(now.dataflow.subscribed.qids(now.subscriptions[name]))
        return found

    # Without the lock, another thread may change a dictionary while it is read here.
    with suppress(RuntimeError, KeyError):
        registry, readings = state.registry, state.readings.table()
        return ReadSnapshot(
            store,
            pushed,
            readings,
            streams,
            registry.rows(),
            registry.pairs.named,
            qids,
            lambda: documents_seen(list(state.subscriptions), state.dataflow.subscribed.qids),
            state.processor.most,
        )
    return None


# -- Answers ---------------------------------------------------------------------------------


class EngineQueries:
    """Answers questions about one engine without changing it: SQL, trials, explanations, plan."""

    def __init__(self, transactions: Transactions, log: MatchLog) -> None:
        self._transactions = transactions
        self._log = log
        # numbers of instances of operators over time, by window in ticks, as last counted
        self._instances = Counter[int]()
        self._instances_lately = Counter[int]()  # those that were added in the last day
        self._vocabularies = Vocabularies()

    @property
    def _state(self) -> EngineState:
        return self._transactions.state

    def sql(self, query: str, document: str | None = None) -> pa.Table:
        """Return the answer of one SELECT over the relations (docs/reference/sql.md).

        `document` is the name of the only document whose witnesses the query reads; None: it may
        read those of all.  Witnesses for joins that executors evaluate are rebuilt for the answer.
        Raises SqlError.
        """
        values = self._values() if may_read_values(query) else None
        with self._transactions.lock:
            self._transactions.expect_current()
            _refuse_all_but_select(query)
            store = self._transactions.store
            number = None if document is None else document_named(store, document)["doc"]
            try:
                return self._answer(query, values, number)
            except duckdb.Error as error:
                raise relations.sql_error(str(error), self._graphs()) from None

    def _graphs(self) -> dict[int, JoinGraph]:
        return {number: one.template.graph for number, one in self._state.registry.members.items()}

    def _answer(self, query: str, values: pa.Table | None, document: int | None) -> pa.Table:
        """Return the answer of one SELECT.

        `values` are the rows of `match_values`, None if it reads none.  `document` is the number of
        the only document whose witnesses it reads; None: it may read those of all.
        """
        state = self._state
        joins = None
        if may_read_joins(query):
            joins = rebuilt(
                state.store,
                state.processor.pushed,
                lambda: documents_seen(state.subscriptions, state.dataflow.subscribed.qids),
                state.processor.most,
                docs=None if document is None else np.array([document]),
            )
        return relations.answer(
            state.store,
            query,
            lambda name: self.lent(name, values, None if joins is None else joins.pushed),
            self._graphs(),
            {} if joins is None else joins.state,
        )

    def lent(
        self, name: str, values: pa.Table | None = None, pushed: Pushed | None = None
    ) -> pa.Table:
        """Return the table in memory that the declarations of SQL's relations call `name`.

        `values` are the rows of `match_values`, None: it is empty.  `pushed` is the outcome of
        stage 2 in a push, by default in the last one.
        """
        state = self._state
        pushed = pushed or state.processor.pushed
        match name:
            case "match_values":
                return VALUES.empty_table() if values is None else values
            case "batch_binding":
                return pushed.bindings
            case "batch_times":
                return pushed.times
            case "reading":
                return state.readings.table()
            case "known_stream":
                return state.streams.table()
            case str() if name in (FORWARD, BACKWARD):
                return pushed.joins(name)
            case _:
                number = int(name.removeprefix("out_"))
                graph = state.registry.members[number].template.graph
                return pushed.out.get(number, relations.no_output(graph))

    def _values(self) -> pa.Table:
        """Return the values of the newest `VALUED` matches (`VALUES`), read without the lock."""
        with closing(self._log.again()) as log:
            page = log.page_of_all(lambda _: True, limit=VALUED, newest_first=True)
            return values_table(page.matches)

    def find_document(self, name: str) -> str:
        """Return the name of the document with a name, or with an id that no other document has.

        Raises DocumentError.
        """
        with self._transactions.lock:
            return find_document(self._transactions.store, name)

    def document(self, name: str) -> bytes | None:
        """Return the text of the document with a name or id; see `Engine.document`."""
        with self._transactions.lock:
            store = self._transactions.store
            try:
                found = find_document(store, name)
            except DocumentError as error:
                if error.reason_code != UNKNOWN:
                    raise
                return None
            return text_named(store, found)

    def backup(self, path: Path) -> Backup:
        """Write a backup of the store to a file, as of one commit; return its description."""
        with closing(self._transactions.connect()) as store:
            return back_up(store, path)

    # -- About queries ---------------------------------------------------------------------

    def trial(
        self,
        query: str,
        since: str | int | None = None,
        seconds: float | None = None,
        dropped: threading.Event | None = None,
    ) -> TrialResult:
        """Evaluate a query, a text or a subscription's name, on the kept documents.

        `since` is a duration (`"7 d"`) or ticks before the clock; None: all documents.  Raises
        TooLong after `seconds`, and when `dropped` is set, as nobody waits for the answer then.
        """
        until = None if seconds is None else time.monotonic() + seconds
        with self._transactions.lock:
            known, compiled = self._compiled(query)
            trial = TrialScope(
                TRIED if known is None else known.name,
                compiled.source,
                compiled.streams,
                known is not None and known.updates,
                begin=beginning(since, self._state.documents.clock),
            )
        return run_trial(self._transactions, trial, until, dropped)

    def tried(
        self, query: str, since: str | int | None = None, seconds: float | None = None
    ) -> tuple[TrialResult, Diagnosis | None]:
        """Return the trial of a query as `trial` does, and why it has no match; None if it has."""
        trial = self.trial(query, since, seconds)
        return trial, None if trial.matches else self.diagnose(query, since, tried=True)

    def why(
        self, query: str, *documents: str, read: TextReader | None = None, visible: Visible = str
    ) -> Why:
        """Explain why a query matches documents, or why not; see `Engine.why`.

        `read` returns, by name, the text of a document that is not kept.  `visible` returns the
        reader's name of a stream, None for a stream that he does not see.  If a version of the
        subscription has found the match, that version is explained.
        """
        with self._transactions.lock:
            questions = self._questions(query, documents, read, visible)
        return why(*questions)

    def _questions(
        self, query: str, documents: Sequence[str], read: TextReader | None, visible: Visible
    ) -> list[WhyQuestion]:
        """Return questions about documents for `why` of `xscl.inspection`, in the order of asking.

        One is asked if those before it have no answer.  The arguments are those of `why`.
        """
        known, compiled = self._compiled(query)
        store = self._transactions.store
        if known is None:
            return [question_of(store, self._question(None, compiled), documents, read, visible)]
        asked, failure = list[WhyQuestion](), list[XsclError]()
        versions = self._state.subscriptions.of_name(known.name)
        for one in reversed([version for version in versions if not version.relational]):
            asking = self._question(one, self._transactions.compiled(one.query))
            try:
                question = question_of(store, asking, documents, read, visible)
            except XsclError as error:
                failure.append(error)
                continue
            if question.found:
                return [question]
            asked.append(question)
        if not asked or asked[0].subscription is not known:
            raise failure[0]
        found = asked[0]
        return [found.in_own_time(), found] if found.counts_in_own_time else [found]

    def _question(
        self, known: Subscription | None, compiled: CompiledQuery, until: float | None = None
    ) -> WhyQuestion:
        """Return a question about a compiled query, to which documents are added later.

        `known` is its subscription, None for a text.  Trials for the answer end at `until`, a time
        of `time.monotonic`."""
        streams, documents = self._state.streams, self._state.documents
        lateness = {stream: streams.lateness(stream) for stream in compiled.streams}
        return WhyQuestion(
            compiled,
            known,
            lateness,
            lambda trial: run_trial(self._transactions, trial, until).matches,
            self._state.dataflow.watermark(documents.clock, max(lateness.values(), default=0)),
            streams.not_live(compiled.streams),
            lost=self._lost,
        )

    def _lost(self, question: WhyQuestion) -> str:
        """Return in words why a subscription lacks a match although all conditions hold."""
        one = question.subscription
        assert one is not None
        state, docs = self._state, [known.stored.doc for known in question.parts]
        with self._transactions.lock:
            if one.number in state.subscriptions.backfills:
                return "its history is still being read"
            cut = state.dataflow.cuts.ids_of(state.dataflow.subscribed.qids(one))
            evicted = max(docs) < state.eviction.oldest
        if names := cut.intersection(known.stored.id for known in question.parts):
            return f"there were more matches with {', '.join(sorted(names))} than the bound allows"
        if evicted:
            return "matches of that time are not kept any more (--keep-matches)"
        if one.is_bounded:
            return "it was paused, removed or had another query when they came"
        if one.backfilled != -1:
            return "its history begins with the newest matches of what is kept"
        return "a document that is not kept any more decided otherwise, or time was flushed"

    def diagnose(
        self, query: str, since: str | int | None = None, *, tried: bool = False
    ) -> Diagnosis:
        """Explain why a query, a text or a subscription's name, has no match in kept documents.

        `since` is a duration (`"7 d"`) or ticks before the clock; None: all documents.  With
        `tried` it explains the trial of the query, not the matches that the subscription has.
        """
        until = time.monotonic() + TRIAL_SECONDS
        with self._transactions.lock:
            known, compiled = self._compiled(query)
            question = self._question(None if tried else known, compiled, until)
            begin = beginning(since, self._state.documents.clock)
            store = self._transactions.connect()
        updates = known is not None and known.updates
        with closing(store):
            match = None if question.subscription is None else self._newest(question.subscription)
            return diagnose(store, question, updates=updates, begin=begin, match=match)

    def _newest(self, one: Subscription) -> Why | None:
        """Explain the newest kept match of a version of a subscription.

        None without one, or if texts of its documents are not kept.
        """
        page = self._log.page(one.name, newest_first=True, limit=1, version=one.version)
        with suppress(DocumentError):  # raised if a text of the match is not kept
            return next((self.why(one.name, *found.names) for found in page.matches), None)
        return None

    def unseen_names(
        self, query: str, named: Callable[[str], str | None] = str
    ) -> tuple[QueryWarning, ...]:
        """Return warnings about a query in XSCL: names that no document has, doubtful comparisons.

        `named` returns the name by which the query means a stream of the engine, None for a stream
        that the user may not see.  Raises QueryError.
        """
        compile_query(query)
        with self._seen(named) as seen:
            return QueryNames(query, *seen).warnings()

    @contextmanager
    def _seen(
        self, named: Callable[[str], str | None]
    ) -> Iterator[tuple[dict[str, int], Callable[[str], Vocabulary]]]:
        """Yield the number of documents of each known stream, and a function of a stream.

        The function returns the names that documents of the stream have.  Streams have the names
        that `named` returns; those for which it returns None are left out."""
        with closing(self._transactions.connect()) as store:
            arrived = self._state.documents.next
            counts = documents_by_stream(store)
            known = {EVERYTHING, *self._state.streams.known(), *counts}
            # If two streams are shown under one name, the user's own one hides the public one.
            engine_names = {
                shown: name
                for name in sorted(known, key=lambda name: named(name) != name)
                if (shown := named(name)) is not None
            }
            streams = {shown: counts.get(name, 0) for shown, name in engine_names.items()}
            yield (
                streams,
                lambda shown: self._vocabularies.of(store, engine_names[shown], arrived),
            )

    def absence_warning(self, query: str) -> str | None:
        """Return in words why the wall clock does not report the absences of a query.

        None if it does, or if the query has none.  Raises QueryError.
        """
        return absence_warning(self._state.streams, self._transactions.compiled(query))

    def silent_streams(self, query: str) -> list[str]:
        """Return the streams of a query that keep the wall clock from reporting its absences.

        They are those that are not live; none if the query has no absence.  Raises QueryError.
        """
        return silent_streams(self._state.streams, self._transactions.compiled(query))

    def _compiled(self, query: str) -> tuple[Subscription | None, CompiledQuery]:
        """Return the subscription that `query` names, None for a query's text; and its query."""
        known = registered(self._transactions.store, self._state.subscriptions, query)
        return known, self._transactions.compiled(query if known is None else known.query)

    def explain(
        self, query: str, *, sql: bool = False, seen: Callable[[str], bool] | None = None
    ) -> str:
        """Explain the evaluation of a query as text; see `Engine.explain`."""
        with self._transactions.lock:
            state, executors = self._state, self._transactions.executors
            text = explain(
                state.store,
                state.registry,
                state.subscriptions,
                state.dataflow,
                state.streams,
                query,
                sql=sql,
                seen=seen,
                reason_here=None if executors is None else executors.reason_here,
            )
            known = subscription_named(state.store, state.subscriptions, query)
            refused = known is not None and state.subscriptions.refusal(known) is not None
        if sql or refused or (known is not None and known.relational):
            return text
        with self._seen(str) as documents:
            names = QueryNames(query if known is None else known.query, *documents)
            warnings = [f"warning: {one.message}: {one.hint}" for one in names.doubtful()]
        return "\n".join((text, *warnings))

    def plan(self) -> PlanGraph:
        """Return the plan of all subscriptions as a graph.

        Nodes have the number of rows since the start, and those a second in the last minute.
        """
        with self._transactions.lock:
            state = self._state
            dataflow = state.dataflow
            users, spent = dataflow.subscribed.template_users, dataflow.time_spent()
            graph = plan_graph(dataflow.core.plan, state.registry, users, spent)
            return state.flow.rated(graph, dataflow.passed())

    def plan_users(self, node: PlanNode, most: int) -> PlanUsers:
        """Return the number of subscriptions that use a node of the plan, and `most` names of them.

        The names are the first ones in alphabetical order.
        """
        with self._transactions.lock:
            state = self._state
            return plan_users(
                state.store, state.registry, state.subscriptions, state.dataflow, node, most
            )

    def cost_shares(
        self, names: Sequence[str], among: Callable[[str], bool] | None = None
    ) -> dict[str, float]:
        """Return, by name, the share of each of some subscriptions in the time of the plan.

        A share is from 0 to 1.  With `among` it is a share in the time of the subscriptions for
        whose names that holds, such as a user's own.  Unknown names are left out.
        """
        with self._transactions.lock:
            dataflow = self._state.dataflow
            spent, passed = dataflow.time_spent(), dataflow.passed()
            shares = CostShares(dataflow.subscribed, spent, passed)
            found = map(self._state.subscriptions.get, names)
            of_all = {one.name: shares.of(one) for one in found if one is not None}
            if among is None or not of_all:
                return of_all
            total = sum(
                shares.of(subscription)
                for subscription in self._state.subscriptions
                if among(subscription.name)
            )
            return {name: share / total if total else 0.0 for name, share in of_all.items()}

    def unevaluated(self, name: str) -> list[Tally]:
        """Return the expressions of a subscription that could not be evaluated in some documents.

        Documents are counted since the engine was opened.  Empty for an unknown name.  Does not
        wait for a push.
        """
        found = self._state.subscriptions.get(name)
        return [] if found is None else unmet(self._state.dataflow, found)

    # -- About the join state --------------------------------------------------------------

    def state_by_window(self, store: Store) -> list[tuple[int | None, int, int, int]]:
        """Return the sizes of kept state as (window, witnesses, instances, lately), by window.

        The window is in ticks and ascends; None, the last one, is state without a window.
        Witnesses are those of the join state, instances those of operators over time; `lately`
        counts those of both that were added in the last day of the clock.  `store` is a connection
        that no other thread uses.
        """
        keeps, since = self._state.registry.retention.keeps, self._state.documents.clock - DAY
        witnesses, lately = Counter[int](), Counter[int]()
        for pair, count, new in witnesses_by_pair(store, since=since):
            if pair < len(keeps) and keeps[pair] >= 0:
                witnesses[min(int(keeps[pair]), INFINITE)] += count
                lately[min(int(keeps[pair]), INFINITE)] += new
        if self._transactions.lock.acquire(timeout=PATIENCE):
            try:
                held = instances(self._state.dataflow.core.plan)
                found = [(INFINITE if keep is None else keep, time > since) for keep, time in held]
            finally:
                self._transactions.lock.release()
            self._instances = Counter(keep for keep, _ in found)
            self._instances_lately = Counter(keep for keep, is_new in found if is_new)
        counted = self._instances
        lately.update(self._instances_lately)
        return [
            (None if keep == INFINITE else keep, witnesses[keep], counted[keep], lately[keep])
            for keep in sorted({*witnesses, *counted})
        ]


def _refuse_all_but_select(query: str) -> None:
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as error:
        raise SqlError(str(error)) from None
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        raise SqlError("only one SELECT statement can be run here", hint="the tables are read-only")
