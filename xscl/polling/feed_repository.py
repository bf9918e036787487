"""The repository of followed feeds and their items, over `xscl.store.queries`.

An item's document has the id `<key>#<identity>`, where the key is the feed's
(`xscl.polling.feed`): it is the same when a feed is removed and added again.

Polls are recorded after their items were appended to the spool, and a kill may
come between.  So the store records the last segment whose items it knows, and the
repository catches up with the rest when it is opened.  Otherwise the next poll would
append the same items again, as changed ones with a later `seen_at`.  Before several
segments are appended, their number is announced: if fewer are there, the feeds'
first polls are still to come, and their items are history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from feeds.spool import Spool
from xscl.documents.document_validation import check_stream
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.language.names import EVERYTHING, owner_prefix
from xscl.polling.credentials import ADDRESSES, NAME, Credentials, hidden, secrets_in
from xscl.polling.feed import (
    EVERY,
    LEAST_EVERY,
    SECOND,
    Feed,
    FeedsError,
    Headers,
    feed_key,
    free_name,
    lateness_of,
    shown,
    site_of,
    split_user,
    stream_name,
    title_of,
)
from xscl.polling.lifecycle import secret_lost, with_secret_lost
from xscl.polling.new_items import ItemVersion, NewItems, item_hash
from xscl.store.queries import feeds as stored
from xscl.store.queries.rows import delete_but_newest, delete_rows, rows_of, update_rows
from xscl.store.store import Store

_NAMES = {field.name for field in fields(Feed)} - {"headers", "given_for"}
_EDITED = ("given_title", "tags", "every", "gone", "next_poll", "header_names")


def heard_until(store: Store) -> int | None:
    """Return the time up to which all feeds were polled, in ticks; None if there are none.

    It is half of a feed's lateness after the time at which the oldest poll is due.  Items from
    before the other half are known.
    """
    return stored.heard_until(store, least=lateness_of(0) // 2, every=SECOND)


def row_of(feed: Feed) -> dict[str, object]:
    """Return a feed as a row, without the secrets in addresses."""
    row = {name: getattr(feed, name) for name in (*_NAMES, "domain")}
    headers = [name for name, _ in feed.headers] or feed.header_names
    shown_addresses = {name: shown(row[name]) for name in ADDRESSES if row[name]}
    return row | shown_addresses | {"header_names": headers}


def feed_of(row: Mapping[str, Any], secrets: Credentials) -> Feed:
    """Return the feed of a row with its secrets, as failing if one of them is lost."""
    given = {name: one for name, one in secrets.filled(row).items() if one is not None}
    del given["domain"]
    lists = {name: tuple(row[name] or ()) for name in ("tags", "header_names")}
    return with_secret_lost(Feed(**given | lists))


def mark_lost_secrets(store: Store, secrets: Credentials) -> list[Feed]:
    """Mark the feeds whose secrets are not known as failing; return them."""
    found = (feed_of(row, secrets) for row in rows_of(store, "feed", order="added, key"))
    lost = [feed for feed in found if secret_lost(feed) is not None]
    with store.transaction():
        for feed in lost:
            failure = {"code": feed.code, "error": feed.error, "failures": feed.failures}
            update_rows(store, "feed", failure, key=feed.key)
    return lost


MOST = 100
"""Most polls of a feed that are kept."""
LONGEST = 300
"""Most characters of a note that are kept."""

OK, UNCHANGED, DEFERRED = "ok", "unchanged", "deferred"
"""Outcomes of polls that did not fail; others are the codes of errors."""


@dataclass(frozen=True, slots=True)
class PollRecord:
    """A poll: its time in ticks, outcome, duration, and the number of new or changed items.

    `outcome` is `ok`, `unchanged` (304), `deferred`, or the code of an error; `note` is the error,
    or where the feed moved to.
    """

    polled: int
    outcome: str
    seconds: float
    items: int = 0
    note: str | None = None

    @property
    def is_failed(self) -> bool:
        """Return True for an error."""
        return self.outcome not in (OK, UNCHANGED, DEFERRED)


LeaseState: TypeAlias = Literal["asked", "active", "denied", "failed"]


@dataclass(frozen=True, slots=True)
class HubLease:
    """The lease of a feed at its WebSub hub: for how long the hub sends what is new.

    The feed is polled as if it had no hub, and at once when the hub sends.  The fields are the
    columns of `state.feed_lease`, times are ticks.

    `callback` is the hash of the secret part of the address to which the hub sends.  `asked` is the
    last request to the hub, `due` the next one, `confirmed` the last confirmation of a request, and
    `until` the end of the lease.  `failures` counts the requests since the last confirmation.
    `deliveries` counts what the hub has sent, `delivered` is the time of the last.
    """

    key: str
    hub: str
    topic: str
    callback: str
    asked: int
    due: int
    confirmed: int | None = None
    until: int | None = None
    failures: int = 0
    denied: bool = False
    note: str | None = None
    deliveries: int = 0
    delivered: int | None = None

    @property
    def state(self) -> LeaseState:
        if self.until is not None:
            return "active"
        if self.denied:
            return "denied"
        return "asked" if self.note is None else "failed"


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


_SHOWN = (
    *("key", "stream", "site_url", "format", "quality", "every", "ttl", "state", "added"),
    *("last_item", "polled", "polls", "failures", "failing_since", "code", "error", "note", "hub"),
)


def feed_row(feed: Feed, count: ItemCounts, lease: HubLease | None = None) -> dict[str, Any]:
    """Return a feed for output: without secrets, times in ticks."""
    return {
        "url": feed.shown_url,
        **{name: getattr(feed, name) for name in _SHOWN},
        "tags": list(feed.tags),
        "title": feed.shown_title,
        "published_title": feed.title,
        "lateness": feed.lateness // SECOND,
        "headers": [name for name, _ in feed.headers] or list(feed.header_names),
        **asdict(count),
        "next_poll": None if feed.gone else feed.next_poll,
        "moved_to": None if feed.moved_to is None else shown(feed.moved_to),
        "push": None if lease is None else lease.state,
        "push_until": None if lease is None else lease.until,
        "pushed": None if lease is None else lease.delivered,
        "pushes": 0 if lease is None else lease.deliveries,
        "push_note": None if lease is None else lease.note,
    }


# -- Admission -----------------------------------------------------------------------------

MOST_TAGS = 50
"""Most tags of a feed."""


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """A feed that somebody wants to follow; `url` as it was given, secrets included.

    `owner` is the prefix of the names of the user who follows it (`Feed.owner`).
    """

    url: str
    stream: str | None = None
    tags: Sequence[str] = ()
    every: int = EVERY
    headers: Headers = ()
    title: str = ""
    site_url: str = ""
    owner: str = ""


class FeedAdmission:
    """The obstacles to following a feed: followed feeds, and published streams.

    `keys` and `urls` have the streams of their feeds, `published` streams have a subscription.
    `streams` are all names that are taken.
    """

    def __init__(self, feeds: Iterable[Feed], published: Mapping[str, str]) -> None:
        self.keys: dict[str, str] = {}
        self.urls: dict[tuple[str, str], str] = {}
        self.published = published
        self.streams = {EVERYTHING, *published}
        for feed in feeds:
            self.register(feed)

    def register(self, feed: Feed) -> None:
        self.keys[feed.key] = self.urls[feed.owner, feed.url] = feed.stream
        self.streams.add(feed.stream)


def admit(wanted: FeedRequest, known: FeedAdmission, now: int) -> Feed:
    """Return a new feed; raises XsclError if it is followed already or a name is invalid."""
    owner = wanted.owner
    key = owner + feed_key(wanted.url)
    url, user = split_user(wanted.url)
    headers = (*wanted.headers, *user)
    if owner_prefix(key) != owner or any(map(owner_prefix, (wanted.stream or "", *wanted.tags))):
        raise FeedsError(
            f"{shown(url)} cannot be followed under names that begin as those of users do"
        )
    there = known.keys.get(key) or (None if headers else known.urls.get((owner, url)))
    if there is not None:
        raise FeedsError(
            f"{shown(url)} is followed already, on the stream {there!r}",
            hint=f"'xscl feeds show {there}' shows it, 'xscl feeds edit' changes it",
        )
    if len(wanted.tags) > MOST_TAGS:
        raise FeedsError(f"{shown(url)} has over {MOST_TAGS} tags", hint="give it fewer")
    for name in (*filter(None, [wanted.stream]), *wanted.tags):
        check_stream(name)
    free = free_name(owner + stream_name(url), known.streams)
    stream = owner + wanted.stream if wanted.stream else free
    tags = tuple(dict.fromkeys(owner + tag for tag in wanted.tags))
    refuse_published((stream, *tags), known.published)
    return Feed(
        url,
        headers=headers,
        given_for=url if headers else "",
        key=key,
        stream=stream,
        tags=tags,
        every=wanted.every,
        added=now,
        title=title_of(wanted.title),
        site_url=site_of(wanted.site_url),
        next_poll=now,
    )


def refuse_published(streams: Iterable[str], published: Mapping[str, str]) -> None:
    """Raise FeedsError if a subscription publishes one of a feed's streams."""
    for name in streams:
        if name in published:
            raise FeedsError(
                f"the subscription {published[name]!r} publishes the stream {name!r}",
                hint="give the feed another name of a stream",
            )


# -- The repository ------------------------------------------------------------------------


class FeedRepository:
    """The feeds in an engine's database, on a connection of its own, `store`.

    With the directory of a spool, it first records the items of segments that no poll has recorded.
    `clock` returns the time of additions, in ticks.
    """

    def __init__(
        self, engine: Engine, spool: Path | None = None, clock: Callable[[], int] | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock or ticks
        self.store = engine.connect()
        try:
            self._secrets = _secrets_of(engine, self.store)
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
        self.store.close()

    @contextmanager
    def writing(self) -> Iterator[Store]:
        """Yield the store in a transaction, which is committed after the block."""
        with self.store.transaction():
            yield self.store

    # -- Reading ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Feed]:
        return self._read(rows_of(self.store, "feed", order="added, key"))

    def __getitem__(self, key: str) -> Feed:
        """Return a feed by its key; raises FeedsError."""
        for feed in self.among([key]):
            return feed
        raise FeedsError(f"there is no feed {key!r}", hint="'xscl feeds list' shows what there is")

    def owned(
        self,
        owner: str,
        after: stored.FeedPlace | None = None,
        limit: int | None = None,
        *,
        order: str = "key",
        text: str = "",
        tag: str = "",
    ) -> list[Feed]:
        """Return feeds of one owner as `stored.feeds_of` does."""
        rows = stored.feeds_of(
            self.store, owner, after=after, limit=limit, order=order, text=text, tag=tag
        )
        return list(self._read(rows))

    def due(self, now: int) -> list[Feed]:
        """Return the due feeds, the longest waiting first."""
        return list(self._read(stored.due_feeds(self.store, now)))

    def next_due(self, now: int, busy: Collection[str], most: int) -> list[Feed]:
        """Return the next feed to poll of each domain not busy, the longest waiting first."""
        keys = stored.next_due(self.store, now, busy=busy, most=most)
        found = {feed.key: feed for feed in self.among(keys)}
        return [found[key] for key in keys if key in found]  # one may have been removed since

    def items_of(self, keys: Collection[str]) -> dict[str, dict[str, ItemVersion]]:
        """Return the remembered items of feeds, by key and identity."""
        found: dict[str, dict[str, ItemVersion]] = {key: {} for key in keys}
        if found:
            for row in rows_of(self.store, "feed_item", key=keys):
                key, identity = row.pop("key"), row.pop("identity")
                found[key][identity] = ItemVersion(**row)
        return found

    def counts(self, keys: Collection[str] | None = None) -> dict[str, ItemCounts]:
        """Return the number of known items of each feed by key, for some feeds or all."""
        rows = stored.count_items(self.store, keys)
        return {row.pop("key"): ItemCounts(**row) for row in rows}

    def leases(self, keys: Collection[str] | None = None) -> dict[str, HubLease]:
        """Return the leases of feeds at their hubs by key, for some feeds or all."""
        store = self.store
        some = (
            rows_of(store, "feed_lease") if keys is None else rows_of(store, "feed_lease", key=keys)
        )
        return {row["key"]: HubLease(**row) for row in some}

    def lease_of(self, callback: str) -> HubLease | None:
        """Return the lease whose callback has this hash, None without one."""
        rows = rows_of(self.store, "feed_lease", callback=callback)
        return next((HubLease(**row) for row in rows), None)

    def polls(self, feed: Feed) -> Sequence[PollRecord]:
        """Return the last polls of a feed, the newest first."""
        newest_first = "polled DESC, rowid DESC"
        rows = rows_of(self.store, "feed_poll", *_POLL, order=newest_first, key=feed.key)
        return [PollRecord(**row) for row in rows][:MOST]

    def is_followed(self, url: str, *, besides: Feed) -> bool:
        """Return True if another feed of the same owner has the address."""
        return any(
            feed.url == url and feed.owner == besides.owner and feed.key != besides.key
            for feed in self._read(stored.feeds_among(self.store, (), shown(url)))
        )

    def _read(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Feed]:
        return (feed_of(row, self._secrets) for row in rows)

    # -- What people change ----------------------------------------------------------------

    def add(self, wanted: FeedRequest, *, now: int | None = None) -> Feed:
        """Follow a feed; it is due at once.  Raises XsclError if it is refused."""
        (added,) = self.add_all([wanted], now=now)
        if isinstance(added, XsclError):
            raise added
        return added

    def add_all(
        self, wanted: Sequence[FeedRequest], *, now: int | None = None
    ) -> list[Feed | XsclError]:
        """Follow feeds, all due at once; return an error in place of one that is refused."""
        time_now = self._clock() if now is None else now
        added: list[Feed | XsclError] = []
        published = self._published()
        with self.writing():
            followed = FeedAdmission(self, published)
            for one in wanted:
                try:
                    feed = admit(one, followed, time_now)
                except XsclError as error:
                    added.append(error)
                    continue
                followed.register(feed)
                added.append(feed)
            self._insert([feed for feed in added if isinstance(feed, Feed)])
        return added

    def insert(self, feeds: Sequence[Feed]) -> None:
        """Insert feeds whose keys the table lacks, with their secrets."""
        with self.writing():
            self._insert(feeds)

    def _insert(self, feeds: Sequence[Feed]) -> None:
        self._secrets.keep(feed for feed in feeds if hidden(feed))
        self.store.insert_rows("feed", map(row_of, feeds))

    def edit(self, feed: Feed) -> None:
        """Write the editable fields of a feed: name, tags, interval, headers, `gone`, next poll."""
        refuse_published(feed.tags, self._published())
        self._secrets.keep([feed])
        with self.writing() as store:
            row = row_of(feed)
            update_rows(store, "feed", {name: row[name] for name in _EDITED}, key=feed.key)

    def request_poll(self, feed: Feed, now: int, *, at_once: bool = False) -> Feed:
        """Make a feed due, as soon as its owner may have it polled, or `at_once`; return it.

        A due feed may be in a poll at the moment, and its answer may be older than the request.
        So the time at which it is due changes by a tick, and then it is polled once more, a user's
        feed after a minute.
        """
        least = 0 if at_once else _least(feed.owner)
        with self.writing() as store:
            stored.make_due(store, now, least=least, key=feed.key)
        return self[feed.key]

    def request_polls(self, owner: str, now: int) -> int:
        """Make all feeds of an owner due, as `request_poll` does one; return their number."""
        with self.writing() as store:
            return stored.make_due(store, now, least=_least(owner), owner=owner)

    def _published(self) -> dict[str, str]:
        """Return the streams that subscriptions publish, each with the name of one of these."""
        return {
            subscription.publish: subscription.name
            for subscription in self._engine.subscriptions
            if subscription.publish
        }

    def remove(self, feed: Feed) -> None:
        """Stop following a feed; its known items stay, in case it is added again."""
        with self.writing() as store:
            for table in ("feed", "feed_lease", "feed_poll"):
                delete_rows(store, table, key=feed.key)
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
        with self.writing() as store:
            stored.update_polled(
                store,
                [row_of(feed) for feed in feeds],
                was_due=[(due or {}).get(feed.key) for feed in feeds],
                again=[(feed.polled or 0) + _least(feed.owner) for feed in feeds],
            )
            rows = [{"key": key, **asdict(one)} for key, one in (polls or {}).items()]
            store.insert_rows("feed_poll", rows)
            for key in polls or {}:
                delete_but_newest(store, "feed_poll", MOST, key=key)
            self._save_items((one.feed, name, row) for one in news for name, row in one.items)
            stored.delete_items(store, [(one.feed, name) for one in news for name in one.forgotten])
            if segment is not None:
                stored.set_appended(store, segment)
            for domain, until in (holds or {}).items():
                stored.hold_domain(store, domain, until)

    def _save_items(self, rows: Iterable[tuple[str, str, ItemVersion]]) -> None:
        items = [{"key": key, "identity": name, **_fields_of(one)} for key, name, one in rows]
        self.store.insert_rows("feed_item", items, replace=True)

    def announce(self, segments: int) -> None:
        """Record the number of segments that are about to be appended to the spool."""
        with self.writing() as store:
            stored.set_appended(store, stored.last_appended(store), segments)

    # -- After a kill ----------------------------------------------------------------------

    def _catch_up(self, spool: Spool) -> None:
        """Remember the items of segments that were appended but not recorded."""
        known, announced = stored.appended(self.store)
        numbers = spool.numbers(known)
        if not numbers:
            return
        keys: set[str] = set()
        segments = 0
        with self.writing() as store:
            for number in numbers:
                rows = list(self._unrecorded(spool, number))
                self._save_items(rows)
                keys.update(key for key, _, _ in rows)
                segments += bool(rows)
            if announced is None or segments >= announced:
                stored.mark_polled(store, keys)
            stored.set_appended(store, numbers[-1])

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
        return list(self._read(stored.feeds_among(self.store, keys))) if keys else []


def _least(owner: str) -> int:
    """Return the least ticks between polls of a feed at its owner's request: 0 for the operator."""
    return LEAST_EVERY * SECOND if owner else 0


_VERSION = tuple(one.name for one in fields(ItemVersion))
_POLL = tuple(one.name for one in fields(PollRecord))


def _fields_of(one: ItemVersion) -> dict[str, object]:
    """Return the fields of a version by name; `asdict` takes ten times as long."""
    return {name: getattr(one, name) for name in _VERSION}


_IN_MEMORY: WeakKeyDictionary[Engine, Credentials] = WeakKeyDictionary()


def _secrets_of(engine: Engine, store: Store) -> Credentials:
    """Return the secrets of an engine's feeds: beside its database, or in memory like it."""
    if store.path is None:
        return _IN_MEMORY.setdefault(engine, Credentials())
    return secrets_in(store.path.with_name(NAME))


def ticks() -> int:
    """Return the time now in ticks: microseconds since 1970."""
    return time.time_ns() // 1_000
