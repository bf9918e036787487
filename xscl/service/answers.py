"""What other threads finish, handed to those who wait for it on the event loop.

Many are finished together, and waking the loop costs more than telling one of them: it is woken
once for all that are there by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial


class Answers:
    """Waits on one event loop; a wait that is given up does not end the work."""

    def __init__(self) -> None:
        self._ended: deque[tuple[asyncio.Future[None], Future[None]]] = deque()
        self._woken = False

    async def of(self, work: Future[None]) -> None:
        """Return when some work is done; raises what it has raised."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work.add_done_callback(partial(self._take, waiter))
        await waiter

    def _take(self, waiter: asyncio.Future[None], work: Future[None]) -> None:
        loop = waiter.get_loop()
        self._ended.append((waiter, work))
        if not self._woken and not loop.is_closed():
            self._woken = True
            loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._woken = False  # first: what comes from now on may be seen below, or wakes the loop
        while self._ended:
            waiter, work = self._ended.popleft()
            if waiter.done():
                continue
            error = work.exception()
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
