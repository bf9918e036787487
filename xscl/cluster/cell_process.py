"""The cells of this process, for tasks of Spark: they keep their engines between tasks."""

from __future__ import annotations

import threading
from pathlib import Path

from xscl.cluster.cell_host import CellHost
from xscl.cluster.cell_task import CellAnswer, CellTask

_hosts: dict[tuple[Path, int], CellHost] = {}
_lock = threading.Lock()


def run_here(shared: Path, task: CellTask) -> CellAnswer:
    """Return the answer to a task, by the cell of this process, made if there is none yet."""
    with _lock:
        host = _hosts.setdefault((shared, task.cell), CellHost(shared, task.cell))
    return host.run(task)
