"""Secret addresses, from which feed readers fetch matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xscl.store.store import Store


def secret_addresses(store: Store) -> Iterator[dict[str, Any]]:
    """Return all addresses, with the hashes of their secrets, in the order of their creation."""
    return store.rows(
        "SELECT hash, id, subscription, label, created FROM state.secret_address"
        " ORDER BY created, id"
    )


def insert_secret_address(store: Store, row: Mapping[str, object]) -> None:
    """Insert an address: a row as `secret_addresses` returns it."""
    store.insert_rows("state.secret_address", [row])


def delete_secret_address(store: Store, hash: bytes) -> None:
    """Delete the address of a secret, given by the hash of this."""
    store.fetch("DELETE FROM state.secret_address WHERE hash = ?", [hash])
