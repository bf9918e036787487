"""Starred matches of users, with what they showed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xscl.store.store import Store


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
