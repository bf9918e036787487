"""The application: the engine, its store, followed feeds, deliveries, and the limits of users.

A service opens it on a data directory, and so does a command while no service runs there.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field

from feeds.spool import Spool
from xscl.delivery.outbox.outbox import Outbox
from xscl.documents.document_validation import push_fault
from xscl.engine.disk_guard import DiskGuard
from xscl.engine.facade import Engine
from xscl.errors import DocumentError
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.watches import ConsumerWatch, ExecutorsWatch
from xscl.language.names import EVERYTHING
from xscl.limiter import FairLimiter, KeyedLimiter, TokenBuckets
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository
from xscl.polling.hubs import HubCallbacks
from xscl.service.accounts import THE_OPERATOR, Account, Accounts, Usage
from xscl.service.backups import Backups
from xscl.service.client_address import Network, is_loopback
from xscl.service.connection_limit import CONNECTIONS, ConnectionLimit
from xscl.service.intake import DOCUMENTS, Intake
from xscl.service.metrics import Metrics
from xscl.service.names import owner
from xscl.service.resolving import RegistrationWarnings, Resolver
from xscl.service.sql.sql_service import UserSql
from xscl.service.status import StatusSeries
from xscl.service.tokens import Tokens
from xscl.store.queries.documents import documents_by_stream
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
    One address may send `guesses` wrong tokens a minute.  If `waiting` documents are not consumed
    yet, further ones are refused.
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

    @property
    def is_loopback(self) -> bool:
        """Return True if the service listens on loopback only."""
        return is_loopback(self.host)

    @property
    def is_open(self) -> bool:
        """Return True if a local request without a token has operator rights.

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


@dataclass(eq=False)
class PublicStreams:
    """The set of public streams: declared, published, written to, or seen in documents."""

    engine: Engine
    accounts: Accounts
    reading: StorePool

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self._looked = -_LOOK

    def known(self, name: str) -> bool:
        """Return True if a public stream has this name.

        The streams of documents are read again at most once a second.
        """
        if owner(name)[0] != OPERATOR:
            return False
        streams = self.engine.state.streams
        if name == EVERYTHING or name in self._seen or streams.is_known(name):
            return True
        if self.accounts.has_stream(THE_OPERATOR, name):
            return True
        if (now := time.monotonic()) - self._looked < _LOOK:
            return False
        self.names()
        self._looked = now
        return name in self._seen

    def names(self) -> set[str]:
        """Return the names of all public streams."""
        with self.reading() as store:
            self._seen = {name for name in documents_by_stream(store) if owner(name)[0] == OPERATOR}
        known = (*self.engine.state.streams.known(), *self.accounts.streams(THE_OPERATOR))
        return {EVERYTHING, *self._seen, *(n for n in known if owner(n)[0] == OPERATOR)}


QUESTIONS, IMPORTS = 2, 4
"""Maximum numbers of concurrent trials and of concurrent imports; each uses a core."""

CONFIRMING = 4
"""Maximum number of concurrent mails with codes; each blocks a thread."""

_LOOK = 1.0
"""Minimum time in seconds between two reads of the streams of documents, for unknown names."""


class RequestLimits:
    """The limits of concurrent requests and of their rates, in memory."""

    def __init__(self) -> None:
        self.requests = TokenBuckets[int]()  # requests, by account
        self.guesses = TokenBuckets[str]()  # wrong tokens, by address
        self.callbacks = TokenBuckets[str]()  # requests of hubs, by feed
        self.deliveries = KeyedLimiter[None]()  # concurrent requests of hubs
        self.listeners = KeyedLimiter[int]()  # event streams, by account
        self.registering = KeyedLimiter[bool]()  # registrations; the key is True for slow ones
        self.questions = FairLimiter(QUESTIONS)
        self.imports = FairLimiter(IMPORTS, 0, 0.0)
        self.confirming = FairLimiter(CONFIRMING, 0, 0.0)
        self.endpoints = threading.Lock()  # held while endpoints are counted and one is added


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePart:
    """The store and the spool: connections, the intake of documents, users' SQL, backups.

    `intake` batches documents of concurrent requests.
    """

    pool: StorePool
    spool: Spool
    intake: Intake
    sql: UserSql
    backups: Backups

    def __call__(self) -> AbstractContextManager[Store]:
        """Lend a connection exclusively while the block runs."""
        return self.pool()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedsPart:
    """Followed feeds, how they are fetched, and the callbacks of hubs.

    `callbacks` is None without a public address.
    """

    repository: FeedRepository
    fetching: PollSettings
    callbacks: HubCallbacks | None
    lending: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def __call__(self) -> Iterator[FeedRepository]:
        """Lend the repository, which has one connection, while the block runs."""
        with self.lending:
            yield self.repository


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsPart:
    """Users: their tokens, quotas and limits, and the resolution of their names.

    `limits` bounds requests, `usage` counts objects of users, `connections` limits connections of
    each client.  `streams` are the public streams, `resolver` maps names of streams in queries to
    the engine's, and `warnings` finds the warnings of a query.
    """

    users: Accounts
    tokens: Tokens
    usage: Usage
    limits: RequestLimits
    connections: ConnectionLimit
    streams: PublicStreams
    resolver: Resolver
    warnings: RegistrationWarnings


@dataclass(frozen=True, slots=True, kw_only=True)
class FiguresPart:
    """The figures of the service, and the objects that collect them.

    `watch` detects a stalled consumer, `series` has the figures of the last day; `executors`
    watches Spark's executors, None in a service without any.
    """

    watch: ConsumerWatch
    series: StatusSeries
    metrics: Metrics
    executors: ExecutorsWatch | None


class App:
    """The application on a data directory, which it holds until `close`.

    Its parts are the engine, the store, the feeds, the delivery (the outbox that `outbox` makes for
    the engine), the accounts with their limits, and the figures of these.
    """

    def __init__(
        self,
        home: DataDirectory,
        holder: str,
        *,
        outbox: Callable[[Engine], Outbox],
        disk: DiskGuard,
        settings: ServiceSettings | None = None,
        fetching: PollSettings | None = None,
        clock: ArrivalClock | None = None,
        callbacks: HubCallbacks | None = None,
        executors: ExecutorsWatch | None = None,
    ) -> None:
        """Open all parts; raises DataDirectoryInUse."""
        self.home = home
        self.settings, self.clock = settings or ServiceSettings(), clock or ArrivalClock()
        with ExitStack() as opened:
            opened.enter_context(home.hold(holder))
            self.engine = engine = opened.enter_context(Engine(home.database, owns_process=True))
            self.delivery = opened.enter_context(closing(outbox(engine)))
            spool = opened.enter_context(Spool(home.spool))
            self.feeds = FeedsPart(
                repository=opened.enter_context(FeedRepository(engine, clock=self.clock.now)),
                fetching=fetching or PollSettings(),
                callbacks=callbacks,
            )
            pool = opened.enter_context(closing(StorePool(engine)))
            intake = Intake(spool, engine, disk, self.clock, self.settings.waiting)
            self.store = StorePart(
                pool=pool,
                spool=spool,
                intake=opened.enter_context(closing(intake)),
                sql=opened.enter_context(UserSql(engine, home.path)),
                backups=Backups(home, pool, disk),
            )
            users = Accounts(opened.enter_context(closing(engine.connect())))
            streams = PublicStreams(engine, users, pool)
            resolver = Resolver(users, streams.known)
            self.accounts = AccountsPart(
                users=users,
                tokens=Tokens(opened.enter_context(closing(engine.connect())), users),
                usage=Usage(
                    (subscription.name for subscription in engine.subscriptions),
                    (feed.key for feed in self.feeds.repository),
                ),
                limits=RequestLimits(),
                connections=ConnectionLimit(self.settings.connections),
                streams=streams,
                resolver=resolver,
                warnings=RegistrationWarnings(engine, resolver),
            )
            self.figures = FiguresPart(
                watch=ConsumerWatch(spool.latest, engine.ingest.segment),
                series=StatusSeries(now=self.clock.now),
                metrics=Metrics(engine, home, self.accounts.connections),
                executors=executors,
            )
            self._opened = opened.pop_all()
        self.delivery.mail_limit = users.mails_of

    def begin_shutdown(self) -> None:
        """Stop listeners, deliveries, trials and backfills, without waiting for their end."""
        self.delivery.begin_shutdown()
        self.engine.catalog.backfills.end()

    def close(self) -> None:
        """Close all parts; the intake appends its queued documents first."""
        self._opened.close()


def writable_stream(app: App, account: Account, stream: str) -> str:
    """Return the engine's name of a stream to write to; users may write only to their own.

    Raises DocumentError, ReservedName.
    """
    if (fault := push_fault(stream)) is not None:
        raise DocumentError(fault, reason_code="stream_name")
    known = account.qualify(stream)
    if app.engine.state.subscriptions.publishers(known):
        raise DocumentError(
            f"the stream {stream!r} has what a subscription publishes",
            reason_code="stream_published",
            hint="send it to another stream",
        )
    if account.is_operator or app.accounts.users.has_stream(account, stream):
        return known
    if app.accounts.resolver.stream(account, stream) is not None:
        raise DocumentError(
            f"the stream {stream!r} is public: only the operator sends documents to it",
            reason_code="stream_public",
            hint=f"'PUT /v1/streams/{stream}' makes one of your own of that name",
        )
    return known
