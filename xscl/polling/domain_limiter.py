"""One request at a time to each domain, and none before a time that its server asked for.

A feed requests its own domain and those to which it is redirected, one after the other.  It holds
one slot at a time, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from feeds.http.fetch import DomainBlocked
from xscl.limiter import KeyedLimiter

LONGEST = 60
"""Seconds to wait for a domain's slot."""

AFTERWARDS = 600
"""Seconds after which a request that waited in vain is tried again."""

_SECOND = 1_000_000


class DomainLimiter:
    """The slots of all domains; `clock` returns the time in ticks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._slots = KeyedLimiter[str]()
        self._blocked: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return self._slots.waiting

    @asynccontextmanager
    async def hold(self, domain: str) -> AsyncIterator[None]:
        """Hold a domain's slot; raises `DomainBlocked` if it is blocked, or busy for too long."""
        self._expect_open(domain)
        async with self._slots.hold_async(domain, 1, DomainBlocked(AFTERWARDS), LONGEST):
            self._expect_open(domain)
            yield

    def block(self, domain: str, until: int) -> None:
        """Refuse requests to a domain before a time in ticks."""
        self._blocked[domain] = max(until, self._blocked.get(domain, until))

    def blocked_until(self, domain: str) -> int | None:
        """Return the time in ticks until which a domain is blocked; None if it is not."""
        until = self._blocked.get(domain)
        if until is not None and until <= self._clock():
            del self._blocked[domain]
            return None
        return until

    def _expect_open(self, domain: str) -> None:
        until = self.blocked_until(domain)
        if until is not None:
            raise DomainBlocked(-(-(until - self._clock()) // _SECOND))
