"""The service: a fetcher that fills the spool, a consumer, and readers of matches.

The fetcher polls the feeds that are due.  The main thread runs the consumer, with or without
Spark, which lets time pass on live streams, too.  The reporter writes status.json.  Other threads
answer HTTP (`xscl.service`), and deliver and print matches (`xscl.delivery`).

A failure of the fetcher or the consumer ends the service with its error.  A failed
report is logged, and the next one is tried; so is a failed listener, because matches are stored
before they are delivered.  `stop` finishes the batch in progress and drops polls in flight.
Deliveries and requests in progress share a few seconds, and trials end at once.  A disk that is
full or fails ends nothing: every writer waits until it can be written (`xscl.engine.disk_guard`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from feeds.spool import Spool, SpoolError
from xscl.delivery.channels.mail import MailServer
from xscl.delivery.channels.webhook import Posting
from xscl.delivery.outbox.deliveries import RetryPolicy
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox
from xscl.delivery.outbox.printing import Printing
from xscl.documents.consumed_offsets import BatchKey
from xscl.documents.retention import changed_retention
from xscl.engine.disk_guard import LEAST, DiskGuard
from xscl.engine.executors import Executors
from xscl.engine.facade import Engine
from xscl.engine.heap_trim import limit_arenas
from xscl.errors import StoreError
from xscl.ingestion.consumer_watch import ConsumerStall, ConsumerWatch
from xscl.ingestion.data_directory import (
    SERVICE,
    DataDirectory,
    DataDirectoryError,
    clear_executors,
)
from xscl.ingestion.engine_sink import EngineSink
from xscl.ingestion.executors_watch import STARTING, Away, ExecutorsWatch
from xscl.ingestion.heartbeat import Heartbeat
from xscl.ingestion.pipeline import Consumer, PipelineError
from xscl.ingestion.quarantine import BatchAttempts
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_commands import prepare
from xscl.polling.feed_poller import PollSettings, keep_polling, poll_now
from xscl.polling.feed_repository import FeedRepository, ticks
from xscl.polling.stored_feeds import heard_until
from xscl.polling.websub_callbacks import HubCallbacks
from xscl.service.accounts import Accounts
from xscl.service.status import StatusReader
from xscl.service.status_series import StatusSeries
from xscl.service.usage import Usage
from xscl.store.store import Store
from xscl.subscriptions.match import Match
from xscl.subscriptions.matches import Matches
from xscl.time_format import written

if TYPE_CHECKING:
    from xscl.service.installation import ServiceSettings

_log = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds for the threads to end, when the service does."""

SWITCH = 0.0003
"""Seconds for which a thread keeps the interpreter while others wait for it.

A push calls NumPy thousands of times, which releases the interpreter, and waits so long to have it
back while another thread computes (prints matches, answers a request).  Measured beside a thread
that prints matches of a 128 kB document: 22 documents with 10,000 matches each took 29 s at the
default of 0.005, 14 of them 3.1 s at 0.0003 (8.3 s for 18 at 0.001).
"""

RETRY = 1.0
"""Seconds until a history is read again after a failure of the store."""

REPORT = 0.5
"""Seconds between two looks at how the service is doing."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of the service: the Spark master (None: no Spark), the interval of spool polls.

    `history` and `keep_matches` change the retention of texts and matches; None changes nothing.
    `listen` is the address of the HTTP API; None: no API.  `mail` is the mail server.  `least_free`
    bytes of the disk stay free.  `clock` gives times to arrivals, by default from this machine's
    clocks.  Hubs send to callbacks below `public_url`, if there is one.
    """

    master: str | None = None
    poll_interval: float = 1.0
    fetching: PollSettings = field(default_factory=PollSettings)
    history: str | None = None
    keep_matches: str | None = None
    listen: ServiceSettings | None = None
    mail: MailServer | None = None
    least_free: int = LEAST
    clock: ArrivalClock | None = None
    public_url: str = ""


class Service:
    """One run of the service on a data directory."""

    def __init__(
        self,
        home: DataDirectory,
        serving: ServeSettings,
        on_matches: Callable[[Sequence[Match]], None],
        on_listening: Callable[[str], None] = lambda address: None,
        on_consuming: Callable[[float], None] = lambda seconds: None,
        on_skipped: Callable[[int], None] = lambda count: None,
        on_first_token: Callable[[str], None] = lambda token: None,
    ) -> None:
        """Call `on_matches` in a separate thread with the operator's matches, and `on_skipped` with
        the number of skipped ones if it is far behind.  `on_listening` gets the address as soon as
        requests are accepted, `on_consuming` the seconds until the consumer started,
        `on_first_token` the operator's token if requests need one and none existed.
        """
        self._on_skipped = on_skipped
        self._on_listening = on_listening
        self._on_first_token = on_first_token
        self._on_consuming = on_consuming
        self._home = home
        self._clock = serving.clock or ArrivalClock()
        fetching = serving.fetching
        self._fetching = replace(fetching, clock=fetching.clock or self._clock.now)
        self._serving = serving
        self._on_matches = on_matches
        self._pushes = (
            HubCallbacks(serving.public_url, lambda: secrets_in(home.path / NAME))
            if serving.public_url and serving.listen
            else None
        )
        self._stopping = threading.Event()
        self._consumer: Consumer | None = None
        self._errors: list[BaseException] = []
        self._outbox: Outbox | None = None
        self.disk = DiskGuard(home.path, serving.least_free)
        self._usage: Usage | None = None
        self._watch: ConsumerWatch | None = None
        self._series = StatusSeries(now=self._clock.now)
        self._ends = False  # by itself, so it waits for no executors
        self._executors = None if serving.master is None else ExecutorsWatch(self._clock.now)
        self.address: str | None = None  # where requests are taken, once they are

    def run(self, until: threading.Event | None = None) -> None:
        """Serve until `stop`, or until the event is set and everything is consumed."""
        sys.setswitchinterval(SWITCH)
        limit_arenas()
        if not self._home.exists():  # a port that is in use leaves no new directory behind
            self._expect_free_port()
        with self._opened() as (engine, outbox, spool, store):
            looks = self._looks(store, engine)
            self._report(looks)
            with self._answering(engine, spool, outbox):
                self._report(looks)
                if self.address is not None:  # and by now commands find it
                    self._on_listening(self.address)
                fetch = self._thread("fetcher", lambda: self._fetch(engine, spool))
                report = self._thread(
                    "reporter", lambda: self._keep_reporting(looks, until, outbox)
                )
                past = self._thread("backfill", lambda: self._read_histories(engine, outbox))
                began = time.monotonic()
                try:
                    hold = partial(self.disk.wait, self._stopping)
                    with self._consuming(engine, spool, hold) as consumer:
                        self._consumer = consumer
                        self._on_consuming(time.monotonic() - began)
                        self._consume(consumer, engine, outbox, spool)
                finally:
                    self.stop()
                    outbox.begin_shutdown()  # all have their time to end at the same time
                    engine.trials.end()
                    engine.catalog.backfills.end()
                    _join(fetch, report, past, seconds=GRACE)
            if self._errors:
                raise self._errors[0]
            self._report(looks, whole=True)

    def _expect_free_port(self) -> None:
        """Raise CannotListen if the HTTP server could not listen."""
        settings = self._serving.listen
        if settings is not None:
            # Of the extra `service`, as the server itself.
            from xscl.service.server import expect_free

            expect_free(settings.host, settings.port)

    def run_once(self) -> None:
        """Poll the feeds that are due, consume the spool, deliver the matches, and end.

        No HTTP API runs.  Raises DiskFull instead of waiting for room.
        """
        fetching, self._ends = self._fetching, True
        self._home.create()
        self.disk.refuse()
        with self._opened() as (engine, outbox, spool, store):
            with FeedRepository(engine, self._home.spool) as feeds:
                poll_now(feeds, spool, feeds.due(fetching.now()), fetching)
            with self._consuming(engine, spool, self.disk.refuse) as consumer:
                self._consumer = consumer
                if not self._stopping.is_set():
                    consumer.run_once()
                    self._heartbeat(engine, spool, store).beat_if_due()
                    # The heartbeat is later than what waited.
                    if spool.numbers(engine.ingest.segment, 1):
                        consumer.run_once()
                    for number in list(engine.state.subscriptions.backfills):
                        engine.catalog.backfills.complete(number)
            outbox.finish(self._stopping)
            self._report(self._looks(store, engine), whole=True)

    def _looks(self, store: Store, engine: Engine) -> StatusReader:
        """Return a reader of the figures of this service."""
        now, executors = self._clock.now, self._executors
        return StatusReader(store, self._home, engine=engine, now=now, executors=executors)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Engine, Outbox, Spool, Store]]:
        """Open the engine with the retention of this process until the block ends."""
        home = self._home
        with (
            home.hold(SERVICE),
            Engine(home.database, owns_process=True) as engine,
            self._delivering(engine) as outbox,
            Spool(home.spool) as spool,
            closing(engine.connect()) as store,
        ):
            asked_now = self._serving.history, self._serving.keep_matches
            engine.retain(changed_retention(engine.retention, *asked_now))
            self._clock.continue_after(spool.newest_arrival())
            yield engine, outbox, spool, store

    def _consume(self, consumer: Consumer, engine: Engine, outbox: Outbox, spool: Spool) -> None:
        """Run the consumer until `stop`; it waits while the disk is full or fails."""
        with closing(engine.connect()) as store:
            heartbeat = self._heartbeat(engine, spool, store)

            def beat() -> None:
                if self.disk.short() is None:
                    heartbeat.beat_if_due()

            def work() -> None:
                self._announce(engine, outbox)
                consumer.serve(self._serving.poll_interval, beat)

            while not self._stopping.is_set():
                self._repeat_when_full(work)  # the batch is whole in the spool

    def _announce(self, engine: Engine, outbox: Outbox) -> None:
        """Notify the readers of matches, and the watch, of all that is committed.

        A commit may have succeeded although it was reported as failed; then its batch, which comes
        again, has no matches.
        """
        if self._watch is not None:
            self._watch.committed(engine.ingest.segment)
        outbox.notify_all()

    def _repeat_when_full(self, work: Callable[[], None]) -> None:
        """Run some work; after a failure of the disk wait until it can be written, and repeat it.

        `stop` ends the repetition.  Raises the errors of other failures.
        """
        while not self._stopping.is_set():
            try:
                work()
            except (SpoolError, StoreError, PipelineError, OSError) as error:
                if not self.disk.failed(error):
                    raise
                self.disk.wait(self._stopping)
            else:
                return

    @property
    def executors_away(self) -> Away | None:
        """Why executors are away; None if they are there, or if there is no master."""
        return None if self._executors is None else self._executors.away

    def stop(self) -> None:
        """Request the end; from any thread or signal handler."""
        self._stopping.set()
        if self._consumer is not None:
            self._consumer.stop()

    @contextmanager
    def _delivering(self, engine: Engine) -> Iterator[Outbox]:
        """Deliver matches to endpoints while the block runs."""
        fetching = self._serving.fetching
        posting = Posting(
            frozenset(fetching.allow_addresses),
            resolve=fetching.resolve,
            contact=fetching.contact,
            clock=self._clock.now,
        )
        pace = RetryPolicy(clock=self._clock.now)
        ways = DeliverySettings(self._home.files, self._serving.mail, posting, pace)
        printing = Printing(engine, self._on_matches, self._on_skipped)
        outbox = self._outbox = Outbox(engine, secrets_in(self._home.path / NAME), ways, printing)
        with closing(
            engine.connect()
        ) as store:  # while no requests are taken nobody is allowed more
            outbox.mail_limit = Accounts(store).mails_of
        outbox.start()
        try:
            yield outbox
        finally:
            outbox.close()

    @contextmanager
    def _answering(self, engine: Engine, spool: Spool, outbox: Outbox) -> Iterator[None]:
        """Serve the HTTP API while the block runs, if there is an address for it."""
        settings = self._serving.listen
        if settings is None:
            yield
            return
        # The extra `service` takes a moment to load, and it may not be installed.
        from xscl.server.app import create_app
        from xscl.service.accounts import THE_OPERATOR
        from xscl.service.installation import Installation
        from xscl.service.server import Server

        prepare(engine)
        watch = self._watch = ConsumerWatch(spool.latest, engine.ingest.segment)
        made = Installation(
            self._home,
            engine,
            spool,
            outbox,
            settings,
            disk=self.disk,
            clock=self._clock,
            watch=watch,
            series=self._series,
            pushes=self._pushes,
            executors=self._executors,
        )
        with closing(made) as installation:
            tokens = installation.tokens
            if not settings.is_open and not tokens.of():
                self._on_first_token(tokens.create(THE_OPERATOR, "first")[1])
            try:
                self._home.write_token(tokens.create_local())
            except DataDirectoryError as error:  # a full disk ends nothing; other tokens work
                _log.warning("the token of local commands was not written: %s", error)
            server = Server(create_app(installation), settings, installation.connections)
            self._usage = installation.usage
            try:
                server.start()
                self.address = server.address
                _log.info("requests are taken", extra={"address": server.address})
                yield
            finally:
                outbox.begin_shutdown()
                engine.trials.end()
                server.stop()
                self.address = None
                self._home.write_token()

    def _notify(self, matches: Matches) -> None:
        """Notify the readers of matches of a commit, and count the matches.

        The matches are stored already: a failure here is logged, and delays no other match.
        """
        try:
            if self._outbox is not None:
                self._outbox.notify(matches)
            if self._usage is not None and self._usage.has_users:
                self._usage.count_matches(matches.received())
        except Exception:
            _log.exception("matches that are kept could not be handed on")

    @contextmanager
    def _consuming(
        self, engine: Engine, spool: Spool, hold: Callable[[], None]
    ) -> Iterator[Consumer]:
        """Create the consumer, with a Spark session while it is needed.

        `hold` is called before each batch.
        """
        attempts = BatchAttempts(self._home.attempt)

        def hand_on(matches: Matches) -> None:
            if self._watch is not None:
                self._watch.committed(engine.ingest.segment)
            self._notify(matches)

        def note(batch: BatchKey) -> None:
            if batch.arrived is not None:
                self._series.note_latency((self._clock.now() - batch.arrived) / 1e6)

        sink = EngineSink(engine, hand_on, hold, attempts, on_committed=note)
        if self._serving.master is None:
            clear_executors(self._home.spark)
            yield Consumer(spool, sink)
        else:
            with self._on_spark(self._serving.master, engine) as executors:
                yield Consumer(spool, sink, executors=executors, on_away=self._note_away)

    @contextmanager
    def _on_spark(self, master: str, engine: Engine) -> Iterator[Executors]:
        """Yield the executors of a master; one on this machine is there, or the service ends."""
        # Loading Spark takes seconds, and it may not be installed.
        from xscl.spark.executors import SparkExecutors

        with _own_interrupts():
            executors = SparkExecutors(master, engine, self._home.spark)
            try:
                executors.start()
            except PipelineError as error:
                if master.startswith("local") or self._ends:
                    raise
                self._note_away(error)
            else:
                self._note_away(None)
        try:
            yield executors
        finally:
            executors.close()

    def _note_away(self, failure: PipelineError | None) -> None:
        """Note why executors are away; None: they are there."""
        assert self._executors is not None, "there is a master"
        before = self._executors.away
        if not self._executors.note(failure):
            return
        if failure is not None:
            _log.warning("documents wait in the spool: %s", failure.message)
        elif before is not None and before.reason != STARTING:
            _log.warning("Spark is there: documents are taken from the spool again")

    def _fetch(self, engine: Engine, spool: Spool) -> None:
        """Poll feeds until `stop`.

        After a failure the table of feeds is opened anew, because it has to catch up with the
        spool.
        """
        fetching = replace(self._fetching, is_paused=lambda: self.disk.short() is not None)

        def poll() -> None:
            with FeedRepository(engine, self._home.spool) as feeds:
                keep_polling(feeds, spool, fetching, self._stopping, self._pushes)

        self._repeat_when_full(poll)

    def _heartbeat(self, engine: Engine, spool: Spool, store: Store) -> Heartbeat:
        return Heartbeat(engine, spool, partial(heard_until, store), self._clock.now)

    def _read_histories(self, engine: Engine, outbox: Outbox) -> None:
        """Complete the backfills of subscriptions until `stop`, also those of the last process."""
        catalog = engine.catalog
        while not self._stopping.is_set():
            try:
                catalog.backfills.serve(
                    partial(self._announce, engine, outbox), catalog.begin_without_past
                )
            except (StoreError, OSError) as error:
                self.disk.failed(error)
                _log.warning("a history cannot be read now: %s", error)
                self.disk.wait(self._stopping)
                self._stopping.wait(RETRY)

    def _keep_reporting(
        self, looks: StatusReader, until: threading.Event | None, outbox: Outbox
    ) -> None:
        said = ""
        while not self._stopping.wait(REPORT):
            last = until is not None and until.is_set()
            try:
                waiting = self._report(looks)
            except (SpoolError, StoreError, OSError) as error:
                if until is not None:  # who waits for the end would wait for ever
                    raise
                if str(error) != said:
                    said = str(error)
                    _log.warning("how the service is doing cannot be told now: %s", said)
                continue
            if waiting == 0 and last and outbox.has_printed_all():
                self.stop()

    def _report(self, looks: StatusReader, *, whole: bool = False) -> int:
        """Write status.json, and return the number of waiting documents."""
        found = looks.now(whole=whole)
        self._series.observe(*looks.totals(), found.waiting, found.lag)
        clock = self._clock.agreement()
        self._home.write_status(
            {
                **found.as_dict(),
                "pid": os.getpid(),
                "threads": threading.active_count(),
                "written": written(ticks()),
                "address": self.address or (None if self._serving.listen is None else ""),
                "paused": self.disk.short(),
                "stalled": None if (stall := self._stall()) is None else asdict(stall),
                "wall_clock": clock.state,
                "wall_clock_ahead": clock.seconds,
            }
        )
        return found.waiting

    def _stall(self) -> ConsumerStall | None:
        return None if self._watch is None else self._watch.stall()

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Start a thread whose failure ends the service."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._errors.append(error)
                self.stop()

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of SIGINT afterwards: PySpark sets one of its own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _join(*threads: threading.Thread, seconds: float) -> None:
    """Join threads within a common deadline; leave those that do not end."""
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            _log.warning("the thread %s does not end; the service goes without it", thread.name)
