"""Waiting for what another thread or process does, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 120.0
"""Seconds that only a hang reaches; whoever waits goes on as soon as it has come true."""


def eventually(check: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return when something has become true; fail if it does not."""
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.01)
