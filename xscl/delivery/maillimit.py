"""How many mails each user has had sent today, against what he may.

Days are those of UTC, and counted in memory: a restart of the service forgives, and each run of
`serve --once` begins anew.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from xscl.delivery.confirming import CODES
from xscl.delivery.message import owner_of

_DAY = 86_400


class MailLimit:
    """Counts mails by the number of the user; `limit` says how many he may have, None: any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._today = 0
        self._sent: Counter[int] = Counter()
        self._codes: Counter[tuple[int, str]] = Counter()
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

    def take_code(self, subscription: str, address: str) -> bool:
        """Count a code for a subscription's user to an address; False if there is none any more."""
        key = owner_of(subscription), address.casefold()
        with self._mutex:
            self._turn(self._clock())
            if self._codes[key] >= CODES:
                return False
            self._codes[key] += 1
            return True

    def give_back_code(self, subscription: str, address: str) -> None:
        """Count a code no more: it was not mailed."""
        key = owner_of(subscription), address.casefold()
        with self._mutex:
            self._turn(self._clock())
            self._codes[key] = max(0, self._codes[key] - 1)

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
            self._codes.clear()
