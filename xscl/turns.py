"""Turns to ask domains: of each one request at a time, and none while it wants to be left alone.

A feed asks its own domain and those to which it is redirected, one after the other; it has one turn
at a time, so nobody waits for another who waits for him.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from feeds.fetch import Later

LONGEST = 60
"""Seconds that a turn is waited for."""

AFTERWARDS = 600
"""Seconds after which those ask again who have waited in vain."""

_SECOND = 1_000_000


class Turns:
    """Who asks which domain; `clock` tells the time in ticks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._held: dict[str, int] = {}
        self.waiting = 0

    @asynccontextmanager
    async def of(self, domain: str) -> AsyncIterator[None]:
        """Have a domain's turn; raises `Later` if it is held, or asked by others for too long."""
        self._expect_free(domain)
        turn = self._asking.setdefault(domain, asyncio.Lock())
        self.waiting += 1
        try:
            await asyncio.wait_for(turn.acquire(), LONGEST)
        except TimeoutError:
            raise Later(AFTERWARDS) from None
        finally:
            self.waiting -= 1
        try:
            self._expect_free(domain)
            yield
        finally:
            turn.release()

    def hold(self, domain: str, until: int) -> None:
        """Let nobody ask a domain before some time, in ticks."""
        self._held[domain] = max(until, self._held.get(domain, until))

    def held_until(self, domain: str) -> int | None:
        """Return until when a domain is to be left alone; None if it may be asked."""
        until = self._held.get(domain)
        if until is not None and until <= self._clock():
            del self._held[domain]
            return None
        return until

    def _expect_free(self, domain: str) -> None:
        until = self.held_until(domain)
        if until is not None:
            raise Later(-(-(until - self._clock()) // _SECOND))
