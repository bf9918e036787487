"""The table of the feeds that are followed, and of their items.

An item's document has the id `<key>#<identity>`, where the key is made from
the feed's host and a hash of its address: it never changes, is the same when a
feed is removed and added again, and shows no secret of the address.

Recording a poll comes after appending its items to the spool, and a kill may
come between: hence the table says up to which segment it knows the spool, and
catches up with the rest when it is opened.  Otherwise the next poll would
append the same items again, as changed ones with a later `seen_at`.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa

from feeds.fetch import FeedState
from feeds.spool import Spool
from xscl.engine import Engine
from xscl.errors import XsclError
from xscl.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.feed(
    key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
    added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
    unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
    next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN);
CREATE TABLE IF NOT EXISTS state.feed_item(
    key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, PRIMARY KEY (key, identity));
CREATE TABLE IF NOT EXISTS state.feed_spool(segment BIGINT);
"""

EVERYTHING = "feeds"
"""The stream that all items belong to."""

EVERY = 3_600
"""Seconds between two polls of a feed, unless it or somebody says otherwise."""

_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_NAME = re.compile(r"[^\W\d][\w.-]*")
_TIMES = re.compile(rb"<(published|updated|seen_at)>[^<]*</\1>")


class FeedsError(XsclError):
    """A feed cannot be added or found."""

    code = "feeds"


@dataclass(frozen=True, slots=True)
class Feed:
    """A followed feed; times are ticks, `every` is seconds.

    `polls` counts the good answers, `failures` the bad ones since the last
    good one; `error` is what the last one said.
    """

    key: str
    url: str
    stream: str
    tags: tuple[str, ...]
    every: int
    added: int
    title: str = ""
    etag: str | None = None
    last_modified: str | None = None
    validated_by: str = ""
    unchanged: int = 0
    ttl: int | None = None
    skip_hours: str = ""
    skip_days: str = ""
    polled: int | None = None
    next_poll: int = 0
    polls: int = 0
    failures: int = 0
    error: str | None = None
    gone: bool = False

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the feed's items belong to, each once."""
        return tuple(dict.fromkeys((self.stream, *self.tags, EVERYTHING)))

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def shown_url(self) -> str:
        """The address without user name and password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def public_url(self) -> str:
        """The address without what may be secret in it: the query, too."""
        return urlunsplit(urlsplit(self.shown_url)._replace(query="", fragment=""))

    @property
    def request(self) -> FeedState:
        """What the next request has to know."""
        return FeedState(self.url, self.etag, self.last_modified, self.validated_by, self.unchanged)

    @property
    def lateness(self) -> int:
        """How late an item of this feed may come, in ticks."""
        return lateness_of(self.every)

    @property
    def state(self) -> str:
        if self.gone:
            return "gone"
        if self.error is not None:
            return "failing"
        return "ok" if self.polls else "new"


ItemRow: TypeAlias = tuple[str, bytes, int]
"""An item to remember: identity, hash of its content, number of its versions."""


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

    def __iter__(self) -> Iterator[Feed]:
        rows = self._store.fetch("SELECT * FROM state.feed ORDER BY added, key")
        return (_feed(row) for row in rows)

    def add(
        self,
        url: str,
        *,
        stream: str | None = None,
        tags: Sequence[str] = (),
        every: int = EVERY,
        now: int | None = None,
    ) -> Feed:
        """Follow a feed; it is due at once."""
        key = feed_key(url)
        known = list(self)
        if any(feed.key == key for feed in known):
            raise FeedsError(f"{url} is followed already", hint="'xscl feeds list' shows all")
        taken = {feed.stream for feed in known} | {EVERYTHING}
        chosen = stream or _free_name(_stream_name(url), taken)
        for name in (chosen, *tags):
            _check_name(name)
        time_now = ticks() if now is None else now
        feed = Feed(key, url, chosen, tuple(tags), every, time_now, next_poll=time_now)
        values = [getattr(feed, name) for name in _COLUMNS]
        marks = ", ".join("?" * len(_COLUMNS))
        self._store.fetch(f"INSERT INTO state.feed VALUES ({marks})", values)
        return feed

    def __getitem__(self, name: str) -> Feed:
        """Return a feed by its address or key, or by its stream if that has one feed only."""
        feeds = list(self)
        exact = [feed for feed in feeds if name in (feed.url, feed.key)]
        found = exact or [feed for feed in feeds if feed.stream == name]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
        raise FeedsError(f"{what} {name!r}", hint="'xscl feeds list' shows addresses and streams")

    def remove(self, feed: Feed) -> None:
        """Stop following a feed; what is known of its items stays, in case it is added again."""
        self._store.fetch("DELETE FROM state.feed WHERE key = ?", [feed.key])

    def due(self, now: int) -> list[Feed]:
        """Return the feeds whose time has come, the longest waiting first."""
        waiting = [feed for feed in self if not feed.gone and feed.next_poll <= now]
        return sorted(waiting, key=lambda feed: feed.next_poll)

    def items(self, feed: Feed) -> dict[str, tuple[bytes, int]]:
        """Return the hash and the number of versions of the items seen, by identity."""
        rows = self._store.fetch(
            "SELECT identity, hash, versions FROM state.feed_item WHERE key = ?", [feed.key]
        )
        return {identity: (digest, versions) for identity, digest, versions in rows}

    def record(self, feed: Feed, items: Sequence[ItemRow] = (), segment: int | None = None) -> None:
        """Write what a poll has changed: the feed, its items, and how far the spool is known."""
        with self._store.transaction():
            changes = ", ".join(f"{name} = ?" for name in _CHANGING)
            values = [getattr(feed, name) for name in _CHANGING]
            self._store.fetch(f"UPDATE state.feed SET {changes} WHERE key = ?", [*values, feed.key])
            self._remember([(feed.key, *item) for item in items])
            if segment is not None:
                self._know(segment)

    def _remember(self, rows: Sequence[tuple[str, str, bytes, int]]) -> None:
        if not rows:
            return
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, t) for c, t in zip(columns, _ITEM.types, strict=True)]
        self._store.connection.register("remembered", pa.table(arrays, schema=_ITEM))
        self._store.connection.execute(
            "INSERT INTO state.feed_item SELECT * FROM remembered ON CONFLICT (key, identity)"
            " DO UPDATE SET hash = excluded.hash, versions = excluded.versions"
        )

    def _know(self, segment: int) -> None:
        self._store.fetch("DELETE FROM state.feed_spool")
        self._store.fetch("INSERT INTO state.feed_spool VALUES (?)", [segment])

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

    def _unrecorded(self, spool: Spool, number: int) -> Iterator[tuple[str, str, bytes, int]]:
        seen = {feed.key: self.items(feed) for feed in self}
        latest: dict[tuple[str, str], bytes] = {}
        for document in spool.read(number):
            key, mark, identity = document.id.partition("#")
            if mark and key in seen:
                latest[key, identity] = item_hash(document.xml)
        for (key, identity), digest in latest.items():
            before, versions = seen[key].get(identity, (b"", 0))
            if before != digest:
                yield key, identity, digest, versions + 1


_ITEM = pa.schema(
    [
        ("key", pa.string()),
        ("identity", pa.string()),
        ("hash", pa.binary()),
        ("versions", pa.int32()),
    ]
)


def create_tables(store: Store) -> None:
    """Make the tables of feeds if the store has none yet."""
    with store.transaction():
        store.connection.execute(SCHEMA)


def ticks() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def lateness_of(every: int) -> int:
    """Return how late items may come from feeds that are polled every so many seconds."""
    return max(_HOUR, 2 * every * _SECOND)


def item_hash(canonical: bytes) -> bytes:
    """Return a hash of an item's content: of its canonical form without the times."""
    return hashlib.blake2b(_TIMES.sub(b"", canonical), digest_size=16).digest()


def feed_key(url: str) -> str:
    """Return the name that a feed's items carry in their ids."""
    digest = hashlib.blake2b(url.encode(), digest_size=5).hexdigest()
    return f"{urlsplit(url).hostname or 'feed'}-{digest}"


def _stream_name(url: str) -> str:
    """Return a name for a feed's stream: its host, as far as XSCL takes that as a name."""
    host = (urlsplit(url).hostname or "feed").removeprefix("www.")
    name = re.sub(r"[^\w.]|^(?=\d)", "_", host)
    return name if re.fullmatch(_NAME, name) else "feed"


def _free_name(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    numbered = (f"{name}_{number}" for number in count(2))
    return name if name not in used else next(each for each in numbered if each not in used)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise FeedsError(
            f"{name!r} is no name of a stream",
            hint="a name is a letter or _, followed by letters, digits, _, . and -",
        )


def _feed(row: tuple[Any, ...]) -> Feed:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Feed(**values | {"tags": tuple(values["tags"])})


_COLUMNS = tuple(field.name for field in fields(Feed))
_CHANGING = _COLUMNS[_COLUMNS.index("title") :]
