"""Connections to DuckDB as scheduling points, and the rule of who may use them.

A transaction belongs to the task that began it: until its end, no other task may use the
connection.  Each statement is a scheduling point, before and after.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import xscl.store.commits
import xscl.store.store
from tests.simulation.files import CHECKPOINTED, Pace
from tests.simulation.scheduler import Scheduler, Task
from xscl.store.database import connect

LOG_BYTES = 1 << 14
"""Bytes of the log at which a checkpoint is due: an hour has some of them."""

WRONG: list[str] = []
"""Uses of a connection within a transaction of another task."""


class Connection:
    """A connection that checks its user; everything else is DuckDB's."""

    scheduler: Scheduler
    pace: Pace | None = None
    """The pace of the disk, which delays a commit before it begins."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._owner: Task | None = None  # of the open transaction

    def execute(self, statement: Any, *parameters: Any, **named: Any) -> Connection:
        """Execute a statement; return this connection."""
        text = str(getattr(statement, "query", statement)).lstrip().upper()
        if not self.scheduler.is_task():
            self._real.execute(statement, *parameters, **named)
            return self
        self._check(text)
        self.scheduler.switch("before a statement")
        if self.pace is not None and text.startswith(("COMMIT", "CHECKPOINT")):
            self.pace.point("commit")
        if text.startswith("BEGIN"):
            self._owner = self.scheduler.current
        before = _recorded() if text == "CHECKPOINT" else 0
        try:
            self._real.execute(statement, *parameters, **named)
        finally:
            if text.startswith(("COMMIT", "ROLLBACK")):
                self._owner = None
        if before and self.pace is not None:
            self.pace.checkpoint = before, _recorded()
            self.pace.point(CHECKPOINTED)
        self.scheduler.switch("after a statement")
        return self

    def cursor(self) -> Connection:
        """Return another connection to the database."""
        return Connection(self._real.cursor())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _check(self, text: str) -> None:
        user = self.scheduler.current
        if self._owner is not None and not self._owner.killed and user is not self._owner:
            WRONG.append(
                f"{user.name} uses a connection in a transaction of {self._owner.name}: {text[:80]}"
            )


def _recorded() -> int:
    """Return the size of the record of the disk."""
    return os.stat(os.environ["DISK_LOG"]).st_size


def install(scheduler: Scheduler) -> None:
    """Make stores connect so."""
    Connection.scheduler = scheduler

    def connected(path: Path) -> Any:
        return Connection(connect(path))

    vars(xscl.store.store)["connect"] = connected
    vars(xscl.store.commits)["LOG_BYTES"] = LOG_BYTES
