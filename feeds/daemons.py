"""Threads for what may hang: the end of the process does not wait for them.

The interpreter waits for the threads of every pool of `concurrent.futures`, so a name server or
a mail server that says nothing would hold up its end.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import TypeVar

T = TypeVar("T")


class DaemonPool:
    """At most `most` threads; one is started when work is submitted and no thread is idle."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = Semaphore(0)
        self._mutex = Lock()
        self._started = 0

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Return a future of the result; the work starts as soon as a thread is free."""
        future: Future[T] = Future()

        def done() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self._waiting.put(done)
        with self._mutex:
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                name = f"{self._name}-{self._started}"
                Thread(target=self._work, name=name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            done = self._waiting.get()
            done()
            del done
            self._idle.release()
