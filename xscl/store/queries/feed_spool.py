"""The last segment of the spool that polling has appended to."""

from __future__ import annotations

from xscl.store.store import Store


def last_appended(store: Store) -> int:
    """Return the number of that segment, 0 for none; a store without feeds has no table."""
    if not store.has("feed_spool"):
        return 0
    (row,) = store.rows("SELECT coalesce(max(segment), 0) AS last FROM state.feed_spool")
    return int(row["last"])
