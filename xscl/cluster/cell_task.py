"""The task of a cell for one batch, and its answer: what travels between driver and cells."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CellTask:
    """Answer with what was found in the entries after one and up to another one.

    `epoch` is that of the driver.  With `snapshot` the cell first writes its state as of `after`.
    With `relations` it answers with its relations instead; `after` and `upto` are equal.  With
    `leave` the cell closes its engine, as it moves to another executor.
    """

    cell: int
    after: int
    upto: int
    epoch: int
    snapshot: bool = False
    relations: bool = False
    leave: bool = False


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """The file with what a cell has found (`answers.ANSWER`), by the checksum of its bytes.

    `load` is None if the file was there already, and its entries were not evaluated again.
    """

    cell: int
    after: int
    upto: int
    sha256: str
    load: CellLoad | None = None

    @classmethod
    def of(cls, task: CellTask, content: bytes, load: CellLoad | None = None) -> CellAnswer:
        """Return the answer to a task whose file has some content."""
        digest = hashlib.sha256(content).hexdigest()
        return cls(task.cell, task.after, task.upto, digest, load)


@dataclass(frozen=True, slots=True)
class CellLoad:
    """The load of a cell: seconds and documents of a task, and the process that it runs in.

    `held_from` is the number of the oldest document whose text it still needs; None if it was not
    determined.
    """

    seconds: float
    documents: int
    subscriptions: int
    host: str
    process: int
    memory: int
    held_from: int | None = None


@dataclass(frozen=True, slots=True)
class CellState:
    """A cell as its driver sees it; figures are those of its last task.

    `lag` is the number of entries that were sequenced and not committed.  `snapshot` is the entry
    of its last snapshot, 0 without one: a cell that is lost repeats the entries after it.  `share`
    is that of the time of all cells in the last batches.
    """

    cell: int
    subscriptions: int
    lag: int
    snapshot: int
    entry: int
    seconds: float = 0.0
    documents: int = 0
    host: str = ""
    process: int = 0
    memory: int = 0
    share: float = 0.0


class CellRunner(Protocol):
    """Runs the tasks of all cells for one batch, wherever the cells are."""

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        """Return the answers to all tasks; a task may run several times, also at once."""

    def move(self, cells: Collection[int], away_from: Place) -> list[int]:
        """Place cells away from a process or from a host; return those for which nothing is free.

        The next task of a cell runs at its new place.
        """


@dataclass(frozen=True, slots=True)
class Place:
    """A Python process of an executor, or all of a host if `process` is None."""

    host: str
    process: int | None = None

    def has(self, host: str, process: int) -> bool:
        """Return whether a process of a host is this place or a part of it."""
        return host == self.host and self.process in (None, process)
