"""Callbacks of WebSub hubs.

The secret part of a callback's address, and the secret of its signatures, are made from one random
key of this installation (`xscl.polling.credentials`), the feed, its hub and its topic.  Tables have
the hash of the first only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from xscl.polling.credentials import Credentials, InstallationKey

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
        self._key = InstallationKey(KEPT_AS, credentials)
        self.known: frozenset[str] = frozenset()
        """The hashes of the callbacks that have a lease: their requests may have large bodies."""

    def token(self, key: str, hub: str, topic: str) -> str:
        """Return the secret part of the callback for a feed at its hub."""
        return self._key.digest_of("callback", key, hub, topic)

    def address(self, token: str) -> str:
        """Return the address of a callback."""
        return f"{self._public}{PATH}{token}"

    def secret(self, token: str) -> str:
        """Return the secret of the signatures for a callback."""
        return self._key.digest_of("secret", token)


def digest(token: str) -> str:
    """Return the hash by which a callback is known."""
    return hashlib.sha256(token.encode()).hexdigest()
