"""A budget of bytes for answers of feeds that are fetched and parsed at the same time.

The size of an answer is known only after it arrived.  It is then counted at once, over the budget
if necessary, so that no holder ever waits; only a request that has not begun waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ByteBudget:
    """Shared bytes; a single holder is admitted whatever its size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[Callable[[int], None]]:
        """Reserve bytes while the block runs; yield the function that adds more to them."""
        held = 0

        def add(more: int) -> None:
            nonlocal held
            held += more
            self._used += more

        async with self._freed:
            await self._freed.wait_for(lambda: not self._used or self._used + size <= self._size)
            add(size)
        try:
            yield add
        finally:
            self._used -= held
            async with self._freed:
                self._freed.notify_all()
