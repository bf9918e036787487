"""A bridge from futures of threads to waiters on the event loop.

Threads finish many futures together, and waking the loop costs more than resolving a future.  The
loop is therefore woken once for all that are finished by then.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import Any


class CompletionBridge:
    """Resolves waiters of one event loop; cancelling a waiter does not cancel its work."""

    def __init__(self) -> None:
        self._finished: deque[tuple[asyncio.Future[None], Future[Any]]] = deque()
        self._is_woken = False

    async def of(self, work: Future[Any]) -> None:
        """Wait for a future of a thread; re-raises its exception."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        work.add_done_callback(partial(self._completed, waiter))
        await waiter

    def _completed(self, waiter: asyncio.Future[None], work: Future[Any]) -> None:
        loop = waiter.get_loop()
        self._finished.append((waiter, work))
        if not self._is_woken and not loop.is_closed():
            self._is_woken = True
            loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        self._is_woken = False  # first: later ones are seen below or wake the loop again
        while self._finished:
            waiter, work = self._finished.popleft()
            if waiter.done():
                continue
            error = work.exception()
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
