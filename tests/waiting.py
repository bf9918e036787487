"""Waiting for what another thread or process does, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds that only a hang reaches; whoever waits goes on as soon as it has come true."""


def eventually(check: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """Return what is asked for as soon as it is true; fail if it does not become so."""
    until = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.01)
    return found
