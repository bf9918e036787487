"""Group commit: of the threads that bring items one processes those of all, who share a disk write.

The others wait.  What comes while it works is the next batch, of one of those who have brought it.
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
        self._changed = threading.Condition()
        self._queue: deque[T] = deque()
        self._is_busy = self._is_closed = False

    def commit(self, item: T) -> None:
        """Return when an item is processed; raises Stopping after `close`."""
        with self._changed:
            if self._is_closed:
                raise Stopping()
            self._queue.append(item)
        while batch := self._next_batch(item.done):
            try:
                self._process(batch)
            except BaseException as error:
                for one in batch:
                    if not one.done.done():
                        one.done.set_exception(error)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def close(self) -> None:
        """Wait until queued items are processed; take no more."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._is_busy and not self._queue)

    def _next_batch(self, done: Future[Any]) -> list[T]:
        """Wait for a turn, and return a batch; nothing if another thread has done the work."""
        batch, filled = list[T](), 0.0
        with self._changed:
            self._changed.wait_for(lambda: done.done() or not self._is_busy)
            if not done.done():
                self._is_busy = True
                while self._queue and filled < 1.0:
                    batch.append(self._queue.popleft())
                    filled += batch[-1].share()
        return batch
