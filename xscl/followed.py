"""The table of the feeds that are followed, and of their items.

An item's document has the id `<key>#<identity>`, where the key is the feed's
(`xscl.feed`): it is the same when a feed is removed and added again.

Recording a poll comes after appending its items to the spool, and a kill may
come between: hence the table says up to which segment it knows the spool, and
catches up with the rest when it is opened.  Otherwise the next poll would
append the same items again, as changed ones with a later `seen_at`.

Headers are in a table of their own, `state.feed_secret`, that nobody may be shown.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa

from feeds.domains import registrable
from feeds.spool import Spool
from xscl.engine import Engine
from xscl.feed import (
    EVERY,
    EVERYTHING,
    Feed,
    FeedsError,
    Headers,
    check_name,
    feed_key,
    free_name,
    shown,
    split_user,
    stream_name,
    without_user,
)
from xscl.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.feed(
    key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
    added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
    unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
    next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN,
    domain VARCHAR, site_url VARCHAR, format VARCHAR, quality VARCHAR, note VARCHAR,
    failing_since BIGINT, code VARCHAR, moved_to VARCHAR, moved_polls INTEGER);
CREATE TABLE IF NOT EXISTS state.feed_secret(
    key VARCHAR PRIMARY KEY, headers VARCHAR, given_for VARCHAR);
CREATE TABLE IF NOT EXISTS state.feed_item(
    key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, rule VARCHAR,
    PRIMARY KEY (key, identity));
CREATE TABLE IF NOT EXISTS state.feed_spool(segment BIGINT);
"""

_ADDED_LATER = {
    "feed": {
        "domain": "VARCHAR",
        "site_url": "VARCHAR",
        "format": "VARCHAR",
        "quality": "VARCHAR",
        "note": "VARCHAR",
        "failing_since": "BIGINT",
        "code": "VARCHAR",
        "moved_to": "VARCHAR",
        "moved_polls": "INTEGER",
    },
    "feed_item": {"rule": "VARCHAR"},
}
"""Columns that tables made by the first release lack."""

_UNTIMED = re.compile(rb"<(published|updated|seen_at|channel_url)>[^<]*</\1>")

ItemRow: TypeAlias = tuple[str, bytes, int, str]
"""An item to remember: identity, hash of its content, number of its versions, rule of identity."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A feed that somebody wants to follow; `url` as it was given, secrets included."""

    url: str
    stream: str | None = None
    tags: tuple[str, ...] = ()
    every: int = EVERY
    headers: Headers = ()
    title: str = ""
    site_url: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """How many items of a feed were seen, and how many versions of them."""

    items: int = 0
    versions: int = 0


class Feeds:
    """The table of feeds in an engine's database, on a connection of its own.

    With the directory of a spool, it first catches up with that.
    """

    def __init__(self, engine: Engine, spool: Path | None = None) -> None:
        self._store = engine.store()
        try:
            create_tables(self._store)
            if spool is not None and spool.is_dir():
                self._catch_up(Spool(spool, read_only=True))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Feeds:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    # -- Reading ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._select("ORDER BY added, key"))

    def __getitem__(self, name: str) -> Feed:
        """Return a feed by its address or key, or by its stream if that has one feed only."""
        address = _address(name)
        exact = self._select("WHERE url = ? OR key IN (?, ?)", address, name, feed_key(name))
        found = exact or self._select("WHERE stream = ?", name)
        found = found or [feed for feed in self if feed.shown_url == name]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
        raise FeedsError(
            f"{what} {shown(address)!r}", hint="'xscl feeds list' shows addresses and streams"
        )

    def due(self, now: int) -> list[Feed]:
        """Return the feeds whose time has come, the longest waiting first."""
        return self._select("WHERE NOT gone AND next_poll <= ? ORDER BY next_poll, key", now)

    def next_due(self, now: int, busy: Collection[str], most: int) -> list[Feed]:
        """Return the next feed to poll of each domain that is not busy, the longest waiting first.

        The first query reads three columns only: with 36,000 feeds due it takes a
        tenth of what a window over whole rows took.
        """
        rows = self._store.fetch(
            "SELECT arg_min(key, (next_poll, key)), min(next_poll) AS waiting FROM state.feed"
            " WHERE NOT gone AND next_poll <= ? AND NOT list_contains(?::VARCHAR[], domain)"
            " GROUP BY domain ORDER BY waiting, 1 LIMIT ?",
            [now, sorted(busy), most],
        )
        found = {feed.key: feed for feed in self._among([key for key, _ in rows])}
        return [found[key] for key, _ in rows]

    def items(self, feed: Feed) -> dict[str, tuple[bytes, int]]:
        """Return the hash and the number of versions of the items seen, by identity."""
        rows = self._store.fetch(
            "SELECT identity, hash, versions FROM state.feed_item WHERE key = ?", [feed.key]
        )
        return {identity: (digest, versions) for identity, digest, versions in rows}

    def counts(self) -> dict[str, Count]:
        """Return how many items of each feed were seen, by its key."""
        rows = self._store.fetch(
            "SELECT key, count(*), sum(versions)::BIGINT FROM state.feed_item GROUP BY key"
        )
        return {key: Count(items, versions) for key, items, versions in rows}

    def is_followed(self, url: str, *, besides: Feed) -> bool:
        """Return whether another feed has the address."""
        found = self._store.fetch(
            "SELECT 1 FROM state.feed WHERE url = ? AND key <> ? LIMIT 1", [url, besides.key]
        )
        return bool(found)

    def _select(self, rest: str, *parameters: object) -> list[Feed]:
        rows = self._store.fetch(f"{_SELECT} {rest}", parameters)
        return [_feed(row) for row in rows]

    # -- What people change ----------------------------------------------------------------

    def add(
        self,
        url: str,
        *,
        stream: str | None = None,
        tags: Sequence[str] = (),
        every: int = EVERY,
        headers: Headers = (),
        now: int | None = None,
    ) -> Feed:
        """Follow a feed; it is due at once."""
        (added,) = self.add_all([Wanted(url, stream, tuple(tags), every, headers)], now=now)
        if isinstance(added, FeedsError):
            raise added
        return added

    def add_all(
        self, wanted: Sequence[Wanted], *, now: int | None = None
    ) -> list[Feed | FeedsError]:
        """Follow feeds, all due at once; in the place of one that cannot be, say why."""
        known = self._store.fetch("SELECT key, url, stream FROM state.feed")
        keys, urls = {row[0] for row in known}, {row[1] for row in known}
        taken = {row[2] for row in known} | {EVERYTHING}
        time_now = ticks() if now is None else now
        added: list[Feed | FeedsError] = []
        for one in wanted:
            try:
                feed = _made(one, keys, urls, taken, time_now)
            except FeedsError as error:
                added.append(error)
                continue
            keys.add(feed.key)
            urls.add(feed.url)
            taken.add(feed.stream)
            added.append(feed)
        with self._store.transaction():
            self._insert([feed for feed in added if isinstance(feed, Feed)])
        return added

    def _insert(self, feeds: Sequence[Feed]) -> None:
        if not feeds:
            return
        columns = {name: _column(feeds, name) for name in (*_NAMES, "domain")}
        self._store.connection.register("followed", pa.table(columns))
        self._store.connection.execute("INSERT INTO state.feed BY NAME SELECT * FROM followed")
        for feed in feeds:
            if feed.headers:
                self._keep_secret(feed)

    def edit(self, feed: Feed) -> None:
        """Write what a person may change of a feed: tags, interval, headers, whether it is gone."""
        with self._store.transaction():
            self._store.fetch(
                "UPDATE state.feed SET tags = ?, every = ?, gone = ?, next_poll = ? WHERE key = ?",
                [list(feed.tags), feed.every, feed.gone, feed.next_poll, feed.key],
            )
            self._keep_secret(feed)

    def _keep_secret(self, feed: Feed) -> None:
        self._store.fetch("DELETE FROM state.feed_secret WHERE key = ?", [feed.key])
        if feed.headers:
            values = [feed.key, json.dumps(feed.headers), feed.given_for]
            self._store.fetch("INSERT INTO state.feed_secret VALUES (?, ?, ?)", values)

    def remove(self, feed: Feed) -> None:
        """Stop following a feed; what is known of its items stays, in case it is added again."""
        with self._store.transaction():
            self._store.fetch("DELETE FROM state.feed WHERE key = ?", [feed.key])
            self._store.fetch("DELETE FROM state.feed_secret WHERE key = ?", [feed.key])

    # -- What polls change -----------------------------------------------------------------

    def record(self, feed: Feed, items: Sequence[ItemRow] = (), segment: int | None = None) -> None:
        """Write what a poll has changed: the feed, its items, and how far the spool is known."""
        with self._store.transaction():
            changes = ", ".join(f"{name} = ?" for name in _POLLED)
            values = [_value(feed, name) for name in _POLLED]
            self._store.fetch(f"UPDATE state.feed SET {changes} WHERE key = ?", [*values, feed.key])
            self._remember([(feed.key, *item) for item in items])
            if segment is not None:
                self._know(segment)

    def hold(self, domain: str, until: int) -> None:
        """Let no feed of a domain be due before some time."""
        self._store.fetch(
            "UPDATE state.feed SET next_poll = ? WHERE domain = ? AND next_poll < ?",
            [until, domain, until],
        )

    def _remember(self, rows: Sequence[tuple[str, str, bytes, int, str]]) -> None:
        if not rows:
            return
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, t) for c, t in zip(columns, _ITEM.types, strict=True)]
        self._store.connection.register("remembered", pa.table(arrays, schema=_ITEM))
        self._store.connection.execute(
            "INSERT INTO state.feed_item BY NAME SELECT * FROM remembered"
            " ON CONFLICT (key, identity) DO UPDATE SET hash = excluded.hash,"
            " versions = excluded.versions, rule = coalesce(nullif(excluded.rule, ''), rule)"
        )

    def _know(self, segment: int) -> None:
        self._store.fetch("DELETE FROM state.feed_spool")
        self._store.fetch("INSERT INTO state.feed_spool VALUES (?)", [segment])

    # -- After a kill ----------------------------------------------------------------------

    def _catch_up(self, spool: Spool) -> None:
        """Remember the items of segments that were appended but not recorded."""
        (known,) = self._store.fetch("SELECT coalesce(max(segment), 0) FROM state.feed_spool")[0]
        for number in spool.numbers(known):
            rows = list(self._unrecorded(spool, number))
            with self._store.transaction():
                self._remember(rows)
                for key in sorted({key for key, *_ in rows}):
                    self._store.fetch(
                        "UPDATE state.feed SET polls = greatest(polls, 1) WHERE key = ?", [key]
                    )
                self._know(number)

    def _unrecorded(self, spool: Spool, number: int) -> Iterator[tuple[str, str, bytes, int, str]]:
        latest: dict[tuple[str, str], bytes] = {}
        for document in spool.read(number):
            key, mark, identity = document.id.partition("#")
            if mark:
                latest[key, identity] = item_hash(document.xml)
        seen = {feed.key: self.items(feed) for feed in self._among({key for key, _ in latest})}
        for (key, identity), digest in latest.items():
            if key in seen:
                before, versions = seen[key].get(identity, (b"", 0))
                if before != digest:
                    yield key, identity, digest, versions + 1, ""

    def _among(self, keys: Collection[str]) -> list[Feed]:
        marks = ", ".join("?" * len(keys))
        return self._select(f"WHERE key IN ({marks})", *keys) if keys else []


_ITEM = pa.schema(
    [
        ("key", pa.string()),
        ("identity", pa.string()),
        ("hash", pa.binary()),
        ("versions", pa.int32()),
        ("rule", pa.string()),
    ]
)


def create_tables(store: Store) -> None:
    """Make the tables of feeds if the store has none yet, and the columns that they lack."""
    with store.transaction():
        store.connection.execute(SCHEMA)
        rows = store.fetch(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'state'"
        )
        present = set(rows)
        for table, columns in _ADDED_LATER.items():
            for name, kind in columns.items():
                if (table, name) not in present:
                    store.connection.execute(f"ALTER TABLE state.{table} ADD COLUMN {name} {kind}")
    _fill_domains(store)


def _fill_domains(store: Store) -> None:
    """Give the feeds of an older store what it did not keep."""
    for key, url in store.fetch("SELECT key, url FROM state.feed WHERE domain IS NULL"):
        address, headers = split_user(url)
        domain = registrable(urlsplit(address).hostname or "")
        with store.transaction():
            store.fetch(
                "UPDATE state.feed SET domain = ?, url = ? WHERE key = ?", [domain, address, key]
            )
            if headers:
                values = [key, json.dumps(headers), address]
                store.fetch("INSERT INTO state.feed_secret VALUES (?, ?, ?)", values)


def ticks() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def item_hash(canonical: bytes) -> bytes:
    """Return a hash of an item's content: of its canonical form without times and channel."""
    return hashlib.blake2b(_UNTIMED.sub(b"", canonical), digest_size=16).digest()


def _made(wanted: Wanted, keys: set[str], urls: set[str], taken: set[str], now: int) -> Feed:
    """Return a new feed; raise if it is followed already or a name is none."""
    key = feed_key(wanted.url)
    url, user = split_user(wanted.url)
    headers = (*wanted.headers, *user)
    if key in keys or (url in urls and not headers):
        raise FeedsError(f"{shown(url)} is followed already", hint="'xscl feeds list' shows all")
    stream = wanted.stream or free_name(stream_name(url), taken)
    for name in (stream, *wanted.tags):
        check_name(name)
    tags = tuple(dict.fromkeys(wanted.tags))
    return Feed(
        key,
        url,
        stream,
        tags,
        wanted.every,
        now,
        headers,
        url if headers else "",
        title=wanted.title,
        site_url=wanted.site_url,
        next_poll=now,
    )


def _address(name: str) -> str:
    """Return an address without user name and password; other names as they are."""
    try:
        return without_user(name)
    except ValueError:
        return name


# -- Rows ----------------------------------------------------------------------------------

_SECRETS = ("headers", "given_for")
_NAMES = tuple(field.name for field in fields(Feed) if field.name not in _SECRETS)
_KEPT = ("key", "stream", "tags", "every", "added")
_POLLED = (*(name for name in _NAMES if name not in _KEPT), "domain")
"""What a poll may change."""

_SELECT = (
    f"SELECT {', '.join(_NAMES)}, headers, given_for"
    " FROM state.feed LEFT JOIN state.feed_secret USING (key)"
)


def _value(feed: Feed, name: str) -> object:
    value = getattr(feed, name)
    return list(value) if isinstance(value, tuple) else value


def _column(feeds: Sequence[Feed], name: str) -> pa.Array:
    values = [_value(feed, name) for feed in feeds]
    return pa.array(values, pa.list_(pa.string()) if name == "tags" else None)


def _feed(row: tuple[Any, ...]) -> Feed:
    values = dict(zip((*_NAMES, *_SECRETS), row, strict=True))
    values["tags"] = tuple(values["tags"])
    values["headers"] = tuple(
        (name, value) for name, value in json.loads(values["headers"] or "[]")
    )
    return Feed(**{name: value for name, value in values.items() if value is not None})
