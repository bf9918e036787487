"""SIGINT and SIGTERM: an orderly end, with a deadline after which the process exits.

A handler in Python runs only when the main thread is between two instructions, which a long call
into DuckDB or lxml delays. The signal is therefore read from a wakeup descriptor by a thread.

Past the deadline the process exits as if it was killed. That is safe: a transaction of the store is
whole or not at all (`Store.transaction`), and the spool has all acknowledged documents.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType

DEADLINE = 4.0
"""Seconds for an orderly end; a supervisor that waits for 5 s sees the process go."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def exit_now() -> None:
    """Exit at once, without an error: work in progress is repeated at the next start."""
    with suppress(OSError):
        os.write(
            sys.__stderr__.fileno() if sys.__stderr__ else 2,
            b"xscl: stopped; what was in progress is done again at the next start\n",
        )
    os._exit(0)


@contextmanager
def stopped_by_signals(
    stop: Callable[[], None],
    overdue: Callable[[], None] | None = None,
    deadline: float = DEADLINE,
) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call `stop` instead of killing the process.

    `stop` is called in another thread, once. If the block has not ended `deadline` seconds after
    the first signal, `overdue` is called.
    """
    ended = threading.Event()
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)

    def watch() -> None:
        while number := ours.recv(1):
            if number[0] in SIGNALS:
                stop()
                break
        if number and overdue is not None and not ended.wait(deadline):
            overdue()

    def handle(number: int, frame: FrameType | None) -> None:
        """Do nothing: a handler makes Python write to the wakeup descriptor."""

    with closing(ours), closing(pythons):
        before = {number: signal.signal(number, handle) for number in SIGNALS}
        wakeup = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=watch, name="signals", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            pythons.shutdown(socket.SHUT_RDWR)  # ends `watch`: it reads the end of the stream
            watcher.join()
