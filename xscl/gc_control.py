"""Control of the garbage collector: pauses during batches, a permanent generation.

Both are settings of the whole process.  A process that is the engine's own asks for them with
`Engine(owns_process=True)`; in others an engine leaves the collector as it is.

A batch creates hundreds of thousands of objects, hardly one of them in a cycle.  The collector
runs after every few thousand and traverses all of them.  At 10,000 subscriptions that was a fifth
of a batch's time.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def paused() -> Iterator[None]:
    """Disable collection in the whole process while the block runs; then restore the setting."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def settle(oldest: int | None = 1) -> None:
    """Move all live objects to the permanent generation (`gc.freeze`); later collections skip them.

    With 20,000 subscriptions a full collection takes a second, in the middle of some batch.
    Garbage in the generations up to `oldest` is collected before; with None none is.
    `unsettle` reverses it; so does the end of the process, because modules in C would report frozen
    objects as leaks.
    """
    _unsettle_at_exit()
    if oldest is not None:
        gc.collect(oldest)
    gc.freeze()


def unsettle() -> None:
    """Return the permanent generation to the collector: long-lived objects were dropped."""
    gc.unfreeze()


@cache
def _unsettle_at_exit() -> None:
    atexit.register(unsettle)
