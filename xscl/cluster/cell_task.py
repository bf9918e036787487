"""The task of a cell for one batch, and its answer: what travels between driver and cells."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from xscl.spark.match_files import MATCHES

ANSWERED = MATCHES.insert(0, pa.field("entry", pa.int64(), nullable=False))
"""A match with the entry of the log that completed it; rows of one entry are by subscription, those
of one subscription in their order."""


@dataclass(frozen=True, slots=True)
class CellTask:
    """Answer with the matches of the entries after one and up to another one.

    `epoch` is that of the driver.  With `snapshot` the cell first writes its state as of `after`.
    """

    cell: int
    after: int
    upto: int
    epoch: int
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """The file with a cell's matches: how many, and the checksum of its bytes."""

    cell: int
    after: int
    upto: int
    matches: int
    sha256: str

    @classmethod
    def of(cls, task: CellTask, content: bytes) -> CellAnswer:
        """Return the answer to a task whose file has some content."""
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            rows = sum(reader.get_batch(at).num_rows for at in range(reader.num_record_batches))
        digest = hashlib.sha256(content).hexdigest()
        return cls(task.cell, task.after, task.upto, rows, digest)


class CellRunner(Protocol):
    """Runs the tasks of all cells for one batch, wherever the cells are."""

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        """Return the answers to all tasks; a task may run several times, also at once."""
