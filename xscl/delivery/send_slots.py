"""Slots for concurrent sends, so that slow endpoints do not delay others.

Endpoints that have failed share fewer slots than those that work.  Of either kind a user has a
part (`SHARE`) at most, and for one host `SAME_HOST`.  A user with a hundred endpoints that never
answer delays only himself, even if others use the same host.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from xscl.limiter import KeyedLimiter

HEALTHY, FAILING, SAME_HOST = 512, 128, 8
"""Most concurrent sends: to endpoints that work, to failing ones, of one user to one host."""
SHARE = 4
"""A user holds at most 1 in `SHARE` slots of either kind; the operator may hold all."""


class SendSlots:
    """The slots of one service."""

    def __init__(self) -> None:
        self._by_host = KeyedLimiter[tuple[int, str, bool]]()
        self._by_user = KeyedLimiter[tuple[int, bool]]()
        self._by_kind = KeyedLimiter[bool]()

    @property
    def hosts(self) -> int:
        """The number of hosts with sends in progress, by user and kind."""
        return self._by_host.keys

    @asynccontextmanager
    async def hold(self, user: int, host: str, failing: bool) -> AsyncIterator[None]:
        """Hold a slot while the block runs, when one is free; `user` 0 is the operator."""
        total = FAILING if failing else HEALTHY
        share = total // SHARE if user else total
        async with (
            self._by_host.hold_async((user, host, failing), SAME_HOST),
            self._by_user.hold_async((user, failing), share),
            self._by_kind.hold_async(failing, total),
        ):
            yield
