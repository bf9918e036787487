"""The dependency container of requests, built once when the service starts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from feeds.spool import Spool
from xscl.delivery.outbox.outbox import Outbox
from xscl.engine.disk_guard import DiskGuard
from xscl.engine.facade import Engine
from xscl.ingestion.consumer_watch import ConsumerWatch
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.executors_watch import ExecutorsWatch
from xscl.inspection.vocabulary import StreamCounts
from xscl.language.names import EVERYTHING
from xscl.limiter import FairLimiter, KeyedLimiter, TokenBuckets
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository
from xscl.polling.websub_callbacks import HubCallbacks
from xscl.service.accounts import THE_OPERATOR, Accounts
from xscl.service.backups import Backups
from xscl.service.client_address import Network, is_loopback
from xscl.service.connection_limit import CONNECTIONS, ConnectionLimit
from xscl.service.intake import DOCUMENTS, Intake
from xscl.service.metrics import Metrics
from xscl.service.names import owner
from xscl.service.registration_warnings import RegistrationWarnings
from xscl.service.resolving import Resolver
from xscl.service.sql import UserSql
from xscl.service.status_series import StatusSeries
from xscl.service.tokens import Tokens
from xscl.service.usage import Usage
from xscl.store.queries.documents import has_documents
from xscl.store.queries.owners import OPERATOR
from xscl.store.store import Store


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Listening address and request limits of the service.

    `names` are the accepted host names besides literal addresses.  `body`, `bulk` and `form` are
    the maximum sizes in bytes of a document, an import and any other request; a body must arrive
    within `patience` seconds.
    `trusted_proxies` are the networks whose `X-Forwarded-For` is used.  `connections` limits the
    concurrent connections of one client.
    If `waiting` documents are not consumed yet, further ones are refused.
    """

    host: str = "127.0.0.1"
    port: int = 8425
    names: tuple[str, ...] = ()
    body: int = 11_000_000
    bulk: int = 256_000_000
    form: int = 1_500_000
    patience: float = 60.0
    trusted_proxies: tuple[Network, ...] = ()
    connections: int = CONNECTIONS
    guesses: int = 20
    waiting: int = DOCUMENTS
    fetching: PollSettings = field(default_factory=PollSettings)

    @property
    def is_loopback(self) -> bool:
        """Return whether the service listens on loopback only."""
        return is_loopback(self.host)

    @property
    def is_open(self) -> bool:
        """Return whether a local request without a token has operator rights.

        A service with a name is public: its users come through a proxy on this machine.
        """
        return self.is_loopback and not self.names


class StorePool:
    """A pool of store connections for reads and small writes without the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._root = engine.connect()
        self._mutex = threading.Lock()
        self._idle: queue.SimpleQueue[Store] = queue.SimpleQueue()
        self._made: list[Store] = []

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        """Lend a connection of the pool exclusively while the block runs."""
        try:
            store = self._idle.get_nowait()
        except queue.Empty:
            with self._mutex:
                store = self._root.connect_again()
                self._made.append(store)
        try:
            yield store
        finally:
            self._idle.put(store)

    def close(self) -> None:
        """Close all connections; none may be in use."""
        with self._mutex:
            for store in (*self._made, self._root):
                store.close()


class PublicStreams:
    """The set of public streams: declared, published, written to, or seen in documents."""

    def __init__(
        self, engine: Engine, accounts: Accounts, reading: StorePool, counts: StreamCounts
    ) -> None:
        self._engine = engine
        self._accounts = accounts
        self._reading = reading
        self._counts = counts
        self._seen: set[str] = set()
        self._missed: dict[str, float] = {}

    def known(self, name: str) -> bool:
        """Return whether a public stream has this name; a negative result is cached for 1 s."""
        if owner(name)[0] != OPERATOR:
            return False
        streams = self._engine.state.streams
        if name == EVERYTHING or name in self._seen or streams.is_known(name):
            return True
        if self._accounts.has_stream(THE_OPERATOR, name):
            return True
        now = time.monotonic()
        if now - self._missed.get(name, -_MISSED) < _MISSED:
            return False
        with self._reading() as store:
            is_known = has_documents(store, [name])
        if is_known:
            self._seen.add(name)
            return True
        if len(self._missed) >= _MISSES:
            self._missed.clear()
        self._missed[name] = now
        return False

    def names(self) -> set[str]:
        """Return the names of all public streams."""
        with self._reading() as store:
            self._seen = {name for name in self._counts.of(store) if owner(name)[0] == OPERATOR}
        known = (*self._engine.state.streams.known(), *self._accounts.streams(THE_OPERATOR))
        return {EVERYTHING, *self._seen, *(n for n in known if owner(n)[0] == OPERATOR)}


QUESTIONS, IMPORTS = 2, 4
"""Maximum number of concurrent trials and imports; each uses a core."""

CONFIRMING = 4
"""Maximum number of concurrent mails with codes; each blocks a thread."""

_MISSED, _MISSES = 1.0, 1_000
"""Lifetime in seconds and maximum size of the cache of unknown stream names."""


class Installation:
    """The components that routes use, over an engine, a spool and an outbox of the caller.

    `feeds` has one connection: hold `feeds_lock` to use it.  `reading` lends a store connection.
    `intake` batches documents of concurrent requests.  `clock` assigns arrival times.
    `resolver` maps stream names in queries to the engine's.
    `connections` counts connections by client; `watch` detects a stalled consumer,
    and `series` has the figures of the last day.  `counts` are the documents by stream, `warnings`
    those of queries.  `pushes` are those of hubs, None without a public address; `executors` those
    of Spark, None without.
    """

    def __init__(
        self,
        home: DataDirectory,
        engine: Engine,
        spool: Spool,
        outbox: Outbox,
        settings: ServiceSettings,
        *,
        disk: DiskGuard,
        clock: ArrivalClock,
        watch: ConsumerWatch,
        series: StatusSeries,
        pushes: HubCallbacks | None = None,
        executors: ExecutorsWatch | None = None,
    ) -> None:
        self.home, self.engine, self.spool, self.outbox = home, engine, spool, outbox
        self.settings, self.clock, self.watch, self.series = settings, clock, watch, series
        self.pushes, self.executors = pushes, executors
        with ExitStack() as opened:
            self.feeds = opened.enter_context(FeedRepository(engine, clock=clock.now))
            self.feeds_lock = threading.Lock()
            self.reading = opened.enter_context(closing(StorePool(engine)))
            stores = [opened.enter_context(closing(engine.connect())) for _ in range(2)]
            self.accounts = Accounts(stores[0])
            self.tokens = Tokens(stores[1], self.accounts)
            self.counts = StreamCounts()
            self.public = PublicStreams(engine, self.accounts, self.reading, self.counts)
            self.resolver = Resolver(self.accounts, self.public.known)
            self.warnings = RegistrationWarnings(engine, self.resolver)
            names = (one.name for one in engine.subscriptions)
            self.usage = Usage(names, (feed.key for feed in self.feeds))
            self.intake = Intake(spool, engine, disk, clock, settings.waiting)
            opened.enter_context(closing(self.intake))
            self.sql = opened.enter_context(UserSql(engine, home.path))
            self.connections = ConnectionLimit(settings.connections)
            self.metrics = Metrics(engine, home, self.connections)
            self.backups = Backups(home, engine, self.reading, disk)
            self._opened = opened.pop_all()
        outbox.mail_limit = self.accounts.mails_of
        # The rate of requests by account, and of requests to each callback of hubs.
        self.requests, self.callbacks = TokenBuckets[int](), TokenBuckets[str]()
        self.guesses = TokenBuckets[str]()  # of tokens, by address
        # Event streams by account, and deliveries of hubs at a time.
        self.listeners, self.deliveries = KeyedLimiter[int](), KeyedLimiter[None]()
        # Registrations at a time, of those that take long or not.
        self.registering = KeyedLimiter[bool]()
        self.endpoints_lock = threading.Lock()  # to count endpoints and make one
        self.questions = FairLimiter(QUESTIONS)
        self.imports = FairLimiter(IMPORTS, 0, 0.0)
        self.confirming = FairLimiter(CONFIRMING, 0, 0.0)

    def close(self) -> None:
        """Finish what was taken, and close all that was opened here."""
        self._opened.close()
