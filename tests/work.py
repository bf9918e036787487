"""Work in calls of functions: it depends neither on the machine nor on what else it does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def measured(work: Callable[[], T]) -> tuple[T, int]:
    """Return the result of some work, and the number of its calls, of Python and of C."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = work()
    finally:
        sys.setprofile(before)
    return found, count
