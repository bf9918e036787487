"""Group commit: a thread that processes queued items in batches, which share a disk write."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from xscl.errors import Stopping

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Calls `process` with batches of queued items, in order, on a thread of its own.

    `share` is the share of a batch that an item fills: a batch ends when the sum reaches 1, or when
    the queue is empty.  After a batch of several items the thread waits `linger` seconds for
    further ones, because under load clients that were just answered send again soon.
    """

    def __init__(
        self,
        name: str,
        process: Callable[[Sequence[T]], None],
        share: Callable[[T], float],
        linger: float = 0.0,
    ) -> None:
        self._process = process
        self._share = share
        self._linger = linger
        self._mutex = threading.Lock()
        self._queue: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Queue an item; raises Stopping after `close`."""
        with self._mutex:
            if self._is_closed:
                raise Stopping()
            self._queue.put(item)

    def close(self) -> None:
        """Process queued items and stop."""
        with self._mutex:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        batch: list[T] = []
        while (item := self._queue.get()) is not None:
            if len(batch) > 1:
                time.sleep(self._linger)
            batch = []
            filled = 0.0
            while item is not None:
                batch.append(item)
                filled += self._share(item)
                if filled >= 1.0 or self._queue.empty():  # this thread is the only reader
                    break
                item = self._queue.get()
            self._process(batch)
            if item is None:
                return
