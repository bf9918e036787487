"""What requests may touch: one value, made when the service starts, passed to whoever answers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Protocol

from feeds.spool import Spool
from xscl.engine import Engine
from xscl.followed import Feeds
from xscl.following import Fetching
from xscl.home import Home
from xscl.matches import Matches
from xscl.service.accounts import Accounts
from xscl.service.registrar import Registrar
from xscl.service.tokens import Tokens
from xscl.store import Store


class Outbox(Protocol):
    """Where matches go when they have come."""

    def notify(self, matches: Matches) -> None:
        """Be told of the matches of a push, in the thread that made it; returns at once."""

    def removed(self, names: Iterable[str]) -> None:
        """Be told that subscriptions, by the names that the engine knew, are no more."""


class Silent:
    """An outbox from which nothing is delivered."""

    def notify(self, matches: Matches) -> None:
        """Do nothing."""

    def removed(self, names: Iterable[str]) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the service listens, and the limits of what it takes.

    `names` are the host names by which browsers may call it, besides addresses.  `body` is the
    most bytes of a request, `bulk` those of an import; both have to come within `patience` seconds.
    """

    host: str = "127.0.0.1"
    port: int = 8425
    names: tuple[str, ...] = ()
    body: int = 11_000_000
    bulk: int = 256_000_000
    patience: float = 60.0
    guesses: int = 20
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
        """Whether who brings no token is the operator."""
        return self.is_loopback


class Readers:
    """Connections for reading (and for small writes) beside the engine, without its lock."""

    def __init__(self, engine: Engine) -> None:
        self._root = engine.store()
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


@dataclass(frozen=True, slots=True)
class Installation:
    """What requests may touch.

    `feeds` has a connection of its own, which one request at a time may use: take `feeds_lock`.
    `reading` yields a store for one request.  `registrar` registers queries, many together.
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
    feeds_lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def installed(
    home: Home, engine: Engine, spool: Spool, outbox: Outbox, settings: Settings
) -> Iterator[Installation]:
    """Yield an installation over an engine and a spool, which the caller has and closes."""
    with Feeds(engine) as feeds:
        readers = Readers(engine)
        own = engine.store()
        registrar = Registrar(engine)
        try:
            accounts = Accounts(own)
            tokens = Tokens(own, accounts)
            yield Installation(
                *(home, engine, feeds, spool, outbox, settings),
                *(accounts, tokens, registrar, readers),
            )
        finally:
            registrar.close()
            own.close()
            readers.close()
