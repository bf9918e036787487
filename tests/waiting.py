"""Waiting for conditions that other threads or processes bring about, on a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Deadline in seconds that only a hang reaches; waiting ends as soon as the condition holds."""


def eventually(check: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """Poll a condition until it is true and return its value; fail after `seconds`."""
    until = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.01)
    return found
