"""Waiting for conditions that other threads or processes bring about, on a busy machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Deadline in seconds that only a hang reaches; waiting ends as soon as the condition holds."""


def eventually(check: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """Poll a condition until it is true and return its value; fail after `seconds`.

    An expensive check leaves two thirds of the time to what it waits for.
    """
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if found := check():
            return found
        ended = time.monotonic()
        assert ended < until, "it did not come true"
        time.sleep(min(0.5, max(0.01, 2 * (ended - began))))


@contextmanager
def beside(
    *calls: Callable[[], T], until: threading.Event | None = None
) -> Iterator[list[Future[T]]]:
    """Run functions in threads while the block runs, at whose end the event is set.

    Wait for them, and raise what they raise.
    """
    threads = ThreadPoolExecutor(len(calls))
    begun = [threads.submit(call) for call in calls]
    try:
        yield begun
    finally:
        threads.shutdown(wait=False)
        if until is not None:
            until.set()
            wait(begun, PATIENCE)
    for one in begun:
        one.result(PATIENCE)
