"""The tables of feeds in an engine's database, and feeds as rows of them.

Headers and addresses that look secret are not in the tables (`xscl.polling.credentials`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from xscl.polling.credentials import ADDRESSES, Credentials
from xscl.polling.feed import SECOND, Feed, lateness_of, shown
from xscl.polling.lifecycle import secret_lost, with_secret_lost
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.feed(
    key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
    added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
    unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
    next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN,
    domain VARCHAR, site_url VARCHAR, format VARCHAR, quality VARCHAR, note VARCHAR,
    failing_since BIGINT, code VARCHAR, moved_to VARCHAR, moved_polls INTEGER,
    hub VARCHAR, topic VARCHAR, header_names VARCHAR[]);
CREATE TABLE IF NOT EXISTS state.feed_item(
    key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, rule VARCHAR,
    skipped INTEGER, missing_since BIGINT, first_name UBIGINT, all_names UBIGINT,
    time_from VARCHAR, clipped BOOLEAN, written VARCHAR, alike UBIGINT,
    PRIMARY KEY (key, identity));
CREATE TABLE IF NOT EXISTS state.feed_spool(segment BIGINT, announced INTEGER);
CREATE TABLE IF NOT EXISTS state.feed_lease(
    key VARCHAR PRIMARY KEY, hub VARCHAR, topic VARCHAR, callback VARCHAR, asked BIGINT,
    due BIGINT, confirmed BIGINT, until BIGINT, failures INTEGER, denied BOOLEAN, note VARCHAR,
    deliveries BIGINT, delivered BIGINT, missed BIGINT);
CREATE TABLE IF NOT EXISTS state.feed_poll(
    key VARCHAR, polled BIGINT, outcome VARCHAR, seconds FLOAT, items INTEGER, note VARCHAR);
"""


def heard_until(store: Store) -> int | None:
    """Return the time up to which all feeds were polled, in ticks; None if there are none.

    At this time the oldest due poll has waited for half of its feed's lateness: items from before
    the other half are known.
    """
    least = lateness_of(0) // 2
    ((found,),) = store.fetch(
        "SELECT min(next_poll + greatest(?, every * ?)) FROM state.feed WHERE NOT gone",
        [least, SECOND],
    )
    return None if found is None else int(found)


def create_tables(store: Store) -> None:
    """Create the tables of feeds if the store has none yet.

    Later versions of the tables come by a migration (`xscl.store.migrations`).
    """
    if not store.has("feed_spool"):
        with store.transaction():
            store.connection.execute(SCHEMA)


def count_leases(store: Store) -> int:
    """Return the number of feeds whose hubs send what is new."""
    if not store.has("feed_lease"):
        return 0
    (row,) = store.rows("SELECT count(*) AS leases FROM state.feed_lease WHERE until IS NOT NULL")
    return int(row["leases"])


def mark_lost_secrets(store: Store, secrets: Credentials) -> list[Feed]:
    """Mark the feeds whose secrets are not known as failing; return them."""
    if not store.has("feed"):
        return []
    lost = [
        feed
        for row in store.rows(f"{SELECT} ORDER BY added, key")
        if secret_lost(feed := with_secret_lost(feed_of(secrets.filled(row)))) is not None
    ]
    with store.transaction():
        for feed in lost:
            store.fetch(
                "UPDATE state.feed SET code = ?, error = ?, failures = ? WHERE key = ?",
                [feed.code, feed.error, feed.failures, feed.key],
            )
    return lost


# -- Rows ----------------------------------------------------------------------------------

_SECRETS = ("headers", "given_for")
NAMES = tuple(field.name for field in fields(Feed) if field.name not in _SECRETS)
_KEPT = ("key", "stream", "tags", "every", "added")
POLLED = (*(name for name in NAMES if name not in _KEPT), "domain")
"""What a poll may change."""

SELECT = f"SELECT {', '.join(NAMES)} FROM state.feed"


def _value(feed: Feed, name: str) -> object:
    value = getattr(feed, name)
    if name == "header_names" and feed.headers:
        value = tuple(header for header, _ in feed.headers)
    if name in ADDRESSES and value:
        return shown(value)
    return list(value) if isinstance(value, tuple) else value


def table(feeds: Sequence[Feed], names: Iterable[str]) -> pa.Table:
    """Return some columns of feeds as a table, without the secrets in addresses."""
    columns = {name: [_value(feed, name) for feed in feeds] for name in names}
    kinds = dict.fromkeys(("tags", "header_names"), pa.list_(pa.string()))
    return pa.table({name: pa.array(column, kinds.get(name)) for name, column in columns.items()})


def feed_of(values: Mapping[str, Any]) -> Feed:
    """Return the feed of a row, by the names of its columns."""
    given = {name: value for name, value in values.items() if value is not None}
    lists = {name: tuple(values[name] or ()) for name in ("tags", "header_names")}
    return Feed(**given | lists)
