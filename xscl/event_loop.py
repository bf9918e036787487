"""The event loop of a process: answers to HTTP, polls of feeds and deliveries run on it.

What blocks (the store, the spool, parsing) runs in threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 8
"""Maximum number of threads for work that blocks."""

_GRACE = 2.0
"""Seconds in which the remaining tasks must end when they are cancelled."""


class EventLoop:
    """An event loop in a thread of its own, between `start` and `stop`."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(ThreadPoolExecutor(THREADS, "blocking"))
        self._is_started = False
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def start(self) -> None:
        """Start the loop, which also runs earlier calls and submissions; nothing if it runs."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    def call(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call a function on the loop, from any thread; not if the loop is closed."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, *arguments)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop, from any thread, and return its future."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self) -> None:
        """Cancel what still runs, and close the loop."""
        if self._thread.is_alive():
            with suppress(TimeoutError):
                self.submit(_cancel_all()).result(_GRACE)
            self.call(self.loop.stop)
            self._thread.join(_GRACE)
        if not self.loop.is_running():
            self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
