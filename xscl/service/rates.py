"""How often each user may ask, and how many listeners he may have at the same time.

Requests are a bucket for each user, which holds what he may ask in a minute and fills at that rate:
much at once is fine, for ever is not.  Who has no limit, as the operator, costs nothing here.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from xscl.errors import XsclError
from xscl.service.accounts import Account, QuotaExceeded

_MINUTE = 60.0


class TooOften(XsclError):
    """A user asks more often than he may; `wait` is for how many seconds he should not."""

    code = "too_many_requests"

    def __init__(self, most: int, wait: float) -> None:
        super().__init__(
            f"you may ask {most} times a minute", hint="wait as long as Retry-After says"
        )
        self.wait = math.ceil(wait)


class Requests:
    """Counts requests by account; any thread may.  `clock` tells seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._left: dict[int, tuple[float, float]] = {}  # how many there were, and when

    def take(self, account: Account) -> None:
        """Count a request; raises TooOften."""
        most = account.quota.requests_a_minute
        if most is None:
            return
        now = self._clock()
        with self._mutex:
            left, at = self._left.get(account.number, (float(most), now))
            left = min(float(most), left + (now - at) * most / _MINUTE)
            if left >= 1.0:
                self._left[account.number] = left - 1.0, now
                return
            self._left[account.number] = left, now
        raise TooOften(most, (1.0 - left) * _MINUTE / most if most else _MINUTE)


class Listeners:
    """Counts who listens to events; any thread may."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._here: Counter[int] = Counter()

    def of(self, account: Account) -> int:
        """Return how many listeners a user has."""
        return self._here[account.number]

    @contextmanager
    def place(self, account: Account) -> Iterator[None]:
        """Hold a place for a listener while the block runs; raises QuotaExceeded."""
        most = account.quota.listeners
        with self._mutex:
            if most is not None and self._here[account.number] >= most:
                raise QuotaExceeded(f"you have {most} listeners, and may have no more at once")
            self._here[account.number] += 1
        try:
            yield
        finally:
            with self._mutex:
                self._here[account.number] -= 1
