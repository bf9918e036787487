"""The last segment of the spool that polling has appended to."""

from __future__ import annotations

from xscl.store.store import Store


def last_appended(store: Store) -> int:
    """Return the number of that segment, 0 for none."""
    return appended(store)[0]


def appended(store: Store) -> tuple[int, int | None]:
    """Return the number of that segment, and how many further ones were announced."""
    rows = store.rows("SELECT segment, announced FROM state.feed_spool")
    return next(((row["segment"], row["announced"]) for row in rows), (0, None))


def set_appended(store: Store, segment: int, announced: int | None = None) -> None:
    """Replace what `appended` returns."""
    store.fetch("DELETE FROM state.feed_spool")
    store.fetch(
        "INSERT INTO state.feed_spool (segment, announced) VALUES (?, ?)", [segment, announced]
    )
