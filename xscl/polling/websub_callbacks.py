"""Contents from WebSub hubs, between requests and the polling thread.

Only that thread writes items: a push that another thread wrote while a poll is on its way to the
spool could make the same item twice.  A request waits until what it brought is durable.

The secret part of a callback's address, and the secret of its signatures, are made from one random
key of this installation (`xscl.polling.credentials`), the feed, its hub and its topic.  Tables have
the hash of the first only.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from feeds.formats.items import FeedItem
from xscl.errors import Stopping
from xscl.polling.credentials import Credentials

PATH = "/websub/"
"""Path of callbacks below the public address of the service."""

TOKEN = re.compile(r"[0-9a-f]{64}")
"""The form of the secret part of a callback's address."""

KEPT_AS = "websub"  # among the credentials; the key of no feed


@dataclass(frozen=True, slots=True)
class Push:
    """Content that a hub has sent for a feed; None if it cannot be read, which makes a poll due.

    `done` is set when it is durable.
    """

    key: str
    items: tuple[FeedItem, ...] | None
    at: int
    done: Future[None] = field(default_factory=Future)


class Pushes:
    """The callbacks of a service with a public address, and what came there."""

    def __init__(self, public: str, credentials: Callable[[], Credentials]) -> None:
        """`credentials` are those of the installation, read when the first callback is made."""
        self._public = public.rstrip("/")
        self._credentials = credentials
        self._mutex = threading.Lock()
        self._waiting: list[Push] = []
        self._is_closed = False
        self._key: bytes | None = None
        self.known: frozenset[str] = frozenset()
        """The hashes of the callbacks that have a lease: their requests may have large bodies."""

    # -- Callbacks -------------------------------------------------------------------------

    def token(self, key: str, hub: str, topic: str) -> str:
        """Return the secret part of the callback for a feed at its hub."""
        return self._made("callback", key, hub, topic)

    def address(self, token: str) -> str:
        """Return the address of a callback."""
        return f"{self._public}{PATH}{token}"

    def secret(self, token: str) -> str:
        """Return the secret of the signatures for a callback."""
        return self._made("secret", token)

    def _made(self, *parts: str) -> str:
        message = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret_key(), message, hashlib.sha256).hexdigest()

    def _secret_key(self) -> bytes:
        with self._mutex:
            if self._key is None:
                credentials = self._credentials()
                kept = credentials.of(KEPT_AS).get("key") or secrets.token_hex(32)
                credentials.change({KEPT_AS: {"key": kept}})
                self._key = bytes.fromhex(kept)
            return self._key

    # -- Content ---------------------------------------------------------------------------

    def put(self, push: Push) -> None:
        """Queue what came; raises Stopping."""
        with self._mutex:
            if self._is_closed:
                raise Stopping()
            self._waiting.append(push)

    def take(self) -> list[Push]:
        """Return the contents that arrived since the last call."""
        with self._mutex:
            taken, self._waiting = self._waiting, []
            return taken

    def close(self) -> None:
        """Refuse what waits and what comes."""
        with self._mutex:
            self._is_closed = True
        refuse(self.take(), Stopping())


def refuse(pushes: list[Push], error: BaseException) -> None:
    """Fail the requests whose content is not durable; hubs send it again."""
    for push in pushes:
        with suppress(InvalidStateError):  # it was done before the failure
            push.done.set_exception(error)


def digest(token: str) -> str:
    """Return the hash by which a callback is known."""
    return hashlib.sha256(token.encode()).hexdigest()
