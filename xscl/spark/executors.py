"""The executors of a service: stage 1 of all its documents, and the joins that they evaluate.

A streaming query runs while the service does.  The service offers it one micro-batch after the
other (`offers`), and takes what it finds.  The store alone says what was consumed: each query
begins with an empty checkpoint, and gets the kept documents of the longest window first.  So a
failure, wherever it is, ends in the same way as a restart.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from feeds.documents import DocumentColumns
from xscl.documents.document_validation import separate_invalid
from xscl.engine.executors import FIRST, RESULTS, DocumentsUnderWay, ExecutorResults
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import clear_executors
from xscl.ingestion.pipeline import ExecutorsAway, PipelineError
from xscl.spark.bound import SHARES_TYPE
from xscl.spark.offered_parts import OfferJoin, found_in
from xscl.spark.offers import NAME, OFFERED, Offer, OfferSource
from xscl.spark.parts import PORTION
from xscl.spark.plan_files import PlanFiles
from xscl.spark.probe import probe
from xscl.spark.service_plan import ServicePlan
from xscl.spark.session import (
    JAVA_ENDED,
    REPEATABLE,
    end_session,
    java_has_ended,
    reason_of,
    start_session,
)
from xscl.spark.streaming import StreamSettings
from xscl.store.queries.documents import documents_from, kept_rows

_log = logging.getLogger(__name__)

_TICK = 0.1  # seconds between two looks at whether the query has ended
_ALONE = 60.0
"""Seconds without executors after which a micro-batch is given up, so that registrations go on."""

_NO_QUERY = -1
_TURN = 0.5
"""Seconds at most for which the next batch waits while registrations wait for their turn."""


PATIENCE = 30.0
"""Seconds that a registration waits for the documents that are on executors."""

SHARE = 20
"""A query runs so many times as long as its start took, before another one moves more joins.

A subscription with a history is evaluated by the engine until then."""


class SparkExecutors:
    """The executors of a Spark master for an engine; used by the consumer's thread.

    `directory` is their own; executors on other machines see it under the same path.
    """

    def __init__(self, master: str, engine: Engine, directory: Path, buckets: int = 0) -> None:
        self._master = master
        self._engine = engine
        self._buckets = buckets
        self._directory = directory.absolute()
        self._stopping = threading.Event()
        self._turn = threading.RLock()
        self._waiting = 0  # number of registrations that wait for `_turn`
        self._session: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self._found: SimpleQueue[pa.Table] = SimpleQueue()
        self._offered = Offer()
        self._next = FIRST  # the number of the next document
        self._began = self._took = 0.0  # the query: when it began, and the seconds for that
        self._reached = _NO_QUERY  # the segment up to which the query has all documents
        self._last: tuple[Sequence[int], ExecutorResults] | None = None  # segments and results
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        clear_executors(self._directory)
        self._plan_again()
        engine.transactions.executors = self
        # Py4J logs what fails by the root logger, which prints it if nobody has given it a handler.
        if not (root := logging.getLogger()).handlers:
            root.addHandler(logging.NullHandler())

    def _plan_again(self) -> None:
        """Begin a plan in a directory of its own, for executors that have no documents."""
        self._files = PlanFiles(self._directory / f"plan-{os.urandom(8).hex()}")
        self._plan = ServicePlan(self._engine.transactions, self._files)

    # -- Between two micro-batches ---------------------------------------------------------

    @contextmanager
    def between(self) -> Iterator[None]:
        """Hold the lock that documents and registrations share; waiting registrations come first.

        Raises ExecutorsAway.
        """
        with self._failing():
            self._start_session()  # registrations do not wait for that
        end = time.monotonic() + _TURN
        while self._waiting and time.monotonic() < end:
            time.sleep(0.001)
        with self._turn:
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold that lock for a registration; raises DocumentsUnderWay after `PATIENCE`."""
        self._waiting += 1
        try:
            is_ours = self._turn.acquire(timeout=PATIENCE)
        finally:
            self._waiting -= 1
        if not is_ours:
            raise DocumentsUnderWay(PATIENCE)
        try:
            yield
        finally:
            self._turn.release()

    def reason_here(self, qid: int) -> str:
        """Return why a row of R_T is not evaluated on executors; the caller has the lock."""
        return self._plan.reason_here(qid)

    # -- Documents -------------------------------------------------------------------------

    def start(self) -> None:
        """Start Spark; raises PipelineError if it does not start, or does not see the files."""
        with self._failing():
            self._start_session()
            with self._turn:
                self._begin()

    def evaluate(
        self,
        segments: Sequence[int],
        documents: DocumentColumns,
        poison: Collection[int] = frozenset(),
    ) -> ExecutorResults:
        """Evaluate the documents of segments; raises ExecutorsAway, StoreError.

        `poison` has the indexes of documents that executors must not parse: it would end a process.
        """
        after, count = self._engine.ingest.segment, len(documents)
        known = self._not_taken(segments)
        if known is not None and len(known.numbers) == count:  # no erasure has come between
            return known
        with self._failing():
            version = self._plan.update()
            if not count:  # beats
                if self._reached == after:
                    self._reached = segments[-1]
                return ExecutorResults(_NOTHING, None, RESULTS.empty_table(), ())
            if self._reached != after or self._is_due():
                version = self._begin()
            numbers = np.arange(self._next, self._next + count)
            found = found_in(self._run(self._new_rows(documents, poison), version), numbers)
            evaluated = found._replace(poison=frozenset(poison))
        self._next += count
        self._reached, self._last = segments[-1], (segments, evaluated)
        return evaluated

    def _new_rows(self, documents: DocumentColumns, poison: Collection[int]) -> pa.Table:
        """Return documents as offered, without those at the places in `poison`."""
        places = np.setdiff1d(np.arange(len(documents)), sorted(poison))
        valid, _ = separate_invalid(documents.chosen(places.tolist()))
        clock = self._engine.state.documents.clock
        columns = places + self._next, np.full(len(places), clock), valid.timestamps
        return pa.table([*columns, valid.streams, valid.ids, valid.xml], OFFERED)

    def _not_taken(self, segments: Sequence[int]) -> ExecutorResults | None:
        """Return the last results if they are of these segments, which the store did not commit."""
        if self._last is None or self._last[0] != segments or not self._plan.is_current():
            return None
        return self._last[1]

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """End query and session if the block fails; raise Spark's errors as ExecutorsAway."""
        try:
            yield
        except (PySparkException, Py4JError, PipelineError, OSError) as error:
            reason = JAVA_ENDED if java_has_ended() else reason_of(error)
            self._end()
            if isinstance(error, ExecutorsAway):
                raise
            if isinstance(error, PipelineError):
                raise ExecutorsAway(error.message, hint=error.hint) from error
            raise ExecutorsAway(f"Spark's executors are away: {reason}") from error
        except BaseException:
            self._end()
            raise

    def _is_due(self) -> bool:
        """Return True if more joins could move to executors and the query is old enough."""
        return self._plan.is_behind and time.monotonic() - self._began > SHARE * self._took

    def _begin(self) -> int:
        """Begin a query with the kept documents of the longest window; return the plan version."""
        began = time.monotonic()
        self._end_query()
        version = self._plan.update(is_rebuild=True)
        self._offer(Offer())
        self._start_query()
        with self._engine.transactions.committed() as state:
            docs = documents_from(state.store, state.oldest_elsewhere())
        for start in range(0, len(docs), PORTION):
            with self._engine.transactions.committed() as state:
                rows = kept_rows(state.store, docs[start : start + PORTION]).select(OFFERED)
            self._run(rows, version)
        self._reached = self._engine.ingest.segment
        self._began = time.monotonic()
        self._took = self._began - began
        return version

    def _options(self, tasks: int) -> dict[str, str | int]:
        """Return the options of the source of a query (`OfferSource`)."""
        return {
            "offer": str(self._directory / "offer"),
            "plan": str(self._files.directory),
            "buckets": self._buckets,
            "tasks": tasks,
        }

    def _start_session(self) -> None:
        """Start a session if there is none, and probe whether its executors see the plan.

        A master that does not answer takes a minute, one without executors until it has some.
        """
        if self._session is None:
            session = start_session(self._master, scratch=self._directory, settings=REPEATABLE)
            session.dataSource.register(OfferSource)
            # The server prints a traceback when Java ends, which `_failing` reports.
            server = session.sparkContext._accumulatorServer
            server.handle_error = lambda *of: None  # type: ignore[method-assign]  # of this one
            self._session = session
            with self._turn:
                self._plan.update()
            probe(session, self._files)

    def _start_query(self) -> None:
        """Start a query without documents."""
        self._start_session()  # an erasure may have ended the last session
        assert self._session is not None, "it was started"
        found = self._found = SimpleQueue[pa.Table]()

        def take(shares: DataFrame, number: int) -> None:
            found.put(shares.toArrow())

        tasks = self._session.sparkContext.defaultParallelism
        self._buckets = 2 * tasks  # each costs 10 ms in each micro-batch
        self._session.conf.set("spark.sql.shuffle.partitions", tasks)
        options = self._options(tasks)
        parts = self._session.readStream.format(NAME).options(**options).load()
        buckets = parts.groupBy("bucket")
        joined = buckets.transformWithState(self._joining(), SHARES_TYPE, "Append", "None")
        writer = joined.writeStream.foreachBatch(take)
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        # Spark begins with a micro-batch of the offer that it finds: later ones are documents.
        self._take()

    def _joining(self) -> OfferJoin:
        """Return the processor of a query's buckets."""
        settings = StreamSettings(self._buckets, 0, "time", content=False)
        # All queries of a plan have its name: workers replace the join states of the one before.
        return OfferJoin(self._files, self._files.directory.name, settings)

    @property
    def _checkpoint(self) -> Path:
        return self._directory / "checkpoint"

    def _offer(self, offer: Offer) -> None:
        """Publish an offer: replace the file that the source reads."""
        path = self._directory / "offer"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(offer)), "utf-8")
        temporary.replace(path)
        self._offered = offer

    def _run(self, rows: pa.Table, version: int) -> pa.Table:
        """Offer documents as a micro-batch, and return its rows of `SHARES`."""
        path = self._directory / "documents.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        try:
            self._offer(Offer(self._offered.number + 1, str(path), rows.num_rows, version))
            return self._take()
        finally:
            path.unlink(missing_ok=True)  # a task that lags still has it mapped

    def _take(self) -> pa.Table:
        """Wait for the micro-batch of an offer, and return its rows of `SHARES`."""
        assert self._query is not None, "it was begun"
        seen = time.monotonic()
        while not self._stopping.is_set():
            try:
                return self._found.get(timeout=_TICK)
            except Empty:
                if not self._query.isActive:
                    failure = self._query.exception()
                    reason = "the query has ended" if failure is None else reason_of(failure)
                    raise ExecutorsAway(f"Spark's executors are away: {reason}") from failure
                if self._has_executors():
                    seen = time.monotonic()
                elif time.monotonic() - seen > _ALONE:
                    raise ExecutorsAway(f"Spark's master {self._master} has no executors") from None
        raise ExecutorsAway("the service ends")

    def _has_executors(self) -> bool:
        """Return True if there are executors; Spark itself would wait for them for ever."""
        assert self._session is not None, "there is a query"
        context = self._session.sparkContext._jsc.sc()
        # The first of its block managers is the driver's.
        return bool(context.isLocal()) or context.getExecutorMemoryStatus().size() > 1

    # -- The end ---------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop waiting for a micro-batch; from any thread or signal handler."""
        self._stopping.set()

    def forget(self) -> None:
        """End Spark's session and delete all files; the next documents start another session.

        Files of shuffles and states may have what was erased.  The caller is in `changing`.
        """
        self._end()
        clear_executors(self._directory)
        self._plan_again()

    def close(self) -> None:
        """End the query and the session, and delete their files."""
        self._engine.transactions.executors = None
        self._end()
        clear_executors(self._directory)

    def _end_query(self) -> None:
        query, self._query = self._query, None
        self._reached, self._last = _NO_QUERY, None
        if query is not None:
            with suppress(PySparkException, Py4JError, OSError):  # Java may have ended
                query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    def _end(self) -> None:
        self._end_query()
        session, self._session = self._session, None
        if session is not None:
            end_session(session)


_NOTHING = np.empty(0, np.int64)
