"""Followed feeds, by their keys, with their items, last polls and leases at WebSub hubs.

Times are ticks; `tags` and `header_names` are sequences as arguments and in answers.  Addresses
have their secret parts masked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xscl.store.queries.owners import OPERATOR, own_condition
from xscl.store.queries.rows import LISTED, among, contains
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

_GIVEN = ("key", "stream", "added", "given_title", "tags", "every", "next_poll")
_POLLED = tuple(name for name in TABLES["feed"].names if name not in _GIVEN)
"""The columns that a poll may change, besides the time of the next one."""


_TITLE = "coalesce(nullif(given_title, ''), title)"
ORDERS = {
    "key": "''",
    "name": f"in_small_letters(substr(coalesce(nullif({_TITLE}, ''), url), 1, 200))",
    "state": "CASE WHEN gone THEN 0 WHEN error IS NOT NULL THEN 1 WHEN polls = 0 THEN 2 ELSE 3 END",
    "item": "-coalesce(last_item, 0)",
}
"""The SQL of the sort keys of lists: key, title, failing feeds first, newest item first."""


def _feeds(store: Store, rest: str, *parameters: object) -> Iterator[dict[str, Any]]:
    return store.rows(f"SELECT {named(TABLES['feed'].names)} FROM state.feed {rest}", parameters)


def feeds_among(store: Store, keys: Collection[str], url: str = "") -> Iterator[dict[str, Any]]:
    """Return the rows of the feeds with some keys, and of those at an address."""
    return _feeds(store, f"WHERE url = ? OR key IN {LISTED}", url, list(keys))


class FeedPlace(NamedTuple):
    """The place of a feed in an order of `ORDERS`: its value in that order, and its key."""

    value: str | int
    key: str


def place_of(store: Store, key: str, order: str) -> FeedPlace | None:
    """Return the place of a feed in an order; None if the feed is unknown."""
    rows = store.fetch(f"SELECT {ORDERS[order]} FROM state.feed WHERE key = ?", [key])
    return FeedPlace(rows[0][0], key) if rows else None


def feeds_of(
    store: Store,
    owner: str,
    *,
    after: FeedPlace | None = None,
    limit: int | None = None,
    order: str = "key",
    text: str = "",
    tag: str = "",
) -> Iterator[dict[str, Any]]:
    """Return the feeds of an owner as rows, in an order of `ORDERS`, those after a place.

    `text` selects those with it in title, address or stream, in capitals or not, and `tag` those
    with the tag; '' selects all.  The owner is given by the prefix of his names, such as `_7.`; for
    the operator it is ''.
    """
    by = ORDERS[order]
    conditions, parameters = [_own(owner)], list[object]()
    if after and order == "key":
        conditions.append("key > ?")
        parameters.append(after.key)
    elif after:
        conditions.append(f"({by}, key) > (?, ?)")
        parameters += after
    if text:
        searched = f"in_small_letters({_TITLE} || ' ' || url || ' ' || stream)"
        conditions.append(f"instr({searched}, ?) > 0")
        parameters.append(text.lower())
    if tag:
        conditions.append(contains("tags"))
        parameters.append(tag)
    most = "" if limit is None else f" LIMIT {limit}"
    return _feeds(store, f"WHERE {' AND '.join(conditions)} ORDER BY {by}, key{most}", *parameters)


def tags_of_feeds(store: Store, owner: str) -> list[str]:
    """Return the tags of an owner's feeds, each once, in alphabetical order."""
    rows = store.rows(
        f"SELECT DISTINCT value AS tag FROM state.feed, json_each(tags) WHERE {_own(owner)}"
        " ORDER BY tag",
        [],
    )
    return [row["tag"] for row in rows]


def _own(owner: str) -> str:
    return own_condition("feed.key", int(owner[1:-1] or OPERATOR))


def due_feeds(store: Store, now: int) -> Iterator[dict[str, Any]]:
    """Return the due feeds, the longest waiting first."""
    return _feeds(store, "WHERE gone = false AND next_poll <= ? ORDER BY next_poll, key", now)


def next_due(store: Store, now: int, *, busy: Collection[str], most: int) -> list[str]:
    """Return the key of the next due feed of each domain not busy, the longest waiting first.

    At most `most` keys.  As few rows as possible are read: 36,000 may be due after a pause.
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
    """Return the time up to which all feeds were polled, in ticks; None if there are no feeds.

    A feed that is due is waited for: `least` ticks, or `every` ticks for each second between its
    polls, if that is longer.
    """
    ((found,),) = store.fetch(
        "SELECT min(next_poll + CASE WHEN every * ? > ? THEN every * ? ELSE ? END)"
        " FROM state.feed WHERE NOT gone",
        [every, least] * 2,
    )
    return None if found is None else int(found)


def update_polled(
    store: Store,
    rows: Sequence[Mapping[str, object]],
    *,
    was_due: Sequence[int | None],
    again: Sequence[int],
) -> None:
    """Write what polls have changed of feeds; `rows` are like those of `feeds_of`.

    `was_due` has the time at which each feed was due as its poll began.  If the stored time
    differs, the next poll is at the later of that and the time in `again`, but not after the row's.
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
    """Postpone the polls of a domain's feeds until a time."""
    store.fetch(
        "UPDATE state.feed SET next_poll = ? WHERE domain = ? AND next_poll < ?",
        [until, domain, until],
    )


def make_due(store: Store, now: int, *, least: int, key: str = "", owner: str = "") -> int:
    """Make a feed due, or all of an owner, at the earliest `least` ticks after the last poll.

    A poll of a due feed may be running: since the time of the feed changes, it is polled once more
    afterwards (`update_polled`).  Return the number of feeds.
    """
    which, parameters = ("key = ?3", [key]) if key else (_own(owner), [])
    rows = store.fetch(
        "UPDATE state.feed SET next_poll = CASE"
        " WHEN next_poll <= ?1 THEN max(next_poll + 1, coalesce(polled, 0) + ?2)"
        " ELSE min(next_poll, max(?1, coalesce(polled, 0) + ?2)) END"
        f" WHERE NOT gone AND {which} RETURNING key",
        [now, least, *parameters],
    )
    return len(rows)


def polled_since(store: Store, owner: str, since: int, until: int) -> dict[str, int]:
    """Return the numbers of feeds of an owner that were polled since a time, and of new items.

    Keys: `feeds`; `found`, the new items; `failed`, the feeds with an error; `due`, the feeds that
    are due before `until` and were not polled.
    """
    (found,) = store.rows(
        "SELECT count(DISTINCT key) AS feeds, coalesce(sum(p.items), 0) AS found,"
        " count(DISTINCT key) FILTER (WHERE feed.error IS NOT NULL) AS failed,"
        " (SELECT count(*) FROM state.feed WHERE NOT gone AND next_poll <= ?2"
        f" AND coalesce(polled, 0) < ?1 AND {_own(owner)}) AS due"
        " FROM state.feed JOIN state.feed_poll p USING (key)"
        f" WHERE feed.polled >= ?1 AND p.polled >= ?1 AND {_own(owner)}",
        [since, until],
    )
    return found


def given_titles(store: Store, docs: Collection[int]) -> dict[int, str]:
    """Return the users' names for the feeds that documents came from, by document; '' if none."""
    listed, parameters = among(docs)
    rows = store.rows(
        "SELECT d.doc, f.given_title FROM state.document d JOIN state.feed f ON f.key = d.origin"
        f" WHERE d.doc IN ({listed})",
        parameters,
    )
    return dict.fromkeys(docs, "") | {row["doc"]: row["given_title"] or "" for row in rows}


# -- Items -------------------------------------------------------------------------------


def count_items(store: Store, keys: Collection[str] | None = None) -> Iterator[dict[str, Any]]:
    """Return the numbers of known items of each feed, for some feeds or all.

    Columns: `key`, `items`, their `versions`, `skipped` changes, and the items with a `clipped`
    time and without a time (`undated`).
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


# -- Leases ------------------------------------------------------------------------------


def count_leases(store: Store) -> int:
    """Return the number of feeds whose hubs have confirmed to send new items."""
    (row,) = store.rows("SELECT count(*) AS leases FROM state.feed_lease WHERE until IS NOT NULL")
    return int(row["leases"])


def wanted_leases(store: Store, now: int, most: int) -> list[tuple[str, str, str]]:
    """Return (key, hub, topic) of feeds whose hubs are to be asked: the due ones, then new ones."""
    rows = store.rows(
        "SELECT key, f.hub, f.topic FROM state.feed f LEFT JOIN state.feed_lease l USING (key)"
        " WHERE f.hub IS NOT NULL AND NOT f.gone AND f.error IS NULL"
        " AND (l.due IS NULL OR l.due <= ? OR (l.hub, l.topic) <> (f.hub, f.topic))"
        " ORDER BY l.due NULLS LAST, key LIMIT ?",
        [now, most],
    )
    return [(row["key"], row["hub"], row["topic"]) for row in rows]


def ended_leases(store: Store, now: int) -> list[str]:
    """Return the keys of the feeds whose leases have ended."""
    rows = store.rows("SELECT key FROM state.feed_lease WHERE until <= ?", [now])
    return [row["key"] for row in rows]


def leases_without_hub(store: Store) -> list[str]:
    """Return the keys of leases whose feeds were removed or name no hub."""
    rows = store.rows(
        "SELECT key FROM state.feed_lease WHERE key NOT IN"
        " (SELECT key FROM state.feed WHERE hub IS NOT NULL AND NOT gone)"
    )
    return [row["key"] for row in rows]


def note_problem(store: Store, key: str, note: str, *, asked: int) -> None:
    """Record why a hub has not confirmed the request of time `asked`."""
    store.fetch(
        "UPDATE state.feed_lease SET note = ? WHERE key = ? AND asked = ?"
        " AND coalesce(confirmed, 0) < asked",
        [note, key, asked],
    )


def count_delivery(store: Store, key: str, now: int) -> None:
    """Add 1 to the deliveries of a hub, the last of which came at a time, in ticks."""
    store.fetch(
        "UPDATE state.feed_lease SET deliveries = deliveries + 1, delivered = ? WHERE key = ?",
        [now, key],
    )


# -- The spool ---------------------------------------------------------------------------


def last_appended(store: Store) -> int:
    """Return the number of the last segment of the spool that feeds have appended, 0 for none."""
    return appended(store)[0]


def appended(store: Store) -> tuple[int, int | None]:
    """Return `last_appended`, and the announced number of segments after it, None without."""
    rows = store.rows("SELECT segment, announced FROM state.feed_spool")
    return next(((row["segment"], row["announced"]) for row in rows), (0, None))


def set_appended(store: Store, segment: int, announced: int | None = None) -> None:
    """Replace what `appended` returns."""
    store.fetch("DELETE FROM state.feed_spool")
    store.fetch(
        "INSERT INTO state.feed_spool (segment, announced) VALUES (?, ?)", [segment, announced]
    )
