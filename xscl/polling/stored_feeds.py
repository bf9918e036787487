"""Feeds as rows of the store (`xscl.store.queries.feeds`).

Headers and addresses that look secret are not in the rows (`xscl.polling.credentials`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from xscl.polling.credentials import ADDRESSES, Credentials
from xscl.polling.feed import SECOND, Feed, lateness_of, shown
from xscl.polling.lifecycle import secret_lost, with_secret_lost
from xscl.store.queries import feeds
from xscl.store.queries.rows import rows_of, update_rows
from xscl.store.store import Store

_NAMES = {field.name for field in fields(Feed)} - {"headers", "given_for"}


def heard_until(store: Store) -> int | None:
    """Return the time up to which all feeds were polled, in ticks; None if there are none.

    At this time the oldest due poll has waited for half of its feed's lateness: items from before
    the other half are known.
    """
    return feeds.heard_until(store, least=lateness_of(0) // 2, every=SECOND)


def row_of(feed: Feed) -> dict[str, object]:
    """Return a feed as a row, without the secrets in addresses."""
    row = {name: getattr(feed, name) for name in (*_NAMES, "domain")}
    headers = [name for name, _ in feed.headers] or feed.header_names
    shown_addresses = {name: shown(row[name]) for name in ADDRESSES if row[name]}
    return row | shown_addresses | {"header_names": headers}


def feed_of(row: Mapping[str, Any], secrets: Credentials) -> Feed:
    """Return the feed of a row with its secrets, as failing if one of them is not known."""
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
