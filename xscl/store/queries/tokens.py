"""Tokens of programs and sessions of browsers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xscl.store.queries.lists import LISTED
from xscl.store.store import Store


def tokens(store: Store) -> Iterator[dict[str, Any]]:
    """Return all tokens with the hashes of their secrets."""
    return store.rows(
        "SELECT id, account, label, created, expires, session, parent, hash FROM state.token"
    )


def insert_token(store: Store, row: Mapping[str, object]) -> None:
    """Insert a token: a row as `tokens` returns it."""
    store.insert_rows("state.token", [row])


def delete_tokens(store: Store, ids: Sequence[str]) -> None:
    """Delete tokens, with the sessions that began with them."""
    store.fetch(
        f"DELETE FROM state.token WHERE id IN {LISTED} OR parent IN {LISTED}", [list(ids)] * 2
    )


def delete_tokens_of(store: Store, account: int) -> None:
    """Delete all tokens and sessions of an account."""
    store.fetch("DELETE FROM state.token WHERE account = ?", [account])
