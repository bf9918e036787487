"""Starred matches of users, with what they showed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from xscl.store.queries.lists import LISTED
from xscl.store.store import Store


def starred_matches(store: Store, account: int) -> set[str]:
    """Return the ids of all matches that an account has starred."""
    rows = store.rows("SELECT match FROM state.star WHERE account = ?", [account])
    return {row["match"] for row in rows}


def starred_among(store: Store, account: int, matches: Collection[str]) -> set[str]:
    """Return those of the ids of matches that an account has starred."""
    rows = store.rows(
        f"SELECT match FROM state.star WHERE account = ? AND match IN {LISTED}",
        [account, list(matches)],
    )
    return {row["match"] for row in rows}


def stars(
    store: Store, account: int, *, before: tuple[int, str] | None = None, limit: int
) -> Iterator[dict[str, Any]]:
    """Return the newest stars of an account, or those before a time (ticks) and a match.

    `view` is what the match showed, as JSON.
    """
    return store.rows(
        "SELECT match, subscription, starred, view FROM state.star"
        " WHERE account = ? AND (? OR (starred, match) < (?, ?))"
        " ORDER BY starred DESC, match DESC LIMIT ?",
        [account, before is None, *(before or (0, "")), limit],
    )


def insert_star(store: Store, row: Mapping[str, object]) -> None:
    """Insert a star: account, match, name of the subscription in the engine, starred, view."""
    store.insert_rows("state.star", [row])


def delete_star(store: Store, account: int, match: str) -> None:
    """Delete the star of a match, if it has one."""
    store.fetch("DELETE FROM state.star WHERE account = ? AND match = ?", [account, match])


def delete_stars_of(store: Store, subscription: str) -> None:
    """Delete the stars of all matches of a subscription."""
    store.fetch("DELETE FROM state.star WHERE subscription = ?", [subscription])
