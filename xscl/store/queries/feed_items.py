"""Known items of feeds, by the keys of these and their identities."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from xscl.store.queries.lists import LISTED
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store


def items_of(store: Store, keys: Collection[str]) -> Iterator[dict[str, Any]]:
    """Return the items of feeds; `first_name`, `all_names` and `alike` are below 2 ** 64."""
    return rows_of(store, "feed_item", key=keys)


def count_items(store: Store, keys: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """Return the numbers of known items of each feed, for some feeds or all.

    Columns: key, items, their versions, skipped changes, items with a clipped time and without one.
    """
    among = "" if keys is None else f" WHERE key IN {LISTED}"
    return store.rows(
        "SELECT key, count(*) AS items, sum(versions) AS versions,"
        " coalesce(sum(skipped), 0) AS skipped, count(*) FILTER (WHERE clipped) AS clipped,"
        " count(*) FILTER (WHERE time_from = 'seen_at') AS undated"
        f" FROM state.feed_item{among} GROUP BY key",
        [] if keys is None else [list(keys)],
    )


def replace_items(store: Store, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert items, rows as `items_of` returns them, or replace those that are there."""
    store.insert_rows("state.feed_item", rows, replace=True)


def delete_items(store: Store, items: Sequence[tuple[str, str]]) -> None:
    """Delete items, given by key and identity."""
    sql = "DELETE FROM state.feed_item WHERE key = ? AND identity = ?"
    store.execute_many(sql, items)
