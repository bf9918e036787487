"""Callbacks of WebSub hubs.

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

from xscl.polling.credentials import Credentials

PATH = "/websub/"
"""Path of callbacks below the public address of the service."""

TOKEN = re.compile(r"[0-9a-f]{64}")
"""The form of the secret part of a callback's address."""

KEPT_AS = "websub"  # among the credentials; the key of no feed


class HubCallbacks:
    """The callbacks of a service with a public address."""

    def __init__(self, public: str, credentials: Callable[[], Credentials]) -> None:
        """`credentials` are those of the installation, read when the first callback is made."""
        self._public = public.rstrip("/")
        self._credentials = credentials
        self._mutex = threading.Lock()
        self._key: bytes | None = None
        self.known: frozenset[str] = frozenset()
        """The hashes of the callbacks that have a lease: their requests may have large bodies."""

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


def digest(token: str) -> str:
    """Return the hash by which a callback is known."""
    return hashlib.sha256(token.encode()).hexdigest()
