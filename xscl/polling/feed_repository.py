"""The repository of followed feeds and their items, over `xscl.polling.feed_tables`.

An item's document has the id `<key>#<identity>`, where the key is the feed's
(`xscl.polling.feed`): it is the same when a feed is removed and added again.

Polls are recorded after their items were appended to the spool, and a kill may
come between.  So the table records the last segment that it knows of the spool, and
catches up with the rest when it is opened.  Otherwise the next poll would
append the same items again, as changed ones with a later `seen_at`.  Items in
several segments are announced before: if some of these are missing, the feeds'
first polls are still to come, and their items are history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from feeds.spool import Spool
from templates.columns.arrow_tables import named
from xscl.engine.facade import Engine
from xscl.polling.credentials import NAME, Credentials, hidden, secrets_in
from xscl.polling.feed import (
    LEAST_EVERY,
    SECOND,
    Feed,
    FeedsError,
    feed_key,
    shown,
    without_user,
)
from xscl.polling.feed_admission import FeedAdmission, FeedRequest, admit, refuse_published
from xscl.polling.feed_tables import NAMES, POLLED, SELECT, create_tables, feed_of, table
from xscl.polling.hub_lease import HubLease, lease_row
from xscl.polling.lifecycle import with_secret_lost
from xscl.polling.new_items import ItemVersion, NewItems, item_hash
from xscl.polling.poll_history import PollRecord, polls_of, save_polls
from xscl.store.store import Store


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """The numbers of a feed's known items, their versions, and skipped changes.

    Of the items, `clipped` had a time ahead of the poll, and `undated` none that could be read.
    """

    items: int = 0
    versions: int = 0
    skipped: int = 0
    clipped: int = 0
    undated: int = 0


def feed_row(feed: Feed, count: ItemCounts, lease: HubLease | None = None) -> dict[str, Any]:
    """Return a feed for output: without secrets, times in ticks."""
    plain = ("title", "site_url", "format", "quality", "every")
    tried = ("polls", "failures", "failing_since", "code", "error", "note")
    return {
        "url": feed.shown_url,
        "key": feed.key,
        "stream": feed.stream,
        "tags": list(feed.tags),
        **{name: getattr(feed, name) for name in plain},
        "lateness": feed.lateness // SECOND,
        "ttl": feed.ttl,
        "headers": [name for name, _ in feed.headers] or list(feed.header_names),
        "state": feed.state,
        **asdict(count),
        "added": feed.added,
        "polled": feed.polled,
        "next_poll": None if feed.gone else feed.next_poll,
        **{name: getattr(feed, name) for name in tried},
        "moved_to": None if feed.moved_to is None else shown(feed.moved_to),
        "hub": feed.hub,
        **lease_row(lease),
    }


class FeedRepository:
    """The table of feeds in an engine's database, on a connection of its own.

    With the directory of a spool, it first catches up with that. `clock` returns the time of
    additions, in ticks.
    """

    def __init__(
        self, engine: Engine, spool: Path | None = None, clock: Callable[[], int] | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock or ticks
        self._store = engine.host.connect()
        self._writing = _WRITING.setdefault(engine, threading.RLock())
        try:
            self._secrets = _secrets_of(engine, self._store)
            create_tables(self._store)
            if spool is not None and spool.is_dir():
                self._catch_up(Spool(spool, read_only=True))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> FeedRepository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Change the tables of feeds in a transaction while the block runs."""
        with self._writing, self._store.transaction():
            yield self._store

    # -- Reading ---------------------------------------------------------------------------

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query over the tables of feeds."""
        return self._store.fetch(query, parameters)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self._select("ORDER BY added, key"))

    def __getitem__(self, name: str) -> Feed:
        """Return a feed by its address or key, or by its stream if that has one feed only.

        Feeds of users are found by their keys alone.  Raises FeedsError if there is not one.
        """
        address = _address(name)
        keys = (name, feed_key(name))
        near = self._select("WHERE url = ? OR key IN (?, ?)", shown(address), *keys)
        near = [feed for feed in near if not feed.owner or feed.key == name]
        found = [feed for feed in near if feed.url == address or feed.key in keys]
        found = found or self._select("WHERE stream = ?", name)
        found = found or [feed for feed in near if feed.shown_url == name]
        if len(found) == 1:
            return found[0]
        what = f"{len(found)} feeds are on the stream" if found else "there is no feed"
        raise FeedsError(
            f"{what} {shown(address)!r}", hint="'xscl feeds list' shows addresses and streams"
        )

    def owned(self, owner: str, after: str = "", limit: int | None = None) -> list[Feed]:
        """Return feeds of one owner in the order of their keys, those after a key."""
        whose = "starts_with(key, ?)" if owner else "NOT regexp_matches(key, '^_[0-9]+\\.' || ?)"
        most = "" if limit is None else f" LIMIT {int(limit)}"
        return self._select(f"WHERE {whose} AND key > ? ORDER BY key{most}", owner, after)

    def due(self, now: int) -> list[Feed]:
        """Return the due feeds, the longest waiting first."""
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
        found = {feed.key: feed for feed in self.among([key for key, _ in rows])}
        return [found[key] for key, _ in rows if key in found]  # one may have been removed since

    def items_of(self, keys: Collection[str]) -> dict[str, dict[str, ItemVersion]]:
        """Return the remembered items of feeds, by key and identity."""
        found: dict[str, dict[str, ItemVersion]] = {key: {} for key in keys}
        if found:
            asked = pa.table({"key": pa.array(list(found), pa.string())})
            self._store.lend("asked", asked)
            for row in self._store.rows(
                f"SELECT key, identity, {_VERSION} FROM state.feed_item SEMI JOIN asked USING (key)"
            ):
                key, identity = row.pop("key"), row.pop("identity")
                found[key][identity] = ItemVersion(**row)
        return found

    def counts(self, keys: Collection[str] | None = None) -> dict[str, ItemCounts]:
        """Return the number of known items of each feed by key, for some feeds or all."""
        among = "" if keys is None else " WHERE list_contains(?::VARCHAR[], key)"
        rows = self._store.rows(
            "SELECT key, count(*) AS items, sum(versions)::BIGINT AS versions,"
            " coalesce(sum(skipped), 0)::BIGINT AS skipped, count(*) FILTER (clipped) AS clipped,"
            " count(*) FILTER (time_from = 'seen_at') AS undated"
            f" FROM state.feed_item{among} GROUP BY key",
            [] if keys is None else [list(keys)],
        )
        return {row.pop("key"): ItemCounts(**row) for row in rows}

    def leases(self, keys: Collection[str] | None = None) -> dict[str, HubLease]:
        """Return the leases of feeds at their hubs by key, for some feeds or all."""
        among = "" if keys is None else " WHERE list_contains(?::VARCHAR[], key)"
        rows = self._store.rows(
            f"SELECT {_LEASE} FROM state.feed_lease{among}", [] if keys is None else [list(keys)]
        )
        return {row["key"]: HubLease(**row) for row in rows}

    def lease_of(self, callback: str) -> HubLease | None:
        """Return the lease with a callback, by the hash of that."""
        query = f"SELECT {_LEASE} FROM state.feed_lease WHERE callback = ?"
        found = [HubLease(**row) for row in self._store.rows(query, [callback])]
        return found[0] if found else None

    def polls(self, feed: Feed) -> Sequence[PollRecord]:
        """Return the last polls of a feed, the newest first."""
        return polls_of(self._store, feed.key)

    def is_followed(self, url: str, *, besides: Feed) -> bool:
        """Return True if another feed has the address."""
        near = self._select("WHERE url = ? AND key <> ?", shown(url), besides.key)
        return any(feed.url == url and feed.owner == besides.owner for feed in near)

    def _select(self, rest: str, *parameters: object) -> list[Feed]:
        rows = self._store.fetch(f"{SELECT} {rest}", parameters)
        found = (self._secrets.filled(dict(zip(NAMES, row, strict=True))) for row in rows)
        return [with_secret_lost(feed_of(row)) for row in found]

    # -- What people change ----------------------------------------------------------------

    def add(self, wanted: FeedRequest, *, now: int | None = None) -> Feed:
        """Follow a feed; it is due at once.  Raises FeedsError if it is refused."""
        (added,) = self.add_all([wanted], now=now)
        if isinstance(added, FeedsError):
            raise added
        return added

    def add_all(
        self, wanted: Sequence[FeedRequest], *, now: int | None = None
    ) -> list[Feed | FeedsError]:
        """Follow feeds, all due at once; return an error in place of one that is refused."""
        time_now = self._clock() if now is None else now
        added: list[Feed | FeedsError] = []
        with self._writing:
            followed = FeedAdmission(self, self._published())
            for one in wanted:
                try:
                    feed = admit(one, followed, time_now)
                except FeedsError as error:
                    added.append(error)
                    continue
                followed.register(feed)
                added.append(feed)
            self.insert([feed for feed in added if isinstance(feed, Feed)])
        return added

    def insert(self, feeds: Sequence[Feed]) -> None:
        """Write feeds that are not there, with their secrets."""
        if not feeds:
            return
        self._secrets.keep(feed for feed in feeds if hidden(feed))
        with self._store.transaction():
            names = (*NAMES, "domain")
            self._store.lend("followed", table(feeds, names))
            self._store.connection.execute(
                f"INSERT INTO state.feed BY NAME SELECT {named(names)} FROM followed"
            )

    def edit(self, feed: Feed) -> None:
        """Write the editable fields of a feed: tags, interval, headers, and whether it is gone."""
        refuse_published(feed.tags, self._published())
        names = [name for name, _ in feed.headers] or list(feed.header_names)
        self._secrets.keep([feed])
        with self._writing, self._store.transaction():
            self._store.fetch(
                "UPDATE state.feed SET tags = ?, every = ?, gone = ?, next_poll = ?,"
                " header_names = ? WHERE key = ?",
                [*(list(feed.tags), feed.every, feed.gone, feed.next_poll), names, feed.key],
            )

    def request_poll(self, feed: Feed, now: int, *, at_once: bool = False) -> Feed:
        """Make a feed due, as soon as its owner may have it polled, or `at_once`; return it.

        A feed that is due already may just be polled, and its answer may be older than the request.
        So the time at which it is due changes by a tick, and then it is polled once more, a user's
        feed after a minute.
        """
        if feed.next_poll <= now:
            soon = feed.next_poll + 1
        else:
            soon = min(feed.next_poll, max(now, 0 if at_once else earliest_poll(feed)))
        requested = replace(feed, next_poll=soon)
        self.edit(requested)
        return requested

    def _published(self) -> dict[str, str]:
        """Return the streams that subscriptions publish, each with the name of one of these."""
        return {one.publish: one.name for one in self._engine.subscriptions if one.publish}

    def remove(self, feed: Feed) -> None:
        """Stop following a feed; its known items stay, in case it is added again."""
        with self._writing, self._store.transaction():
            self._store.fetch("DELETE FROM state.feed WHERE key = ?", [feed.key])
            for table in ("feed_lease", "feed_poll"):
                self._store.fetch(f"DELETE FROM state.{table} WHERE key = ?", [feed.key])
        self._secrets.forget(feed.key)

    # -- What polls change -----------------------------------------------------------------

    def record(
        self,
        feeds: Sequence[Feed],
        found: Iterable[NewItems] = (),
        segment: int | None = None,
        holds: Mapping[str, int] | None = None,
        polls: Mapping[str, PollRecord] | None = None,
        due: Mapping[str, int] | None = None,
    ) -> None:
        """Write the changes of polls: feeds, their items, and the last known segment.

        `holds` are the domains with a `Retry-After`, each with its end; `polls` are for the
        histories of feeds, by key.  `due` is when each feed was due as its poll began: if that has
        changed since, the feed is to be polled again (`request_poll`).
        """
        self._secrets.keep(feeds)
        news = list(found)
        with self._writing, self._store.transaction():
            self._save_polled(feeds, due or {})
            save_polls(self._store, polls or {})
            self._save_items((one.feed, name, row) for one in news for name, row in one.items)
            self._evict([(one.feed, name) for one in news for name in one.forgotten])
            if segment is not None:
                self._save_segment(segment)
            for domain, until in (holds or {}).items():
                self._store.fetch(
                    "UPDATE state.feed SET next_poll = ? WHERE domain = ? AND next_poll < ?",
                    [until, domain, until],
                )

    def _save_polled(self, feeds: Sequence[Feed], due: Mapping[str, int]) -> None:
        if feeds:
            polled = table(feeds, ("key", *POLLED))
            was_due = pa.array([due.get(feed.key) for feed in feeds], pa.int64())
            again = pa.array([earliest_poll(feed) for feed in feeds], pa.int64())
            polled = polled.append_column("was_due", was_due).append_column("again", again)
            self._store.lend("polled", polled)
            changes = ", ".join(f"{name} = polled.{name}" for name in POLLED if name != "next_poll")
            self._store.connection.execute(
                f"UPDATE state.feed SET {changes}, next_poll = CASE"
                " WHEN feed.next_poll <> polled.was_due"
                " THEN least(polled.next_poll, greatest(feed.next_poll, polled.again))"
                " ELSE polled.next_poll END FROM polled WHERE feed.key = polled.key"
            )

    def _save_items(self, rows: Iterable[tuple[str, str, ItemVersion]]) -> None:
        listed = list(rows)
        if listed:
            columns: dict[str, list[object]] = {
                "key": [key for key, _, _ in listed],
                "identity": [name for _, name, _ in listed],
                **{
                    one.name: [getattr(row, one.name) for _, _, row in listed]
                    for one in fields(ItemVersion)
                },
            }
            remembered = self._store.typed("state.feed_item", columns)
            self._store.lend("remembered", remembered)
            self._store.connection.execute(
                "INSERT OR REPLACE INTO state.feed_item BY NAME"
                f" SELECT {named(remembered.column_names)} FROM remembered"
            )

    def _evict(self, items: Sequence[tuple[str, str]]) -> None:
        if items:
            keys, names = zip(*items, strict=True)
            self._store.lend("forgotten", pa.table({"key": keys, "identity": names}))
            self._store.connection.execute(
                "DELETE FROM state.feed_item USING forgotten f"
                " WHERE (feed_item.key, feed_item.identity) = (f.key, f.identity)"
            )

    def announce(self, segments: int) -> None:
        """Record the number of segments that are about to be appended to the spool."""
        ((known,),) = self._store.fetch("SELECT coalesce(max(segment), 0) FROM state.feed_spool")
        with self._writing, self._store.transaction():
            self._save_segment(known, segments)

    def _save_segment(self, segment: int, announced: int | None = None) -> None:
        self._store.fetch("DELETE FROM state.feed_spool")
        self._store.fetch(
            "INSERT INTO state.feed_spool (segment, announced) VALUES (?, ?)", [segment, announced]
        )

    # -- After a kill ----------------------------------------------------------------------

    def _catch_up(self, spool: Spool) -> None:
        """Remember the items of segments that were appended but not recorded."""
        ((known, announced),) = self._store.fetch(
            "SELECT coalesce(max(segment), 0), max(announced) FROM state.feed_spool"
        )
        numbers = spool.numbers(known)
        if not numbers:
            return
        keys: set[str] = set()
        segments = 0
        with self._writing, self._store.transaction():
            for number in numbers:
                rows = list(self._unrecorded(spool, number))
                self._save_items(rows)
                keys.update(key for key, _, _ in rows)
                segments += bool(rows)
            if announced is None or segments >= announced:
                self._store.fetch(
                    "UPDATE state.feed SET polls = greatest(polls, 1)"
                    " WHERE list_contains(?::VARCHAR[], key)",
                    [sorted(keys)],
                )
            self._save_segment(numbers[-1])

    def _unrecorded(self, spool: Spool, number: int) -> Iterator[tuple[str, str, ItemVersion]]:
        latest: dict[tuple[str, str], bytes] = {}
        for document in spool.read(number):
            key, mark, identity = document.id.partition("#")
            if mark:
                latest[key, identity] = item_hash(document.xml)
        followed = [feed.key for feed in self.among({key for key, _ in latest})]
        seen = self.items_of(followed)
        for (key, identity), digest in latest.items():
            if key in seen:
                before = seen[key].get(identity, ItemVersion())
                if before.hash != digest:
                    changed = replace(
                        before, hash=digest, versions=before.versions + 1, missing_since=None
                    )
                    yield key, identity, changed

    def among(self, keys: Collection[str]) -> list[Feed]:
        """Return the followed feeds of some keys."""
        marks = ", ".join("?" * len(keys))
        return self._select(f"WHERE key IN ({marks})", *keys) if keys else []


def earliest_poll(feed: Feed) -> int:
    """Return when a feed may be polled again at its owner's request: the operator's at once."""
    return (feed.polled or 0) + LEAST_EVERY * SECOND if feed.owner else 0


_VERSION = named(one.name for one in fields(ItemVersion))
_LEASE = named(one.name for one in fields(HubLease))
"""The values of an item's memory in the order of its columns."""

_WRITING: WeakKeyDictionary[Engine, threading.RLock] = WeakKeyDictionary()
"""Of the tables of feeds of one engine one writes at a time: two would be in conflict."""

_IN_MEMORY: WeakKeyDictionary[Engine, Credentials] = WeakKeyDictionary()


def _secrets_of(engine: Engine, store: Store) -> Credentials:
    """Return the secrets of an engine's feeds: beside its database, or in memory like it."""
    if store.path is None:
        return _IN_MEMORY.setdefault(engine, Credentials())
    return secrets_in(store.path.with_name(NAME))


def ticks() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def _address(name: str) -> str:
    """Return an address without user name and password; other names as they are."""
    try:
        return without_user(name)
    except ValueError:
        return name
