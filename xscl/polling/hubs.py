"""Leases at WebSub hubs: asking for them, confirming, renewing, ending.

A lease is asked for after a poll has found a hub, and again when three quarters of it are over.
The hub confirms by a request to the callback.  Its row is written before the hub is asked, as a hub
may confirm before it answers.  What a hub sends makes the feed's poll due; items come from polls
alone.

The secret part of a callback's address, and the secret of its signatures, are made from one random
key of this installation (`xscl.polling.credentials`), the feed, its hub and its topic.  Tables have
the hash of the first only.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from feeds.formats.mend import FORBIDDEN
from feeds.http import websub
from feeds.http.connection import RequestSettings
from xscl.polling.credentials import Credentials, InstallationKey
from xscl.polling.feed import LEAST_EVERY, SECOND
from xscl.polling.feed_repository import FeedRepository, HubLease
from xscl.store.queries import feeds as stored
from xscl.store.queries.rows import delete_rows, update_rows

LEASE = 10 * 24 * 3_600
"""Seconds of the leases that hubs are asked for."""

LONGEST = 30 * 24 * 3_600
SHORTEST = 60
"""The longest and the shortest lease in seconds, whatever a hub grants."""

CALLBACKS = 10_000
"""Most leases of a service; further feeds are polled only."""

AT_ONCE = 8
"""Most hubs with a request at the same time."""

_RETRY, _DAY = 3_600, 24 * 3_600  # seconds
_LOOK = SECOND  # ticks between two checks for leases that are due
_NOTE = 200  # characters that are kept of a hub's message, at most

UNCONFIRMED = "the hub has not confirmed the subscription"
ENDED = "the lease has ended and was not renewed"


PATH = "/websub/"
"""Path of callbacks below the public address of the service."""

TOKEN = re.compile(r"[0-9a-f]{64}")
"""The form of the secret part of a callback's address."""

KEPT_AS = "websub"  # among the credentials; the key of no feed


class HubCallbacks:
    """The callbacks of a service with a public address."""

    def __init__(self, public: str, credentials: Callable[[], Credentials]) -> None:
        """`credentials` are those of the installation, read when the first callback is made."""
        self._public = public.rstrip("/")
        self._key = InstallationKey(KEPT_AS, credentials)
        self.known: frozenset[str] = frozenset()
        """The hashes of the callbacks that have a lease: their requests may have large bodies."""

    def token(self, key: str, hub: str, topic: str) -> str:
        """Return the secret part of the callback for a feed at its hub."""
        return self._key.digest_of("callback", key, hub, topic)

    def address(self, token: str) -> str:
        """Return the address of a callback."""
        return f"{self._public}{PATH}{token}"

    def secret(self, token: str) -> str:
        """Return the secret of the signatures for a callback."""
        return self._key.digest_of("secret", token)


def digest(token: str) -> str:
    """Return the hash of the secret part of a callback, by which tables know it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Hubs:
    """The leases of the feeds in a repository, kept up by the task that polls.

    `now` returns the time in ticks.
    """

    def __init__(
        self,
        feeds: FeedRepository,
        callbacks: HubCallbacks,
        settings: RequestSettings,
        now: Callable[[], int],
    ) -> None:
        self._feeds = feeds
        self._callbacks = callbacks
        self._settings = settings
        self._now = now
        self._looked = 0
        self._flying: set[asyncio.Task[None]] = set()
        unlease(feeds, self._foreign())
        self._note_callbacks()

    def _foreign(self) -> list[str]:
        """The feeds with leases whose callbacks this installation has not made."""
        return [
            lease.key
            for lease in self._feeds.leases().values()
            if lease.callback != digest(self._callbacks.token(lease.key, lease.hub, lease.topic))
        ]

    def _note_callbacks(self) -> None:
        self._callbacks.known = frozenset(one.callback for one in self._feeds.leases().values())

    async def ask_due(self) -> None:
        """Start requests for due leases, and end leases that are over; once a second at most."""
        self._flying -= {task for task in self._flying if task.done()}
        now = self._now()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        begun = await asyncio.to_thread(self._due, now, AT_ONCE - len(self._flying))
        self._flying.update(asyncio.create_task(self._ask(lease)) for lease in begun)

    def _due(self, now: int, most: int) -> list[HubLease]:
        """End leases that are over; record and return those to ask for."""
        end_leases(self._feeds, now)
        begun = begin(self._feeds, self._callbacks, now, most)
        if begun:
            self._note_callbacks()
        return begun

    async def close(self) -> None:
        """Drop requests in flight."""
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)

    async def _ask(self, lease: HubLease) -> None:
        """Ask a hub for a lease; it confirms it to the callback."""
        token = self._callbacks.token(lease.key, lease.hub, lease.topic)
        form = {
            "hub.mode": "subscribe",
            "hub.topic": lease.topic,
            "hub.callback": self._callbacks.address(token),
            "hub.lease_seconds": str(LEASE),
            "hub.secret": self._callbacks.secret(token),
        }
        problem = await websub.post(lease.hub, form, self._settings)
        if problem is not None:
            await asyncio.to_thread(self._note_problem, lease, problem[:_NOTE])

    def _note_problem(self, lease: HubLease, problem: str) -> None:
        with self._feeds.writing() as store:
            stored.note_problem(store, lease.key, problem, asked=lease.asked)


def begin(feeds: FeedRepository, callbacks: HubCallbacks, now: int, most: int) -> list[HubLease]:
    """Record and return the leases to ask for at `now`, at most `most`."""
    rows = stored.wanted_leases(feeds.store, now, max(0, most))
    if not rows:
        return []
    with feeds.writing() as store:
        before = feeds.leases()
        room = CALLBACKS - len(before)
        wanted = [row for row in rows if row[0] in before]
        wanted += [row for row in rows if row[0] not in before][: max(0, room)]
        asked = [
            _asking(callbacks, key, hub, topic, before.get(key), now) for key, hub, topic in wanted
        ]
        for lease in asked:
            store.insert_rows("feed_lease", [asdict(lease)], replace=True)
    return asked


def _asking(
    callbacks: HubCallbacks, key: str, hub: str, topic: str, last: HubLease | None, now: int
) -> HubLease:
    """Return the lease of a feed while its hub is asked."""
    callback = digest(callbacks.token(key, hub, topic))
    if last is None or (last.hub, last.topic) != (hub, topic):
        return HubLease(key, hub, topic, callback, now, now + _RETRY * SECOND, failures=1)
    is_silent = last.until is None and not last.denied and last.note is None
    return replace(
        last,
        callback=callback,
        asked=now,
        due=now + min(_RETRY << min(last.failures, 8), _DAY) * SECOND,
        failures=last.failures + 1,
        note=UNCONFIRMED if is_silent else last.note,
    )


# -- What hubs say -------------------------------------------------------------------------


def confirm(feeds: FeedRepository, lease: HubLease, seconds: int, now: int) -> None:
    """Begin or prolong a lease for the seconds that its hub grants, within bounds."""
    held = max(SHORTEST, min(seconds, LONGEST)) * SECOND
    begun = {"confirmed": now, "until": now + held, "due": now + held * 3 // 4}
    _change(feeds, lease, {**begun, "failures": 0, "denied": False, "note": None})


def deny(feeds: FeedRepository, lease: HubLease, reason: str, now: int) -> None:
    """End a lease that the hub refuses."""
    said = " ".join(FORBIDDEN.sub("", reason).split())[:_NOTE] or "the hub refuses"
    again = now + _DAY * SECOND
    _change(feeds, lease, {"until": None, "denied": True, "due": again, "note": said})


def _change(feeds: FeedRepository, lease: HubLease, columns: Mapping[str, Any]) -> None:
    """Change a lease, unless its hub was given another callback meanwhile."""
    with feeds.writing() as store:
        update_rows(store, "feed_lease", columns, key=lease.key, callback=lease.callback)


def end_leases(feeds: FeedRepository, now: int) -> None:
    """End leases that are over, and those of feeds that name no hub any more."""
    over = stored.ended_leases(feeds.store, now)
    if over:
        with feeds.writing() as store:
            update_rows(store, "feed_lease", {"until": None, "note": ENDED}, key=over)
    unlease(feeds, stored.leases_without_hub(feeds.store))


def unlease(feeds: FeedRepository, keys: Iterable[str]) -> None:
    """Forget leases; requests of their hubs are answered as those of a stranger."""
    if listed := list(keys):
        with feeds.writing() as store:
            delete_rows(store, "feed_lease", key=listed)


def delivered(feeds: FeedRepository, lease: HubLease, now: int) -> None:
    """Record that a hub has sent something, and make the feed's poll due."""
    with feeds.writing() as store:
        stored.count_delivery(store, lease.key, now)
        stored.make_due(store, now, least=LEAST_EVERY * SECOND, key=lease.key)
