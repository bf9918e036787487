"""New matches for one listener, read from the store after a cursor, on a thread of their own.

The listener may be as slow as it likes: it holds up neither ingestion nor other readers. Matches
are kept in the store, so a slow one costs no memory; one that is too far behind skips.
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
from xscl.subscriptions.match import Match
from xscl.subscriptions.match_pages import LAST, LIMIT, Place

BEHIND = 100_000
"""Results that a listener may be behind: of one that is further behind, the older ones are skipped.

It then goes on with the newest tenth of these.
"""

RETRY = 0.2
"""Seconds until the cursor is given to the engine again, if a push was under way."""

_log = logging.getLogger(__name__)


def _ignore(count: int) -> None:
    """Tell nobody that matches were skipped."""


class MatchTail:
    """Follows the matches of subscriptions that are `mine`, from the engine's cursor `told` on.

    `listen` is called with pages of matches in the order of positions, `skipped` with how many were
    left out. The cursor passes a match when `listen` has returned, so delivery is at least once,
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
        self._rung = True
        self._end_by: float | None = None
        self._read_to = -1  # everything up to this position was listened to
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        """Say that there may be new matches; returns at once."""
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def has_read_all(self) -> bool:
        """Return True if the listener has had all kept matches, or the thread has ended."""
        return not self._thread.is_alive() or self._has_read(self._pages.position())

    def _has_read(self, position: int) -> bool:
        return self._read_to >= position or not self._thread.is_alive()

    def finish(self, stopping: threading.Event) -> None:
        """Return when all matches that there are were listened to, or the event is set."""
        position = self._pages.position()
        self.ring()
        with self._changed:
            while not self._has_read(position) and not stopping.is_set():
                self._changed.wait(RETRY)

    def stop(self, seconds: float) -> bool:
        """End when all matches were listened to, or after some seconds; return whether it ended.

        A listener that has not returned by then is left behind; its matches do not count as told.
        """
        with self._changed:
            self._end_by = time.monotonic() + seconds
        self.ring()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with closing(self._pages):
            while not self._is_over(at_rest=not self._rung):
                with self._changed:
                    self._changed.wait_for(lambda: self._rung, None if self._is_told else RETRY)
                    self._rung = False
                try:
                    self._read_on()
                except Exception as error:  # matches are kept: they are read again
                    self._report(error)
                    with self._changed:
                        self._rung = True
                        self._changed.wait(RETRY)
                    if self._is_over(at_rest=True):
                        return
                self._tell()
                with self._changed:
                    self._changed.notify_all()

    def _report(self, error: Exception) -> None:
        """Log why matches could not be read."""
        if isinstance(error, StoreError):
            _log.warning("new matches cannot be read now: %s", error)
        else:
            _log.error("new matches cannot be read now", exc_info=error)

    def _is_over(self, *, at_rest: bool = False) -> bool:
        """Return True after `stop`, when all matches were read or its deadline has passed."""
        return self._end_by is not None and (at_rest or time.monotonic() > self._end_by)

    @property
    def _told(self) -> int:
        """The position up to which all matches were listened to."""
        position, number = self._place
        return position if number == LAST else position - 1

    @property
    def _is_told(self) -> bool:
        return self._engine.host.log.acknowledged >= self._told

    def _tell(self) -> None:
        """Give the cursor to the engine, unless a push is under way."""
        if not self._is_told:
            self._engine.host.log.try_acknowledge(self._told)

    def _read_on(self) -> None:
        """Listen to all that there is after the cursor."""
        more = True
        while more and not self._is_over():
            # what the engine counts as told already, such as the past of a new subscription
            self._place = max(self._place, (self._engine.host.log.acknowledged, LAST))
            newest = self._pages.position()
            if newest - self._place[0] > self._behind:
                self._skip(newest - self._behind // 10)
            page = self._pages.of_all(self._mine, after=self._place, limit=LIMIT)
            if page.matches and not self._heard(page.matches):
                return
            more = page.more
            if more and len(page.matches) == LIMIT:
                last = page.matches[-1]
                self._place = (last.position, last.number)
            else:
                self._place = max(self._place, (page.end, LAST))
            self._tell()
        if not more:
            self._read_to = self._place[0]

    def _heard(self, matches: Sequence[Match]) -> bool:
        """Call the listener; return False if it failed because the service ends."""
        try:
            self._listen(matches)
        except Exception:
            if self._end_by is not None:
                return False
            _log.exception("the listener of matches failed; they are kept")
        return True

    def _skip(self, position: int) -> None:
        """Leave out what is before a position."""
        count = self._pages.count(self._mine, self._place[0], position)
        self._place = (position, LAST)
        try:
            self._skipped(count)
        except Exception:
            if self._end_by is None:
                _log.exception("the listener of matches failed; %d were skipped", count)
