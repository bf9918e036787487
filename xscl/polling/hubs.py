"""Leases at WebSub hubs: asking for them, confirming, renewing, ending.

A lease is asked for after a poll has found a hub, and again when three quarters of it are over.
The hub confirms by a request to the callback.  Its row is written before the hub is asked, as a hub
may confirm before it answers.  When a lease ends for any reason, the feed is polled as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict

from feeds.formats.ladder import FORBIDDEN
from feeds.http import websub
from feeds.http.fetch import FetchSettings
from templates.columns.arrow_tables import named
from xscl.polling.feed import LEAST_EVERY, SECOND, Feed
from xscl.polling.feed_repository import FeedRepository
from xscl.polling.hub_lease import HubLease
from xscl.polling.websub_callbacks import Pushes, digest

LEASE = 10 * 24 * 3_600
"""Seconds that a hub is asked for."""

LONGEST = 30 * 24 * 3_600
SHORTEST = 60
"""Bounds of a lease, in seconds, whatever a hub says."""

CALLBACKS = 10_000
"""Leases of a service, at most; feeds beyond are polled only."""

AT_ONCE = 8
"""Hubs that are asked at the same time."""

_RETRY, _DAY = 3_600, 24 * 3_600  # seconds
_LOOK = SECOND  # ticks between two looks at what is due
_NOTE = 200  # characters of what a hub says

_OVER = "SELECT key FROM state.feed_lease WHERE until <= ?"
_WITHOUT_HUB = (
    "SELECT key FROM state.feed_lease WHERE key NOT IN"
    " (SELECT key FROM state.feed WHERE hub IS NOT NULL AND NOT gone)"
)

UNCONFIRMED = "the hub has not confirmed the subscription"
ENDED = "the lease has ended and was not renewed"


class Hubs:
    """The leases of a repository of feeds, as the thread that polls keeps them.

    `now` returns the time in ticks.
    """

    def __init__(
        self,
        feeds: FeedRepository,
        pushes: Pushes,
        settings: FetchSettings,
        now: Callable[[], int],
    ) -> None:
        self._feeds = feeds
        self._pushes = pushes
        self._settings = settings
        self._now = now
        self._looked = 0
        self._flying: set[asyncio.Task[None]] = set()
        catch_up(feeds, now())
        unlease(feeds, self._foreign())
        self._note_callbacks()

    def _foreign(self) -> list[str]:
        """The feeds with leases whose callbacks this installation has not made."""
        return [
            lease.key
            for lease in self._feeds.leases().values()
            if lease.callback != digest(self._pushes.token(lease.key, lease.hub, lease.topic))
        ]

    def _note_callbacks(self) -> None:
        self._pushes.known = frozenset(one.callback for one in self._feeds.leases().values())

    def ask_due(self) -> None:
        """Begin to ask hubs whose leases are due, and end what is over; once a second at most."""
        self._flying -= {task for task in self._flying if task.done()}
        now = self._now()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        end_leases(self._feeds, now)
        begun = begin(self._feeds, self._pushes, now, AT_ONCE - len(self._flying))
        if begun:
            self._note_callbacks()
        self._flying.update(asyncio.create_task(self._ask(lease)) for lease in begun)

    async def close(self) -> None:
        """Drop requests in flight."""
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)

    async def _ask(self, lease: HubLease) -> None:
        """Ask a hub for a lease; it confirms it to the callback."""
        token = self._pushes.token(lease.key, lease.hub, lease.topic)
        form = {
            "hub.mode": "subscribe",
            "hub.topic": lease.topic,
            "hub.callback": self._pushes.address(token),
            "hub.lease_seconds": str(LEASE),
            "hub.secret": self._pushes.secret(token),
        }
        problem = await websub.post(lease.hub, form, self._settings)
        if problem is not None:
            with self._feeds.writing() as store:
                store.fetch(
                    "UPDATE state.feed_lease SET note = ? WHERE key = ? AND asked = ?"
                    " AND coalesce(confirmed, 0) < asked",
                    [problem[:_NOTE], lease.key, lease.asked],
                )


def begin(feeds: FeedRepository, pushes: Pushes, now: int, most: int) -> list[HubLease]:
    """Record and return the leases to ask for now."""
    rows = feeds.fetch(
        "SELECT key, f.hub, f.topic FROM state.feed f LEFT JOIN state.feed_lease l USING (key)"
        " WHERE f.hub IS NOT NULL AND NOT f.gone AND f.error IS NULL"
        " AND (l.due IS NULL OR l.due <= ? OR (l.hub, l.topic) <> (f.hub, f.topic))"
        " ORDER BY l.due NULLS LAST, key LIMIT ?",
        [now, max(0, most)],
    )
    if not rows:
        return []
    with feeds.writing() as store:
        before = feeds.leases()
        room = CALLBACKS - len(before)
        wanted = [row for row in rows if row[0] in before]
        wanted += [row for row in rows if row[0] not in before][: max(0, room)]
        asked = [
            _asking(pushes, key, hub, topic, before.get(key), now) for key, hub, topic in wanted
        ]
        for lease in asked:
            row = asdict(lease)
            marks = ", ".join("?" * len(row))
            store.fetch(
                f"INSERT OR REPLACE INTO state.feed_lease ({named(row)}) VALUES ({marks})",
                list(row.values()),
            )
    return asked


def _asking(
    pushes: Pushes, key: str, hub: str, topic: str, last: HubLease | None, now: int
) -> HubLease:
    """Return the lease of a feed while its hub is asked."""
    if last is not None and (last.hub, last.topic) == (hub, topic):
        failures = last.failures + 1
        is_silent = last.until is None and not last.denied and last.note is None
        note = UNCONFIRMED if is_silent else last.note
    else:
        last, failures, note = None, 1, None
    again = now + min(_RETRY << min(failures - 1, 8), _DAY) * SECOND
    callback = digest(pushes.token(key, hub, topic))
    if last is None:
        return HubLease(key, hub, topic, callback, now, again, failures=failures)
    return HubLease(
        *(key, hub, topic, callback, now, again, last.confirmed, last.until, failures),
        *(last.denied, note, last.deliveries, last.delivered, last.missed),
    )


# -- What hubs say -------------------------------------------------------------------------


def confirm(feeds: FeedRepository, lease: HubLease, seconds: int, now: int) -> None:
    """Begin a lease, or prolong it."""
    held = max(SHORTEST, min(seconds, LONGEST)) * SECOND
    with feeds.writing() as store:
        store.fetch(
            "UPDATE state.feed_lease SET confirmed = ?, until = ?, due = ?, failures = 0,"
            " denied = false, note = NULL WHERE key = ? AND callback = ?",
            [now, now + held, now + held * 3 // 4, lease.key, lease.callback],
        )


def deny(feeds: FeedRepository, lease: HubLease, reason: str, now: int) -> None:
    """End a lease that the hub refuses."""
    said = " ".join(FORBIDDEN.sub("", reason).split())[:_NOTE]
    with feeds.writing() as store:
        store.fetch(
            "UPDATE state.feed_lease SET until = NULL, denied = true, due = ?, note = ?"
            " WHERE key = ? AND callback = ?",
            [now + _DAY * SECOND, said or "the hub refuses", lease.key, lease.callback],
        )
    poll_as_before(feeds, [lease.key], now)


def end_leases(feeds: FeedRepository, now: int) -> None:
    """End leases that are over, and those of feeds that name no hub any more."""
    over = [key for (key,) in feeds.fetch(_OVER, [now])]
    if over:
        with feeds.writing() as store:
            store.fetch(
                "UPDATE state.feed_lease SET until = NULL, note = ?"
                " WHERE list_contains(?::VARCHAR[], key)",
                [ENDED, over],
            )
        poll_as_before(feeds, over, now)
    unlease(feeds, [key for (key,) in feeds.fetch(_WITHOUT_HUB)])


def unlease(feeds: FeedRepository, keys: Iterable[str]) -> None:
    """Forget leases; requests of their hubs are answered as those of a stranger."""
    if listed := list(keys):
        with feeds.writing() as store:
            store.fetch(
                "DELETE FROM state.feed_lease WHERE list_contains(?::VARCHAR[], key)", [listed]
            )


def catch_up(feeds: FeedRepository, now: int) -> None:
    """Poll feeds with leases as if they had none: nobody took what hubs sent meanwhile."""
    poll_as_before(feeds, list(feeds.leases()), now)


def poll_as_before(feeds: FeedRepository, keys: Iterable[str], now: int) -> None:
    """Bring the next polls of feeds forward to those of feeds without a hub."""
    listed = list(keys)
    if listed:
        with feeds.writing() as store:
            store.fetch(
                "UPDATE state.feed SET next_poll = greatest(least(next_poll,"
                " coalesce(polled, 0) + greatest(every, coalesce(ttl, 0)) * ?), ?)"
                " WHERE next_poll > ? AND error IS NULL AND list_contains(?::VARCHAR[], key)",
                [SECOND, now, now, listed],
            )


# -- Polls and pushes ----------------------------------------------------------------------


def delivered(feeds: FeedRepository, keys: Iterable[str], polls: Iterable[str], now: int) -> None:
    """Record deliveries to feeds, one for each key, and let a poll tell the rest of some."""
    again = list(polls)
    with feeds.writing() as store:
        for key in keys:
            store.fetch(
                "UPDATE state.feed_lease SET deliveries = deliveries + 1, delivered = ?"
                " WHERE key = ?",
                [now, key],
            )
        if again:
            # A feed that is due may just be polled: as its time changes, it is polled once more.
            soon = "greatest(?, coalesce(polled, 0) + ?)"
            store.fetch(
                f"UPDATE state.feed SET next_poll = CASE WHEN next_poll BETWEEN ? AND {soon}"
                f" THEN next_poll ELSE {soon} END WHERE list_contains(?::VARCHAR[], key)",
                [now + 1, *[now + 1, LEAST_EVERY * SECOND] * 2, again],
            )


def missed(feeds: FeedRepository, polled: Iterable[Feed], now: int) -> None:
    """Record polls with new items that no push since the last poll could have brought.

    `polled` are the feeds before the poll.
    """
    listed = list(polled)
    if not listed:
        return
    with feeds.writing() as store:
        for feed in listed:
            store.fetch(
                "UPDATE state.feed_lease SET missed = ? WHERE key = ? AND until IS NOT NULL"
                " AND coalesce(delivered, 0) < ? AND confirmed < ?",
                [now, feed.key, feed.polled or 0, feed.polled or 0],
            )
