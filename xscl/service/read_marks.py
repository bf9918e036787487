"""Read marks of items and matches, and the order in which a user reads items."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal, TypeAlias, cast

from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account
from xscl.store.queries import owned_rows as stored
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

MOST = 10_000
"""Marks of one user; the oldest go first."""
LONGEST = 1_000
"""Characters of what is marked: the id of a match, or the name of a document."""

ItemOrder: TypeAlias = Literal["arrival", "date"]
"""An order of items: by their arrival, or by their own dates; the newest first."""

_ORDER = "items"


def read_among(store: Store, account: Account, items: Collection[str]) -> set[str]:
    """Return those of some items and matches that a user has read."""
    rows = rows_of(store, "read_mark", "item", account=account.number, item=items)
    return {row["item"] for row in rows}


def mark_read(store: Store, account: Account, items: Collection[str], *, read: bool) -> None:
    """Mark items and matches as read or unread."""
    with store.transaction():
        if not read:
            delete_rows(store, "read_mark", account=account.number, item=items)
            return
        now = ticks()
        rows = [{"account": account.number, "item": one, "read": now} for one in items]
        store.insert_rows("read_mark", rows, replace=True)
        stored.trim_marks(store, account.number, MOST)


def read_marks(
    store: Store, account: Account, limit: int, after: str = ""
) -> Iterator[dict[str, Any]]:
    """Return the marks of a user after an item, by their items: `item`, and `read` in ticks."""
    return stored.read_marks(store, account.number, after=after, limit=limit)


def item_order(store: Store, account: Account) -> ItemOrder:
    """Return the order in which a user reads items."""
    rows = rows_of(store, "preference", "value", account=account.number, name=_ORDER)
    return cast("ItemOrder", next((row["value"] for row in rows), "arrival"))


def set_item_order(store: Store, account: Account, order: ItemOrder) -> None:
    """Set the order in which a user reads items."""
    row = {"account": account.number, "name": _ORDER, "value": order}
    with store.transaction():
        store.insert_rows("preference", [row], replace=True)
