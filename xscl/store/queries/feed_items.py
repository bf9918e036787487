"""Known items of feeds, by the keys of these and their identities."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from xscl.store.queries.lists import LISTED
from xscl.store.store import Store


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


def delete_items(store: Store, items: Sequence[tuple[str, str]]) -> None:
    """Delete items, given by key and identity."""
    sql = "DELETE FROM state.feed_item WHERE key = ? AND identity = ?"
    store.execute_many(sql, items)
