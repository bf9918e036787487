"""What requests may touch: one value, made when the service starts, passed to whoever answers."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from feeds.spool import Spool
from xscl.delivery.outbox.outbox import Outbox
from xscl.engine.facade import Engine
from xscl.ingestion.consumer_watch import ConsumerWatch
from xscl.language.names import EVERYTHING
from xscl.limiter import FairLimiter, KeyedLimiter, TokenBuckets
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import Fetching
from xscl.polling.feed_repository import Feeds
from xscl.service.accounts import THE_OPERATOR, Accounts
from xscl.service.answers import Answers
from xscl.service.backups import Backups
from xscl.service.client_address import Network
from xscl.service.connection_limit import CONNECTIONS, ConnectionLimit
from xscl.service.intake import DOCUMENTS, Intake
from xscl.service.metrics import Metrics
from xscl.service.names import OPERATOR, owner
from xscl.service.registrar import Registrar
from xscl.service.resolving import Resolver
from xscl.service.sql import UserSql
from xscl.service.tokens import Tokens
from xscl.service.usage import Usage
from xscl.store.data_directory import Home
from xscl.store.disk_guard import DiskRoom
from xscl.store.store import Store


@dataclass(frozen=True, slots=True)
class Settings:
    """How the service listens, and the limits of what it takes.

    `names` are the host names by which browsers may call it, besides addresses.  `body` is the
    most bytes of a document, `bulk` those of an import, `form` those of any other request; all have
    to come within `patience` seconds.
    `trusted_proxies` are networks whose `X-Forwarded-For` is believed.  `connections` is the most
    of one client at the same time.
    `warm`: what answers SQL is loaded before the first question.  `waiting` documents may wait to
    be consumed; then no more are taken for a while.
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
    warm: bool = True
    waiting: int = DOCUMENTS
    fetching: Fetching = field(default_factory=Fetching)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_open(self) -> bool:
        """Whether a request of this machine without a token is the operator's.

        A service with a name is meant for others: they come through a proxy on this machine.
        """
        return self.is_loopback and not self.names


class Readers:
    """Connections for reading (and for small writes) beside the engine, without its lock."""

    def __init__(self, engine: Engine) -> None:
        self._root = engine.host.connect()
        self._mutex = threading.Lock()
        self._idle: queue.SimpleQueue[Store] = queue.SimpleQueue()
        self._made: list[Store] = []

    @contextmanager
    def __call__(self) -> Iterator[Store]:
        """Yield a store that nobody else uses while the block runs."""
        try:
            store = self._idle.get_nowait()
        except queue.Empty:
            with self._mutex:
                store = self._root.beside()
                self._made.append(store)
        try:
            yield store
        finally:
            self._idle.put(store)

    def close(self) -> None:
        """Close all connections; nobody may be reading any more."""
        with self._mutex:
            for store in (*self._made, self._root):
                store.close()


class PublicStreams:
    """Which public streams there are: declared, published, sent to, or seen in documents."""

    def __init__(self, engine: Engine, accounts: Accounts, reading: Readers) -> None:
        self._engine = engine
        self._accounts = accounts
        self._reading = reading
        self._seen: set[str] = set()
        self._seen_at = -_LOOK
        self._missed: dict[str, float] = {}

    def known(self, name: str) -> bool:
        """Return whether a public stream has this name; of one that none had, a second later."""
        if owner(name)[0] != OPERATOR:
            return False
        if self.is_at_hand(name):
            return True
        now = time.monotonic()
        if now - self._missed.get(name, -_MISSED) < _MISSED:
            return False
        with self._reading() as store:
            rows = store.fetch(
                "SELECT 1 FROM state.document WHERE list_contains(streams, ?) LIMIT 1", [name]
            )
        if rows:
            self._seen.add(name)
            return True
        if len(self._missed) >= _MISSES:
            self._missed.clear()
        self._missed[name] = now
        return False

    def is_at_hand(self, name: str) -> bool:
        """Whether a public stream is known to have this name without looking at documents."""
        if owner(name)[0] != OPERATOR:
            return False
        if name == EVERYTHING or name in self._seen or self._engine.host.catalog.has_stream(name):
            return True
        return self._accounts.has_stream(THE_OPERATOR, name)

    def names(self) -> set[str]:
        """Return the names of all public streams; those of documents may be seconds old."""
        if time.monotonic() - self._seen_at > _LOOK:
            with self._reading() as store:
                rows = store.fetch("SELECT DISTINCT unnest(streams) FROM state.document")
            self._seen = {name for (name,) in rows if owner(name)[0] == OPERATOR}
            self._seen_at = time.monotonic()
        known = (*self._engine.host.catalog.stream_names(), *self._accounts.streams(THE_OPERATOR))
        return {EVERYTHING, *self._seen, *(n for n in known if owner(n)[0] == OPERATOR)}


QUESTIONS, IMPORTS = 2, 4
"""Questions and imports that are worked on at the same time; each keeps a core busy."""

CONFIRMING = 4
"""Codes that are mailed at the same time: each holds a thread while the mail server answers."""

_LOOK = 10.0
"""Seconds from one look at the streams of all documents to the next."""

_MISSED, _MISSES = 1.0, 1_000
"""Seconds for which it is remembered that there is no stream of a name, and of how many names."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What requests may touch.

    `feeds` has a connection of its own, which one request at a time may use: take `feeds_lock`.
    `reading` yields a store for one request.  `registrar` registers queries, `intake` takes
    documents, both many together; `clock` gives times to arrivals; `resolver` knows what the
    names in queries stand for.
    `connections` counts those of each client, in the event loop of the server; `watch` says
    whether the consumer advances.
    `answers` resolves futures with the results of threads.  `questions`, `imports` and
    `confirming` limit concurrency, by account number; `requests` limits the rate and `listeners`
    the number of event streams.  Hold `endpoints_lock` to count endpoints and make one.
    """

    home: Home
    engine: Engine
    feeds: Feeds
    spool: Spool
    outbox: Outbox
    settings: Settings
    accounts: Accounts
    tokens: Tokens
    registrar: Registrar
    reading: Readers
    public: PublicStreams
    resolver: Resolver
    clock: ArrivalClock
    intake: Intake
    usage: Usage
    sql: UserSql
    metrics: Metrics
    backups: Backups
    connections: ConnectionLimit
    watch: ConsumerWatch
    feeds_lock: threading.Lock = field(default_factory=threading.Lock)
    endpoints_lock: threading.Lock = field(default_factory=threading.Lock)
    requests: TokenBuckets[int] = field(default_factory=TokenBuckets[int])
    listeners: KeyedLimiter[int] = field(default_factory=KeyedLimiter[int])
    answers: Answers = field(default_factory=Answers)
    questions: FairLimiter = field(default_factory=lambda: FairLimiter(QUESTIONS))
    imports: FairLimiter = field(default_factory=lambda: FairLimiter(IMPORTS, 0, 0.0))
    confirming: FairLimiter = field(default_factory=lambda: FairLimiter(CONFIRMING, 0, 0.0))


@contextmanager
def installed(
    home: Home,
    engine: Engine,
    spool: Spool,
    outbox: Outbox,
    settings: Settings,
    room: DiskRoom,
    clock: ArrivalClock,
    watch: ConsumerWatch,
) -> Iterator[Installation]:
    """Yield an installation over an engine and a spool, which the caller has and closes."""
    with ExitStack() as stack:
        feeds = stack.enter_context(Feeds(engine, clock=clock.now))
        readers = stack.enter_context(closing(Readers(engine)))
        own, tokens = (stack.enter_context(closing(engine.host.connect())) for _ in range(2))
        accounts = Accounts(own)
        public = PublicStreams(engine, accounts, readers)
        resolver = Resolver(accounts, public.known, public.is_at_hand)
        usage = Usage((one.name for one in engine.subscriptions), (feed.key for feed in feeds))
        registrar = stack.enter_context(closing(Registrar(engine)))
        sql = stack.enter_context(UserSql(engine, home.path))
        if settings.warm:
            sql.start()
        outbox.mail_limit = accounts.mails_of
        intake = Intake(spool, engine, room, clock, settings.waiting)
        stack.enter_context(closing(intake))
        yield Installation(
            *(home, engine, feeds, spool, outbox, settings),
            *(accounts, Tokens(tokens, accounts), registrar, readers, public, resolver),
            *(clock, intake, usage, sql, Metrics(engine, home)),
            Backups(home, engine, readers, room),
            connections=ConnectionLimit(settings.connections),
            watch=watch,
        )
