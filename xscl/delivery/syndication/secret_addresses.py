"""Secret addresses (capability URLs) from which feed readers fetch matches without a token.

Feed readers send no headers, so the address itself is the credential.  It can be revoked, is shown
only once, and is stored as a hash, so that a copy of the store reveals none.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

from xscl.errors import XsclError
from xscl.language.names import owner_name, refuse_label
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


_SHOWN = [field.name for field in fields(Address)]


class SecretAddresses:
    """The stored secret addresses; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def close(self) -> None:
        """Close the connection."""
        self._store.close()

    def make(self, subscription: str, label: str) -> tuple[Address, str]:
        """Create an address durably; return it with its secret, which is shown only once."""
        refuse_label(label)
        secret = secrets.token_urlsafe(32)
        made = Address(f"ad_{secrets.token_hex(12)}", subscription, label, ticks())
        with self._store.transaction():
            if len(self.of(subscription)) >= MOST:
                raise TooManyAddresses(
                    f"a feed has at most {MOST} secret addresses", hint="revoke one first"
                )
            row = {"hash": _hash(secret), **asdict(made)}
            self._store.insert_rows("secret_address", [row])
        return made, secret

    def find(self, secret: str) -> Address | None:
        """Look up an address by its secret; None if it is unknown or revoked."""
        rows = rows_of(self._store, "secret_address", *_SHOWN, hash=_hash(secret))
        return next((Address(**row) for row in rows), None)

    def of(self, subscription: str) -> list[Address]:
        """Return the addresses of a subscription in order of creation."""
        wanted = {"order": "created, id", "subscription": subscription}
        rows = rows_of(self._store, "secret_address", *_SHOWN, **wanted)
        return [Address(**row) for row in rows]

    def revoke(self, id: str) -> None:
        """Revoke an address durably."""
        delete_rows(self._store, "secret_address", id=id)

    def revoke_lost(self, exists: Callable[[str], bool]) -> None:
        """Revoke the addresses of subscriptions that do not exist."""
        rows = rows_of(self._store, "secret_address", "subscription")
        named = {row["subscription"] for row in rows if owner_name(row["subscription"])}
        delete_rows(
            self._store,
            "secret_address",
            subscription=[name for name in named if not exists(name)],
        )


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
