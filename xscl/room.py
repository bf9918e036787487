"""Room for the answers of feeds: so many bytes at once; who wants to begin then waits.

How large an answer is shows when it is there.  It is counted at once then, whether there is room
or not, so that nobody waits who holds something; whoever has not begun waits until there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Room:
    """Bytes that are shared; who is alone is let in whatever it needs."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[Callable[[int], None]]:
        """Have so many bytes while the block runs, and what it asks for in addition."""
        held = 0

        def take(more: int) -> None:
            nonlocal held
            held += more
            self._taken += more

        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(size))
            take(size)
        try:
            yield take
        finally:
            self._taken -= held
            async with self._changed:
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self._taken or self._taken + size <= self._size
