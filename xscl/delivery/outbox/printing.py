"""Printing: the endpoint of all matches of the operator, whose cursor the engine stores.

A listener gets them in a thread of its own, so a slow one delays neither ingestion nor deliveries.
One that is too far behind skips matches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from feeds.daemons import DaemonPool
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.engine.match_log import LAST, MatchPlace
from xscl.errors import StoreError
from xscl.language.names import owner_number
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import Match

BEHIND = 100_000
"""Maximum number of results that a listener may be behind before it skips.

It then continues with the newest tenth of these.
"""

_log = logging.getLogger(__name__)


def _ignore(count: int) -> None:
    """Ignore skipped matches."""


class Printing:
    """Passes the operator's matches to a listener, from a stored cursor.

    `listen` is called with pages of matches in order of position, `skipped` with the number of
    skipped ones.  The cursor advances after `listen` has returned, so delivery is at least once,
    also across restarts.
    """

    def __init__(
        self,
        engine: Engine,
        listen: Callable[[Sequence[Match]], None],
        skipped: Callable[[int], None] = _ignore,
        behind: int = BEHIND,
    ) -> None:
        self._pages = engine.log
        self._listen = listen
        self._skipped = skipped
        self._behind = behind
        self._place: MatchPlace = (self._pages.begin_delivery(), LAST)
        # The end of the process does not wait for a listener that does not return.
        self._thread = DaemonPool("printing", 1)
        self._is_closed = False

    def has_all(self) -> bool:
        """Return True if the listener has received all kept matches."""
        return self._place >= (self._pages.position(), LAST)

    async def deliver(self) -> bool:
        """Pass new matches to the listener; return False if the call must be repeated soon."""
        return await asyncio.wrap_future(self._thread.submit(self._deliver))

    def close(self) -> None:
        """Read no further page, and store the cursor."""
        self._is_closed = True
        self._pages.save_acknowledged()

    def _deliver(self) -> bool:
        try:
            self._read_new()
        except StoreError as error:  # matches are in the store and are read again
            _log.warning("new matches cannot be read now: %s", error)
            return False
        except Exception:
            _log.exception("new matches cannot be read now")
            return False
        return self._is_acknowledged()

    def _is_acknowledged(self) -> bool:
        """Set the engine's cursor unless a push is in progress; return True if it is not behind."""
        position, number = self._place
        passed = position if number == LAST else position - 1
        if self._pages.acknowledged < passed:
            self._pages.try_acknowledge(passed)
        return self._pages.acknowledged >= passed

    def _read_new(self) -> None:
        """Pass all matches after the cursor to the listener."""
        while not self._is_closed:
            # The store's cursor also passes the past of a new subscription.  The engine's own may
            # be that of a change that fails, whose positions are given to other results.
            delivered, newest = self._pages.progress()
            self._place = max(self._place, (delivered, LAST))
            if self._place >= (newest, LAST):
                return
            if newest - self._place[0] > self._behind:
                self._skip(newest - self._behind // 10)
            page = self._pages.page_of_all(_is_operators, after=self._place)
            live = [match for match in page.matches if not match.backfilled]
            if live:
                self._pass_on(live)
            self._place = max(self._place, page.place)
            self._is_acknowledged()

    def _pass_on(self, matches: Sequence[Match]) -> None:
        """Call the listener; raises StoreUnavailable, after which the page is passed again."""
        try:
            self._listen(matches)
        except StoreUnavailable:
            raise
        except Exception:
            _log.exception("the listener of matches failed; they are kept")

    def _skip(self, position: int) -> None:
        """Skip matches before a position."""
        count = self._pages.count(self._place[0], position, _is_operators)
        self._place = (position, LAST)
        try:
            self._skipped(count)
        except Exception:
            _log.exception("the listener of matches failed; %d were skipped", count)


def _is_operators(subscription: Subscription) -> bool:
    return owner_number(subscription.name) == 0
