"""New matches for one listener, read from the store after a cursor, on a thread of their own.

A slow listener delays neither ingestion nor other readers.  Matches are in the store, so it costs
no memory.  A listener that is too far behind skips matches.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import Match
from xscl.subscriptions.match_pages import LAST, LIMIT, Place

BEHIND = 100_000
"""Maximum number of results that a listener may be behind before it skips.

It then continues with the newest tenth of these.
"""

RETRY = 0.2
"""Seconds until the cursor is offered to the engine again if a push was in progress."""

_log = logging.getLogger(__name__)


def _ignore(count: int) -> None:
    """Ignore skipped matches."""


class MatchTail:
    """Passes the matches of subscriptions that satisfy `mine` to a listener, from a stored cursor.

    `listen` is called with pages of matches in order of position, `skipped` with the number of
    skipped ones.  The cursor advances after `listen` has returned, so delivery is at least once,
    also across restarts.
    """

    def __init__(
        self,
        engine: Engine,
        mine: Callable[[Subscription], bool],
        listen: Callable[[Sequence[Match]], None],
        skipped: Callable[[int], None] = _ignore,
        behind: int = BEHIND,
    ) -> None:
        self._engine = engine
        self._mine = mine
        self._listen = listen
        self._skipped = skipped
        self._behind = behind
        self._pages = engine.host.log.new_pages()
        self._place: Place = (engine.host.log.begin_delivery(), LAST)
        self._changed = threading.Condition()
        self._notified = True
        self._end_by: float | None = None
        self._read_to = -1  # the listener has received all matches up to this position
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Notify the thread of new matches; does not block."""
        with self._changed:
            self._notified = True
            self._changed.notify_all()

    def has_read_all(self) -> bool:
        """Return whether the listener has received all kept matches, or the thread has ended."""
        return not self._thread.is_alive() or self._has_read(self._pages.position())

    def _has_read(self, position: int) -> bool:
        return self._read_to >= position or not self._thread.is_alive()

    def finish(self, stopping: threading.Event) -> None:
        """Wait until the listener has received all matches, or until the event is set."""
        position = self._pages.position()
        self.notify()
        with self._changed:
            while not self._has_read(position) and not stopping.is_set():
                self._changed.wait(RETRY)

    def stop(self, seconds: float) -> bool:
        """Stop after all matches, or after some seconds; return whether the thread has ended.

        A listener that has not returned by then is abandoned; its matches are passed again later.
        """
        with self._changed:
            self._end_by = time.monotonic() + seconds
        self.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with closing(self._pages):
            while not self._is_over(at_rest=not self._notified):
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._notified, None if self._is_acknowledged else RETRY
                    )
                    self._notified = False
                try:
                    self._read_new()
                except Exception as error:  # matches are in the store and are read again
                    self._report(error)
                    with self._changed:
                        self._notified = True
                        self._changed.wait(RETRY)
                    if self._is_over(at_rest=True):
                        return
                self._acknowledge()
                with self._changed:
                    self._changed.notify_all()

    def _report(self, error: Exception) -> None:
        """Log an error of reading matches."""
        if isinstance(error, StoreError):
            _log.warning("new matches cannot be read now: %s", error)
        else:
            _log.error("new matches cannot be read now", exc_info=error)

    def _is_over(self, *, at_rest: bool = False) -> bool:
        """Return whether `stop` was called and all matches were read, or its deadline passed."""
        return self._end_by is not None and (at_rest or time.monotonic() > self._end_by)

    @property
    def _position(self) -> int:
        """Return the position up to which the listener has received all matches."""
        position, number = self._place
        return position if number == LAST else position - 1

    @property
    def _is_acknowledged(self) -> bool:
        return self._engine.host.log.acknowledged >= self._position

    def _acknowledge(self) -> None:
        """Store the cursor in the engine, unless a push is in progress."""
        if not self._is_acknowledged:
            self._engine.host.log.try_acknowledge(self._position)

    def _read_new(self) -> None:
        """Pass all matches after the cursor to the listener."""
        more = True
        while more and not self._is_over():
            # What the store counts as delivered, such as the past of a new subscription.  The
            # engine's own cursor may be that of a change that fails, whose positions come again.
            delivered, newest = self._pages.progress()
            self._place = max(self._place, (delivered, LAST))
            if self._place >= (newest, LAST):
                more = False
                break
            if newest - self._place[0] > self._behind:
                self._skip(newest - self._behind // 10)
            page = self._pages.of_all(self._mine, after=self._place, limit=LIMIT)
            live = [match for match in page.matches if not match.backfilled]
            if live and not self._listened(live):
                return
            more = page.more
            if more and len(page.matches) == LIMIT:
                last = page.matches[-1]
                self._place = (last.position, last.number)
            else:
                self._place = max(self._place, (page.end, LAST))
            self._acknowledge()
        if not more:
            self._read_to = self._place[0]

    def _listened(self, matches: Sequence[Match]) -> bool:
        """Call the listener; return False if it failed because the service is stopping.

        Raises StoreUnavailable: the page is passed again.
        """
        try:
            self._listen(matches)
        except StoreUnavailable:
            raise
        except Exception:
            if self._end_by is not None:
                return False
            _log.exception("the listener of matches failed; they are kept")
        return True

    def _skip(self, position: int) -> None:
        """Skip matches before a position."""
        count = self._pages.count(self._place[0], position, self._mine)
        self._place = (position, LAST)
        try:
            self._skipped(count)
        except Exception:
            if self._end_by is None:
                _log.exception("the listener of matches failed; %d were skipped", count)
