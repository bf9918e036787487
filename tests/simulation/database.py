"""Connections to SQLite as scheduling points, and the rule of who may use them.

A transaction belongs to the task that began it: until its end, no other task may use the
connection that writes.  Each statement is a scheduling point, before and after.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import apsw

import xscl.store.database
import xscl.store.store_file
from tests.simulation.files import CHECKPOINTED, COMMITTED, Pace
from tests.simulation.scheduler import Scheduler, Task

CHECKPOINT, RESTART = 1 << 18, 1 << 20
"""Bytes of the log from which on checkpoints are made, and wait: an hour has some of both."""
WAITING = 1
"""Milliseconds for which a checkpoint waits for readers, in which nothing else runs."""

WRONG: list[str] = []
"""Uses of a connection within a transaction of another task."""


class Cursor(apsw.Cursor):
    """A cursor whose statements are scheduling points."""

    def execute(self, statements: str, bindings: Any = None, **named: Any) -> apsw.Cursor:
        """Execute statements; return this cursor."""
        return self._scheduled(super().execute, statements, bindings, **named)

    def executemany(self, statements: str, sequenceofbindings: Any, **named: Any) -> apsw.Cursor:
        """Execute statements with several rows; return this cursor."""
        return self._scheduled(super().executemany, statements, sequenceofbindings, **named)

    def _scheduled(
        self, real: Callable[..., apsw.Cursor], statement: str, *parameters: Any, **named: Any
    ) -> apsw.Cursor:
        connection = cast(Connection, self.connection)
        scheduler, pace = connection.scheduler, connection.pace
        if not scheduler.is_task():
            return real(statement, *parameters, **named)
        text = statement.lstrip().upper()
        connection.check(text)
        scheduler.switch("before a statement")
        ends = text.startswith(("COMMIT", "ROLLBACK"))
        if pace is not None and text.startswith("COMMIT"):
            pace.point("commit")
        if text.startswith("BEGIN IMMEDIATE"):
            connection.owner = scheduler.current
        before = _recorded()
        try:
            found = real(statement, *parameters, **named)
        finally:
            if ends:
                connection.owner = None
        if pace is not None and text.startswith("COMMIT"):
            pace.written(COMMITTED, before, _recorded())
        scheduler.switch("after a statement")
        return found


class Connection(apsw.Connection):
    """A connection that checks its user."""

    scheduler: Scheduler
    pace: Pace | None = None
    """The pace of the disk, which delays a commit and a checkpoint before it begins."""
    owner: Task | None = None
    """The task of the open transaction."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.cursor_factory = Cursor

    def wal_checkpoint(self, *arguments: Any, **named: Any) -> tuple[int, int]:
        """Write the log to the database."""
        if not self.scheduler.is_task() or self.pace is None:
            return self._checkpoint(*arguments, **named)
        self.check("CHECKPOINT")
        self.pace.point("checkpoint")
        before = _recorded()
        frames = self._checkpoint(*arguments, **named)
        self.pace.written(CHECKPOINTED, before, _recorded())
        return frames

    def _checkpoint(self, *arguments: Any, **named: Any) -> tuple[int, int]:
        frames: tuple[int, int] = super().wal_checkpoint(*arguments, **named)
        return frames

    def check(self, text: str) -> None:
        """Note a use within a transaction of another task."""
        user = self.scheduler.current
        if self.owner is not None and not self.owner.killed and user is not self.owner:
            WRONG.append(
                f"{user.name} uses a connection in a transaction of {self.owner.name}: {text[:80]}"
            )


def _recorded() -> int:
    """Return the size of the record of the disk."""
    return os.stat(os.environ["DISK_LOG"]).st_size


def install(scheduler: Scheduler) -> None:
    """Make stores connect so, with more checkpoints."""
    Connection.scheduler = scheduler
    vars(xscl.store.store_file)["apsw"] = SimpleNamespace(**vars(apsw) | {"Connection": Connection})
    thresholds = {"CHECKPOINT": CHECKPOINT, "RESTART": RESTART, "WAITING": WAITING}
    vars(xscl.store.database).update(thresholds)
