"""Secret addresses (capability URLs) from which feed readers fetch matches without a token.

Feed readers send no headers, so the address itself is the credential.  It can be revoked, is shown
only once, and is stored as a hash, so that a copy of the store reveals none.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from xscl.delivery.message import owner_name
from xscl.errors import XsclError
from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

MOST = 100
"""Maximum number of addresses of one feed."""


class TooManyAddresses(XsclError):
    """A feed has the maximum number of secret addresses."""

    code = "too_many_addresses"


@dataclass(frozen=True, slots=True)
class Address:
    """The stored part of a secret address: its subscription and its label.

    An address of all matches of an owner has the prefix of the owner's names as `subscription`.
    """

    id: str
    subscription: str
    label: str
    created: int

    @property
    def is_of_all(self) -> bool:
        """True if it leads to the matches of all subscriptions of its owner."""
        return not owner_name(self.subscription)


class SecretAddresses:
    """Repository of secret addresses; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._by_hash: dict[bytes, Address] = {
            row.pop("hash"): Address(**row)
            for row in rows_of(store, "secret_address", order="created, id")
        }

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    def make(self, subscription: str, label: str) -> tuple[Address, str]:
        """Create an address durably; return it with its secret, which is shown only once."""
        refuse_label(label)
        secret = secrets.token_urlsafe(32)
        made = Address(f"ad_{secrets.token_hex(12)}", subscription, label, ticks())
        with self._mutex:
            if sum(one.subscription == subscription for one in self._by_hash.values()) >= MOST:
                raise TooManyAddresses(
                    f"a feed has at most {MOST} secret addresses", hint="revoke one first"
                )
            with self._store.transaction():
                row = {"hash": _hash(secret), **asdict(made)}
                self._store.insert_rows("secret_address", [row])
            self._by_hash[_hash(secret)] = made
        return made, secret

    def find(self, secret: str) -> Address | None:
        """Look up an address by its secret; None if it is unknown or revoked."""
        return self._by_hash.get(_hash(secret))

    def of(self, subscription: str) -> list[Address]:
        """Return the addresses of a subscription in order of creation."""
        return [one for one in list(self._by_hash.values()) if one.subscription == subscription]

    def subscriptions(self) -> set[str]:
        """Return the names of all subscriptions with addresses of their own."""
        return {one.subscription for one in list(self._by_hash.values()) if not one.is_of_all}

    def rename(self, subscription: str, name: str) -> None:
        """Follow the subscription to its new name, which the store has already."""
        if subscription == name:
            return
        with self._mutex:
            self._by_hash = {
                digest: replace(one, subscription=name) if one.subscription == subscription else one
                for digest, one in self._by_hash.items()
            }

    def revoke(self, id: str) -> None:
        """Revoke an address durably."""
        self._remove(lambda one: one.id == id)

    def remove_of(self, subscriptions: Iterable[str]) -> None:
        """Revoke all addresses of subscriptions."""
        gone = set(subscriptions)
        self._remove(lambda one: one.subscription in gone)

    def _remove(self, is_gone: Callable[[Address], bool]) -> None:
        with self._mutex:
            digests = [digest for digest, one in self._by_hash.items() if is_gone(one)]
            if not digests:
                return
            with self._store.transaction():
                for digest in digests:
                    delete_rows(self._store, "secret_address", hash=digest)
            for digest in digests:
                self._by_hash.pop(digest, None)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
