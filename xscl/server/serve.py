"""The service: a consumer of the spool, and the components beside it.

The main thread runs the consumer, with or without Spark, and appends the beats of live streams.
Beside it are deliveries with the event loop, the HTTP API (`xscl.service`), and three jobs, which
poll feeds, write status.json and read backfills.  They stop in the reverse order of their start.

A failure of a job or the consumer ends the service with its error.  A failed report of the status
is only logged, and so is a failure to notify readers of matches, because matches are stored before
they are delivered.  `stop` finishes the batch in progress and drops polls in flight.
Deliveries and requests in progress share a few seconds, and trials end at once.  A disk that is
full or fails ends nothing: every writer waits until it can be written (`xscl.engine.disk_guard`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from feeds.daemons import DaemonPool
from feeds.errors import SpoolError
from xscl.delivery.channels.mail import MailServer
from xscl.delivery.outbox.outbox import DeliverySettings, Outbox, RetryPolicy
from xscl.delivery.outbox.printing import Printing
from xscl.documents.consumed_offsets import BatchKey
from xscl.documents.retention import changed_retention
from xscl.engine.disk_guard import LEAST, DiskGuard
from xscl.engine.executors import Executors
from xscl.engine.facade import Engine
from xscl.engine.heap_trim import limit_arenas
from xscl.errors import StoreError
from xscl.gc_control import paused
from xscl.ingestion.data_directory import (
    SERVICE,
    DataDirectory,
    DataDirectoryError,
    clear_executors,
)
from xscl.ingestion.heartbeat import Heartbeat
from xscl.ingestion.pipeline import Consumer, PipelineError
from xscl.ingestion.quarantine import BatchAttempts
from xscl.ingestion.watches import Away, ExecutorsWatch
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_commands import prepare
from xscl.polling.feed_poller import PollSettings, keep_polling, poll_now
from xscl.polling.feed_repository import FeedRepository, heard_until, ticks
from xscl.polling.hubs import HubCallbacks
from xscl.service.accounts import THE_OPERATOR
from xscl.service.app import App, ServiceSettings
from xscl.service.listen_address import expect_free
from xscl.service.status import StatusReader
from xscl.store.store import Store
from xscl.subscriptions.match import Match
from xscl.subscriptions.matches import Matches
from xscl.time_format import written

_log = logging.getLogger(__name__)

SWITCH = 0.0003
"""Seconds for which a thread keeps the interpreter while others wait for it.

A push calls NumPy thousands of times, which releases the interpreter lock.  To get it back takes
`SWITCH` each time while another thread computes (prints matches, answers a request).  Measured
beside a thread that prints matches of a 128 kB document: 22 documents with 10,000 matches each took
29 s at the default of 0.005, 14 of them 3.1 s at 0.0003 (8.3 s for 18 at 0.001).
"""

RETRY = 1.0
"""Seconds after a failure of the store until backfills are retried."""

REPORT = 0.5
"""Seconds between two writes of status.json."""


GRACE = 2.0
"""Seconds for which the end of each part of the service is awaited."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of the service; `master` is the Spark master, None for a service without Spark.

    Segments of other processes are looked for every `poll_interval` seconds.  `history` and
    `keep_matches` change the retention of texts and matches; None leaves it unchanged.  `listen`
    has the address of the HTTP API, None for no API.  `least_free` bytes of the disk stay free.
    `clock` stamps arrivals, by default from this machine's clocks.  Hubs send to callbacks below
    `public_url`; if that is empty, there are none.
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


@dataclass(eq=False)
class Service:
    """One run of the service on a data directory.

    `on_matches` is called in a separate thread with the operator's matches; if that thread is far
    behind, matches are skipped, and `on_skipped` gets their number.  `on_listening` gets the
    address as soon as requests are accepted, `on_consuming` the seconds until the consumer started,
    `on_first_token` the operator's token if requests need one and none existed.
    """

    home: DataDirectory
    serving: ServeSettings
    on_matches: Callable[[Sequence[Match]], None]
    on_listening: Callable[[str], None] = lambda address: None
    on_consuming: Callable[[float], None] = lambda seconds: None
    on_skipped: Callable[[int], None] = lambda count: None
    on_first_token: Callable[[str], None] = lambda token: None

    def __post_init__(self) -> None:
        self._clock = self.serving.clock or ArrivalClock()
        self._stopping = threading.Event()
        self._stopped = asyncio.Event()  # set with `_stopping`, for the event loop
        self._consumer: Consumer | None = None
        self._errors: list[BaseException] = []
        self.disk = DiskGuard(self.home.path, self.serving.least_free)
        self._ends = False  # True in `run_once`, which waits for no executors
        is_alone = self.serving.master is None
        self._executors = None if is_alone else ExecutorsWatch(self._clock.now)
        self.app: App | None = None  # while it runs
        self.address: str | None = None  # of the HTTP API, while it accepts requests

    def run(self, until: threading.Event | None = None) -> None:
        """Serve until `stop`, or until the event is set and everything is consumed."""
        sys.setswitchinterval(SWITCH)
        limit_arenas()
        if not self.home.exists():  # a port that is in use leaves no new directory behind
            self._expect_free_port()
        with self._opened() as app, self._reporting(app) as report:
            report()
            with self._beside(app, report, until):
                began = time.monotonic()
                with self._consuming(app, partial(self.disk.wait, self._stopping)) as consumer:
                    self.on_consuming(time.monotonic() - began)
                    self._consume(consumer, app)
            if self._errors:
                raise self._errors[0]
            report(whole=True)

    def run_once(self) -> None:
        """Poll the feeds that are due, consume the spool, deliver the matches, and end.

        No HTTP API runs.  Raises DiskFull instead of waiting for room.
        """
        self._ends = True
        self.home.create()
        self.disk.refuse()
        with self._opened() as app:
            app.delivery.start()
            with FeedRepository(app.engine, self.home.spool) as feeds:
                fetching = app.feeds.fetching
                poll_now(feeds, app.store.spool, feeds.due(fetching.now()), fetching)
            with self._consuming(app, self.disk.refuse) as consumer:
                if not self._stopping.is_set():
                    consumer.run_once()
                    with app.store() as store:
                        self._heartbeat(app, store).beat_if_due()
                    # The beat is a segment after those that were consumed.
                    if app.store.spool.numbers(app.engine.ingest.segment, 1):
                        consumer.run_once()
                    for number in list(app.engine.state.subscriptions.backfills):
                        app.engine.catalog.backfills.complete(number)
            app.delivery.finish(self._stopping)
            with self._reporting(app) as report:
                report(whole=True)

    def stop(self) -> None:
        """Request the end of the service; for any thread or signal handler."""
        self._stopping.set()
        if self._consumer is not None:
            self._consumer.stop()
        if (app := self.app) is not None:
            app.delivery.loop.call(self._stopped.set)

    def _expect_free_port(self) -> None:
        """Raise CannotListen if the HTTP server cannot listen on its address."""
        settings = self.serving.listen
        if settings is not None:
            expect_free(settings.host, settings.port)

    @contextmanager
    def _opened(self) -> Iterator[App]:
        """Open the application during the block, with the retention from the settings."""
        home, serving = self.home, self.serving
        ways = DeliverySettings(
            home.files,
            mail=serving.mail,
            requests=serving.fetching,
            pace=RetryPolicy(clock=self._clock.now),
            public=serving.public_url if serving.listen else "",
        )

        def outbox(engine: Engine) -> Outbox:
            printing = Printing(engine, self.on_matches, self.on_skipped)
            return Outbox(engine, secrets_in(home.path / NAME), ways, printing)

        callbacks = None
        if serving.public_url and serving.listen:
            callbacks = HubCallbacks(serving.public_url, lambda: secrets_in(home.path / NAME))
        opened = App(
            home,
            SERVICE,
            outbox=outbox,
            disk=self.disk,
            settings=serving.listen,
            clock=self._clock,
            fetching=replace(
                serving.fetching,
                clock=serving.fetching.clock or self._clock.now,
                is_paused=lambda: self.disk.short() is not None,
            ),
            callbacks=callbacks,
            executors=self._executors,
        )
        with closing(opened) as app:
            asked_now = serving.history, serving.keep_matches
            app.engine.retain(changed_retention(app.engine.retention, *asked_now))
            self._clock.continue_after(app.store.spool.newest_arrival())
            self.app = app
            try:
                yield app
            finally:
                self.app = None

    @contextmanager
    def _beside(
        self, app: App, report: Callable[..., int], until: threading.Event | None
    ) -> Iterator[None]:
        """Run the other parts beside the consumer during the block; then stop the last one first.

        The service also ends when the event `until` is set and no document waits.
        """
        loop, histories = app.delivery.loop, DaemonPool("backfill", 1)
        with ExitStack() as parts:
            try:
                app.delivery.start()
                parts.callback(app.delivery.stop)
                if self.serving.listen is not None:
                    parts.enter_context(self._listening(app, report))
                for name, done in (
                    ("polling", loop.submit(self._poll(app))),
                    ("reporting", loop.submit(self._keep_reporting(app, report, until))),
                    ("backfill", histories.submit(partial(self._read_histories, app))),
                ):
                    done.add_done_callback(self._ended)
                    parts.callback(_await, name, done)
                yield
            finally:
                self.stop()
                self.address = None
                app.begin_shutdown()

    @contextmanager
    def _listening(self, app: App, report: Callable[..., int]) -> Iterator[None]:
        """Accept requests during the block; first create the operator's first token if needed."""
        # Modules of the extra `service`: they take a moment to import, and may not be installed.
        with paused():  # collections take a sixth of these imports, which make no garbage
            from xscl.server.app import create_app
            from xscl.service.server import serving

        tokens, connections = app.accounts.tokens, app.accounts.connections
        prepare(app.engine)
        if not app.settings.is_open and not tokens.of():
            self.on_first_token(tokens.create(THE_OPERATOR, "first")[1])
        try:
            app.home.write_token(tokens.create_local())
        except DataDirectoryError as error:  # a full disk ends nothing; other tokens work
            _log.warning("the token of local commands was not written: %s", error)
        try:
            with serving(create_app(app), app.settings, connections, app.delivery.loop) as address:
                _log.info("requests are taken", extra={"address": address})
                self.address = address
                report()
                self.on_listening(address)  # the report has told commands the address
                yield
        finally:
            app.home.write_token()

    def _ended(self, done: Future[None]) -> None:
        """End the service if a part of it has failed."""
        if not done.cancelled() and (error := done.exception()) is not None:
            self._errors.append(error)
            self.stop()

    # -- Consuming -------------------------------------------------------------------------

    def _consume(self, consumer: Consumer, app: App) -> None:
        """Run the consumer until `stop`; it waits while the disk is full or fails."""
        with app.store() as store:
            heartbeat = self._heartbeat(app, store)

            def beat() -> None:
                if self.disk.short() is None:
                    heartbeat.beat_if_due()

            while not self._stopping.is_set():
                try:
                    self._announce(app)
                    consumer.serve(self.serving.poll_interval, beat)
                except (SpoolError, StoreError, PipelineError, OSError) as error:
                    if not self.disk.failed(error):
                        raise
                    self.disk.wait(self._stopping)  # the batch is still in the spool

    def _announce(self, app: App) -> None:
        """Notify the readers of matches, and the watch of the consumer, of the last commit.

        A commit may have succeeded although it was reported as failed; then its batch, which is
        pushed again, returns no matches, and readers would not be notified.
        """
        app.figures.watch.committed(app.engine.ingest.segment)
        app.delivery.notify_all()

    def _notify(self, app: App, matches: Matches) -> None:
        """Notify the readers of the matches of a commit, and count the matches for quotas.

        The matches are stored already: a failure here is logged, and the consumer continues.
        """
        app.figures.watch.committed(app.engine.ingest.segment)
        try:
            app.delivery.notify(matches)
            if app.accounts.usage.has_users:
                app.accounts.usage.count_matches(matches.received())
        except Exception:
            _log.exception("matches that are kept could not be handed on")

    @contextmanager
    def _consuming(self, app: App, hold: Callable[[], None]) -> Iterator[Consumer]:
        """Yield the consumer; with a Spark master it has a Spark session during the block.

        `hold` is called before each batch.
        """

        def note(batch: BatchKey) -> None:
            if batch.arrived is not None:
                app.figures.series.note_latency((self._clock.now() - batch.arrived) / 1e6)

        if self.serving.master is None:
            clear_executors(self.home.spark)
            on_spark: AbstractContextManager[Executors | None] = nullcontext()
        else:
            on_spark = self._on_spark(self.serving.master, app.engine)
        with on_spark as executors:
            self._consumer = Consumer(
                app.store.spool,
                app.engine.ingest,
                executors=executors,
                hold=hold,
                attempts=BatchAttempts(self.home.attempt),
                on_matches=partial(self._notify, app),
                on_committed=note,
                on_away=self._note_away,
            )
            yield self._consumer

    @contextmanager
    def _on_spark(self, master: str, engine: Engine) -> Iterator[Executors]:
        """Yield the executors of a master.

        If they cannot start, they are noted as away.  With a local master, or in `run_once`, raise
        PipelineError instead.
        """
        # Loading Spark takes seconds, and it may not be installed.
        from xscl.spark.executors import SparkExecutors

        with _own_interrupts():
            executors = SparkExecutors(master, engine, self.home.spark)
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

    @property
    def executors_away(self) -> Away | None:
        """Why executors are away; None if they are available, or in a service without Spark."""
        return None if self._executors is None else self._executors.away

    def _note_away(self, failure: PipelineError | None) -> None:
        """Note the failure for which executors are away, None if they are available."""
        if self._executors is not None:
            self._executors.note(failure)

    # -- Beside the consumer ---------------------------------------------------------------

    async def _poll(self, app: App) -> None:
        """Poll feeds until `stop`.

        After a failure the repository of feeds is opened again, because its opening applies the
        segments that were appended without an update of the table of feeds.
        """
        while not self._stopping.is_set():
            try:
                feeds = await asyncio.to_thread(FeedRepository, app.engine, self.home.spool)
                with feeds:
                    await keep_polling(
                        feeds,
                        app.store.spool,
                        app.feeds.fetching,
                        self._stopping,
                        app.feeds.callbacks,
                    )
            except (SpoolError, StoreError, OSError) as error:
                if not self.disk.failed(error):
                    raise
                await asyncio.to_thread(self.disk.wait, self._stopping)

    def _heartbeat(self, app: App, store: Store) -> Heartbeat:
        return Heartbeat(app.engine, app.store.spool, partial(heard_until, store), self._clock.now)

    def _read_histories(self, app: App) -> None:
        """Complete backfills until `stop`, also those that an earlier process left unfinished."""
        catalog = app.engine.catalog
        while not self._stopping.is_set():
            try:
                catalog.backfills.serve(partial(self._announce, app), catalog.begin_without_past)
            except (StoreError, OSError) as error:
                self.disk.failed(error)
                _log.warning("a history cannot be read now: %s", error)
                self.disk.wait(self._stopping)
                self._stopping.wait(RETRY)

    async def _keep_reporting(
        self, app: App, report: Callable[..., int], until: threading.Event | None
    ) -> None:
        last_warning = ""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), REPORT)
            is_last = until is not None and until.is_set()
            try:
                waiting = await asyncio.to_thread(report)
            except (SpoolError, StoreError, OSError) as error:
                if until is not None:  # without reports the service would not end
                    raise
                if str(error) != last_warning:
                    last_warning = str(error)
                    _log.warning("how the service is doing cannot be told now: %s", error)
                continue
            if waiting == 0 and is_last and app.delivery.has_printed_all():
                self.stop()

    @contextmanager
    def _reporting(self, app: App) -> Iterator[Callable[..., int]]:
        """Yield the function that writes status.json (see `_report`)."""
        with closing(app.engine.connect()) as store:
            looks = StatusReader(
                store,
                self.home,
                engine=app.engine,
                ticks=self._clock.now,
                executors=self._executors,
            )
            yield partial(self._report, app, looks)

    def _report(self, app: App, looks: StatusReader, *, whole: bool = False) -> int:
        """Write status.json, and return the number of waiting documents."""
        found = looks.now(whole=whole)
        pace = app.engine.ingest.pace
        app.figures.series.observe(pace.documents, pace.matches, found["waiting"], found["lag"])
        clock, stall = self._clock.agreement(), app.figures.watch.stall()
        self.home.write_status(
            {
                **found,
                "pid": os.getpid(),
                "threads": threading.active_count(),
                "written": written(ticks()),
                "address": self.address or (None if self.serving.listen is None else ""),
                "paused": self.disk.short(),
                "stalled": None if stall is None else asdict(stall),
                "wall_clock": clock.state,
                "wall_clock_ahead": clock.seconds,
            }
        )
        return int(found["waiting"])


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of SIGINT afterwards: PySpark sets one of its own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _await(name: str, done: Future[None]) -> None:
    """Wait at most `GRACE` until a part of the service has ended; log if it has not."""
    if wait([done], GRACE).not_done:
        _log.warning("%s does not end; the service goes without it", name)
