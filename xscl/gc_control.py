"""The garbage collector, paused while a batch is worked on.

A batch makes hundreds of thousands of objects, hardly one of them in a cycle,
and the collector comes along every few of them and looks at everything there
is: at 10,000 subscriptions that was a fifth of a batch's time.  Afterwards it
looks once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing inside, in the whole process; afterwards it is as before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def settle() -> None:
    """Let the collector look no more at what there is now, which is here to stay.

    With 20,000 subscriptions one look at everything takes a second, and it comes in the middle of
    some batch.  `unsettle` takes it back.
    """
    gc.collect(1)
    gc.freeze()


def unsettle() -> None:
    """Let the collector look at everything again: something that was to stay has gone."""
    gc.unfreeze()
