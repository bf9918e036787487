"""Group commit: of the threads that bring items one processes those of all, who share a disk write.

The others wait.  What comes meanwhile is the next batch, and the thread of its first item does it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from xscl.errors import Stopping


class Queued(Protocol):
    """A queued item, and the future of its result."""

    @property
    def done(self) -> Future[Any]: ...

    def share(self) -> float:
        """Return the share of a batch that it fills: a batch ends when the sum reaches 1."""


T = TypeVar("T", bound=Queued)


class GroupCommit(Generic[T]):
    """Calls `process` with batches of items, in order; it completes the future of each."""

    def __init__(self, process: Callable[[Sequence[T]], None]) -> None:
        self._process = process
        self._mutex = threading.Lock()
        # Each with a lock that its thread waits for: of its own, so that no other one is woken.
        self._queue: deque[tuple[T, threading.Lock]] = deque()
        self._idle = threading.Event()
        self._idle.set()
        self._is_closed = False

    def commit(self, item: T) -> None:
        """Return when an item is processed; raises Stopping after `close`."""
        woken = threading.Lock()
        with self._mutex:
            if self._is_closed:
                raise Stopping()
            self._queue.append((item, woken))
            if not self._idle.is_set():
                woken.acquire()
            self._idle.clear()
        with woken:
            if not item.done.done():  # it is the first one of the queue
                self._process_next()

    def close(self) -> None:
        """Wait until queued items are processed; take no more."""
        with self._mutex:
            self._is_closed = True
        self._idle.wait()

    def _process_next(self) -> None:
        """Process a batch, and wake the threads of its items and of the first one that is left."""
        batch, filled = list[tuple[T, threading.Lock]](), 0.0
        with self._mutex:
            while self._queue and filled < 1.0:
                batch.append(self._queue.popleft())
                filled += batch[-1][0].share()
        try:
            self._process([item for item, _ in batch])
        except BaseException as error:
            for item, _ in batch:
                if not item.done.done():
                    item.done.set_exception(error)
        with self._mutex:
            waiting = [*batch[1:], *list(self._queue)[:1]]
            if not self._queue:
                self._idle.set()
        for _, woken in waiting:
            woken.release()
