"""Followed feeds, by their keys.

Times are ticks; `tags` and `header_names` go in and come out as sequences.  The addresses that
look secret stand as they may be shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from xscl.store.queries.lists import LISTED, contains
from xscl.store.queries.owners import OPERATOR, own_condition
from xscl.store.queries.rows import update_rows
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

_POLLED = (
    *("url", "title", "etag", "last_modified", "validated_by", "unchanged", "ttl", "skip_hours"),
    *("skip_days", "polled", "polls", "failures", "error", "gone", "domain", "site_url", "format"),
    *("quality", "note", "failing_since", "code", "moved_to", "moved_polls", "hub", "topic"),
    "header_names",
)
"""The columns that a poll may change, besides the time of the next one."""
_EDITED = ("tags", "every", "gone", "next_poll", "header_names")


def _feeds(store: Store, rest: str, *parameters: object) -> Iterator[dict[str, Any]]:
    return store.rows(f"SELECT {named(TABLES['feed'].names)} FROM state.feed {rest}", parameters)


def feeds_among(store: Store, keys: Collection[str], url: str = "") -> Iterator[dict[str, Any]]:
    """Return the feeds of some keys, and those of an address."""
    return _feeds(store, f"WHERE url = ? OR key IN {LISTED}", url, list(keys))


def feeds_of(
    store: Store, owner: str, *, after: str = "", limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Return the feeds of an owner in the order of their keys, those after a key.

    The owner is given by the prefix of his names, such as `_7.`; the operator has none.
    """
    most = "" if limit is None else f" LIMIT {limit}"
    own = own_condition("key", int(owner[1:-1] or OPERATOR))
    return _feeds(store, f"WHERE {own} AND key > ? ORDER BY key{most}", after)


def due_feeds(store: Store, now: int) -> Iterator[dict[str, Any]]:
    """Return the due feeds, the longest waiting first."""
    return _feeds(store, "WHERE gone = false AND next_poll <= ? ORDER BY next_poll, key", now)


def next_due(store: Store, now: int, *, busy: Collection[str], most: int) -> list[str]:
    """Return the key of the next feed of each domain that is not busy, the longest waiting first.

    As few as possible are read, in the order of an index: 36,000 may be due after a pause.
    """
    limit = most
    while True:
        rows = store.fetch(
            "SELECT key, domain FROM state.feed WHERE gone = false AND next_poll <= ?"
            " ORDER BY next_poll, key LIMIT ?",
            [now, limit],
        )
        first: dict[str, str] = {}
        for key, domain in rows:
            if domain not in busy:
                first.setdefault(domain, key)
        if len(first) >= most or len(rows) < limit:
            return list(first.values())[:most]
        limit *= 8


def has_feeds_on(store: Store, stream: str) -> bool:
    """Return True if a stream belongs to a feed or to a tag of feeds."""
    query = f"SELECT 1 FROM state.feed WHERE stream = ? OR {contains('tags')} LIMIT 1"
    return bool(store.fetch(query, [stream, stream]))


def heard_until(store: Store, *, least: int, every: int) -> int | None:
    """Return the time up to which all feeds were polled, in ticks; None if there are none.

    The oldest due poll may wait for `least` ticks, or for `every` of them for each second between
    polls of its feed.
    """
    ((found,),) = store.fetch(
        "SELECT min(next_poll + CASE WHEN every * ? > ? THEN every * ? ELSE ? END)"
        " FROM state.feed WHERE NOT gone",
        [every, least] * 2,
    )
    return None if found is None else int(found)


def update_feed(store: Store, row: Mapping[str, object]) -> None:
    """Write the editable columns of a feed, given as a row as `feeds` returns it."""
    update_rows(store, "feed", {name: row[name] for name in _EDITED}, key=str(row["key"]))


def update_polled(
    store: Store,
    rows: Sequence[Mapping[str, object]],
    *,
    was_due: Sequence[int | None],
    again: Sequence[int],
) -> None:
    """Write what polls have changed of feeds, given as rows as `feeds` returns them.

    `was_due` is when each feed was due as its poll began: if that has changed since, it is polled
    `again` at a time, or when it is due now if that is later.
    """
    changes = ", ".join(f"{name} = ?" for name in _POLLED)
    for row, due, later in zip(rows, was_due, again, strict=True):
        values, then = map(row.__getitem__, _POLLED), row["next_poll"]
        store.fetch(
            f"UPDATE state.feed SET {changes}, next_poll = CASE WHEN next_poll <> ?"
            " THEN min(?, max(next_poll, ?)) ELSE ? END WHERE key = ?",
            [*values, due, then, later, then, row["key"]],
        )


def mark_polled(store: Store, keys: Collection[str]) -> None:
    """Record that feeds have been polled at least once."""
    store.fetch(
        f"UPDATE state.feed SET polls = 1 WHERE polls < 1 AND key IN {LISTED}", [list(keys)]
    )


def hold_domain(store: Store, domain: str, until: int) -> None:
    """Put off the polls of a domain until a time."""
    store.fetch(
        "UPDATE state.feed SET next_poll = ? WHERE domain = ? AND next_poll < ?",
        [until, domain, until],
    )


def poll_again(store: Store, key: str, *, now: int, least: int) -> None:
    """Let a feed be polled after `now`, and `least` ticks after its last poll.

    A feed that is due may just be polled: as its time changes, it is polled once more.
    """
    store.fetch(
        "UPDATE state.feed SET next_poll = max(?1, coalesce(polled, 0) + ?2)"
        " WHERE key = ?3 AND next_poll NOT BETWEEN ?1 AND max(?1, coalesce(polled, 0) + ?2)",
        [now + 1, least, key],
    )
