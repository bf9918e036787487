"""Places for what is sent at the same time, so that nobody who is slow holds up others.

Endpoints that have failed have fewer places than those that work.  Of either kind a user has a part
at most, and of these a few for one host: who has a hundred endpoints that never answer waits for
himself, and so does who has them at a host that others use, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

HEALTHY, FAILING, SAME_HOST = 512, 128, 8
"""Sendings at the same time: to those that work, to those that have failed, of a user to a host."""
SHARE = 4
"""A user has one place in so many, of either kind, at most; the operator has all."""


class Places:
    """All places of one loop."""

    def __init__(self) -> None:
        self._all = {False: asyncio.Semaphore(HEALTHY), True: asyncio.Semaphore(FAILING)}
        self._users: dict[tuple[int, bool], asyncio.Semaphore] = {}
        self._hosts: dict[tuple[int, str, bool], asyncio.Semaphore] = {}
        self._held: Counter[tuple[int, str, bool]] = Counter()  # by who has a place or waits

    @asynccontextmanager
    async def sending(self, user: int, host: str, failing: bool) -> AsyncIterator[None]:
        """Hold a place while the block runs, when there is one; `user` 0 is the operator."""
        most = (FAILING if failing else HEALTHY) // (SHARE if user else 1)
        own = self._users.setdefault((user, failing), asyncio.Semaphore(most))
        with self._host((user, host, failing)) as same:
            async with same, own, self._all[failing]:
                yield

    @contextmanager
    def _host(self, key: tuple[int, str, bool]) -> Iterator[asyncio.Semaphore]:
        """Yield the places of a host, which are let go with the last one that uses them."""
        places = self._hosts.setdefault(key, asyncio.Semaphore(SAME_HOST))
        self._held[key] += 1
        try:
            yield places
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key], self._hosts[key]
