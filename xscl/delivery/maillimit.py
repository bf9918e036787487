"""How many mails each user has had sent today, against what he may.

Days are those of UTC, and counted in memory: a restart of the service forgives.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from xscl.delivery.message import owner_of

_DAY = 86_400


class MailLimit:
    """Counts mails by the number of the user; `limit` says how many he may have, None: any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._today = 0
        self._sent: Counter[int] = Counter()
        self.limit: Callable[[int], int | None] = lambda user: None

    def take(self, subscription: str) -> float | None:
        """Count a mail for a subscription; return for how many seconds there is none any more."""
        user = owner_of(subscription)
        most = self.limit(user)
        with self._mutex:
            now = self._clock()
            self._turn(now)
            if most is not None and self._sent[user] >= most:
                return _DAY - now % _DAY
            self._sent[user] += 1
            return None

    def give_back(self, subscription: str) -> None:
        """Count a mail no more: it was not sent."""
        user = owner_of(subscription)
        with self._mutex:
            self._turn(self._clock())
            self._sent[user] = max(0, self._sent[user] - 1)

    def today(self, user: int) -> int:
        """Return how many mails there were for a user today."""
        with self._mutex:
            self._turn(self._clock())
            return self._sent[user]

    def _turn(self, now: float) -> None:
        today = int(now) // _DAY
        if today != self._today:
            self._today = today
            self._sent.clear()
