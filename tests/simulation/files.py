"""File operations as scheduling points, and a disk that is slow or hangs.

The operations are those that the product calls in Python.  What SQLite does inside of a statement
cannot wait, as it holds locks of its own; a slow disk delays its commits before they begin.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from typing import Any

import xscl.store.database
from tests.simulation.scheduler import Scheduler

COMMITTED, CHECKPOINTED = "committed", "checkpointed"
"""The points after a commit and a checkpoint of SQLite, whose writes cannot be interrupted."""
CAUGHT = 5.0
"""Virtual seconds for which an operation waits that a fault has caught."""
OPERATIONS = ("fsync", "fdatasync", "replace", "rename", "unlink", "ftruncate")


class Pace:
    """The pace of the disk: each operation takes up to `slowest` virtual seconds."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._draw = random.Random(f"disk {scheduler.seed}")
        self.slowest = 0.0
        self.caught = threading.Event()
        """Set when a task is about to do the operation that `catch` names, and waits there."""
        self._awaited = ""
        self.within = (0, 0)
        """The sizes of the record of the disk before and after what a task was caught behind."""

    def catch(self, operation: str) -> None:
        """Make the next task that does an operation wait before it, for a while."""
        self._awaited = operation
        self.caught.clear()

    def written(self, operation: str, before: int, after: int) -> None:
        """Block a task that is caught after an operation of SQLite, which made these records."""
        if operation == self._awaited and after > before:
            self.within = before, after
            self.point(operation)

    def point(self, operation: str) -> None:
        """Yield to other tasks, and block for the duration of the operation."""
        if not self._scheduler.is_task() or not self._scheduler.current.group:
            return
        if operation == self._awaited:
            self._awaited = ""
            self.caught.set()
            self._scheduler.block(operation, CAUGHT)
        elif self.slowest:
            self._scheduler.block(operation, self._draw.uniform(0, self.slowest))
        else:
            self._scheduler.switch(operation)


def install(scheduler: Scheduler) -> Pace:
    """Make file operations of a service scheduling points; return the pace of the disk."""
    pace = Pace(scheduler)

    def paced(operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            pace.point(operation)
            return real(*arguments, **named)

        return call

    vars(xscl.store.database)["reached"] = pace.point
    for operation in OPERATIONS:
        setattr(os, operation, paced(operation, getattr(os, operation)))
    return pace
