"""The application: the engine, its store, followed feeds, deliveries, and the limits of users.

A service and a command without one open it on a data directory.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
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
        self._looked = -_LOOK

    def known(self, name: str) -> bool:
        """Return whether a public stream has this name; documents are looked at once a second."""
        if owner(name)[0] != OPERATOR:
            return False
        streams = self._engine.state.streams
        if name == EVERYTHING or name in self._seen or streams.is_known(name):
            return True
        if self._accounts.has_stream(THE_OPERATOR, name):
            return True
        if (now := time.monotonic()) - self._looked < _LOOK:
            return False
        self.names()
        self._looked = now
        return name in self._seen

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

_LOOK = 1.0
"""Seconds between two looks at the streams of all documents, for a name that is not known."""


class RequestLimits:
    """The limits of concurrent requests and of their rates, in memory."""

    def __init__(self) -> None:
        self.requests = TokenBuckets[int]()  # by account
        self.guesses = TokenBuckets[str]()  # of tokens, by address
        self.callbacks = TokenBuckets[str]()  # what hubs send, by feed
        self.deliveries = KeyedLimiter[None]()  # of hubs
        self.listeners = KeyedLimiter[int]()  # event streams, by account
        self.registering = KeyedLimiter[bool]()  # by whether they take long
        self.questions = FairLimiter(QUESTIONS)
        self.imports = FairLimiter(IMPORTS, 0, 0.0)
        self.confirming = FairLimiter(CONFIRMING, 0, 0.0)
        self.endpoints = threading.Lock()  # to count endpoints and make one


class App:
    """The application on a data directory, which it holds until `close`.

    `store` lends a connection, and `feeds` the repository of feeds.  `delivery` is the outbox that
    `outbox` makes for the engine.  `intake` batches documents of concurrent requests.  `resolver`
    maps stream names in queries to the engine's.  `limits` bounds requests, `usage` counts what
    users have, `connections` the connections of a client.  `watch` detects a stalled consumer, and
    `series` has the figures of the last day.  `counts` are the documents by stream, `warnings`
    those of queries.  `pushes` are those of hubs, None without a public address; `executors` those
    of Spark, None without.
    """

    def __init__(
        self,
        home: DataDirectory,
        holder: str,
        *,
        outbox: Callable[[Engine], Outbox],
        disk: DiskGuard,
        settings: ServiceSettings | None = None,
        clock: ArrivalClock | None = None,
        pushes: HubCallbacks | None = None,
        executors: ExecutorsWatch | None = None,
    ) -> None:
        """Open all parts; raises DataDirectoryInUse."""
        self.home, self.disk, self.pushes, self.executors = home, disk, pushes, executors
        self.settings, self.clock = settings or ServiceSettings(), clock or ArrivalClock()
        self.limits, self.series = RequestLimits(), StatusSeries(now=self.clock.now)
        with ExitStack() as opened:
            opened.enter_context(home.hold(holder))
            self.engine = opened.enter_context(Engine(home.database, owns_process=True))
            self.delivery = opened.enter_context(closing(outbox(self.engine)))
            self.spool = opened.enter_context(Spool(home.spool))
            feeds = opened.enter_context(FeedRepository(self.engine, clock=self.clock.now))
            self._feeds, self._lending = feeds, threading.Lock()
            self.store = opened.enter_context(closing(StorePool(self.engine)))
            stores = [opened.enter_context(closing(self.engine.connect())) for _ in range(2)]
            self.accounts = Accounts(stores[0])
            self.tokens = Tokens(stores[1], self.accounts)
            self.counts = StreamCounts()
            self.public = PublicStreams(self.engine, self.accounts, self.store, self.counts)
            self.resolver = Resolver(self.accounts, self.public.known)
            self.warnings = RegistrationWarnings(self.engine, self.resolver)
            names = (one.name for one in self.engine.subscriptions)
            self.usage = Usage(names, (feed.key for feed in feeds))
            self.watch = ConsumerWatch(self.spool.latest, self.engine.ingest.segment)
            self.intake = Intake(self.spool, self.engine, disk, self.clock, self.settings.waiting)
            opened.enter_context(closing(self.intake))
            self.sql = opened.enter_context(UserSql(self.engine, home.path))
            self.connections = ConnectionLimit(self.settings.connections)
            self.metrics = Metrics(self.engine, home, self.connections)
            self.backups = Backups(home, self.engine, self.store, disk)
            self._opened = opened.pop_all()
        self.delivery.mail_limit = self.accounts.mails_of

    @contextmanager
    def feeds(self) -> Iterator[FeedRepository]:
        """Lend the repository of feeds, which has one connection, while the block runs."""
        with self._lending:
            yield self._feeds

    def begin_shutdown(self) -> None:
        """End listeners, deliveries, trials and histories, which share the time that is left."""
        self.delivery.begin_shutdown()
        self.engine.catalog.backfills.end()

    def close(self) -> None:
        """Finish what was taken, and close all parts."""
        self._opened.close()
