"""Accounts of users, and the streams that they own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.store import Store


def accounts(store: Store, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Return number, name and quota (JSON) of all accounts, or of those of a name."""
    return store.rows(
        "SELECT number, name, quota FROM state.account WHERE name = coalesce(?, name)", [name]
    )


def account_numbers(store: Store) -> dict[str, int]:
    """Return the numbers of all accounts by their names."""
    return {row["name"]: row["number"] for row in accounts(store)}


def last_account(store: Store) -> int:
    """Return the largest number of an account, 0 without any."""
    return max((row["number"] for row in accounts(store)), default=0)


def insert_account(store: Store, *, number: int, name: str, quota: str, created: int) -> None:
    """Insert an account; `quota` is JSON, `created` in ticks."""
    store.fetch(
        "INSERT INTO state.account (number, name, quota, created) VALUES (?, ?, ?, ?)",
        [number, name, quota, created],
    )


def set_quota(store: Store, number: int, quota: str) -> None:
    """Replace the quota of an account."""
    store.fetch("UPDATE state.account SET quota = ? WHERE number = ?", [quota, number])


def owned_streams(store: Store) -> list[tuple[int, str]]:
    """Return account and name of all streams that users own."""
    return [
        (row["account"], row["name"])
        for row in store.rows("SELECT account, name FROM state.owned_stream")
    ]


def insert_owned_stream(store: Store, account: int, name: str) -> None:
    """Make an account the owner of a stream, given by the user's name for it."""
    store.fetch("INSERT INTO state.owned_stream (account, name) VALUES (?, ?)", [account, name])
