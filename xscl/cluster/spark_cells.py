"""Cells on the executors of Spark: one job for each batch, over a persisted RDD for each cell.

A persisted partition has a preferred location, so a cell's tasks go where its engine is, as long as
that executor lives.  The union of the RDDs keeps the locations, so a cell can come, go or move
without the others.  A streaming source of Python has none, and its cells would move with each
micro-batch.  An executor needs one core, so that it keeps one Python process.

Spark gives the next task to the executor that is free first.  So a short task would place most
cells on one executor, and they would stay there.  The task that places a cell therefore lasts a
while, and waits for executors that still start.  It has a job of its own: as soon as one task of a
job has no preferred location, Spark gives the others to any executor of their host, too.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import RDD, SparkContext
from pyspark.errors import PySparkException

from xscl.cluster.cell_process import run_here
from xscl.cluster.cell_task import CellAnswer, CellTask, Place
from xscl.cluster.shared_directory import CellsFailed
from xscl.ingestion.spark.spark_session import reason_of

T = TypeVar("T")

TRIES = 8
"""The most attempts to place a cell on another executor; after them it stays."""
SPREAD = 0.3
"""Seconds that the task of a new place lasts, so that one free executor does not take them all."""
SETTLED = 1.0
"""Seconds without a new executor after which the first cells are placed."""
STARTING = 20.0
"""The most seconds to wait for that; Spark waits for the first executor itself."""


class SparkCells:
    """Runs tasks of cells on a Spark context.  Spark repeats the tasks of a lost executor.

    One thread at a time uses it.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._cells: dict[int, RDD[int]] = {}
        self._all: tuple[frozenset[int], RDD[int]] | None = None
        self._executors = ""  # those of the last job

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        """Return the answers to all tasks; raises CellsFailed if a task fails again and again."""
        asked = {task.cell: task for task in tasks}
        return self._on(asked, partial(_run, shared, asked))

    def move(self, cells: Collection[int], away_from: Place) -> list[int]:
        """Place cells away from a process or a host; return those for which nothing is free.

        Spark has no way to exclude a place for a task.  So a partition in a wrong place is dropped,
        and made again.  Raises CellsFailed as `run` does.
        """
        moving = list(cells)
        for _ in range(TRIES):
            for cell in moving:
                self._cells.pop(cell).unpersist()
            self._all = None
            moving = self._on(moving, partial(_those_at, away_from))
            if not moving:
                break
        return sorted(moving)

    def _on(self, cells: Collection[int], work: Callable[[Iterable[int]], list[T]]) -> list[T]:
        """Run some work where each cell is, on its number; return all results."""
        try:
            return self._union(frozenset(cells)).mapPartitions(work).collect()
        except (PySparkException, Py4JError) as error:
            raise CellsFailed(
                f"a task of a cell failed: {reason_of(error)}", hint="the batch is repeated"
            ) from error

    def _union(self, cells: frozenset[int]) -> RDD[int]:
        """Return the partitions of cells, each of which has a place."""
        if not self._cells:
            self._await_executors()
        new = cells.difference(self._cells)
        for cell in new:
            self._cells[cell] = self._context.parallelize([cell], 1).persist()
        if absent := new | cells.intersection(self._lost()):
            placed = self._context.union([self._cells[cell] for cell in absent])
            placed.mapPartitions(_held).count()
        if self._all is None or self._all[0] != cells:
            union = self._context.union([self._cells[cell] for cell in sorted(cells)])
            self._all = cells, union
        return self._all[1]

    def _lost(self) -> set[int]:
        """Return the cells whose partition an executor has taken with it, since the last look."""
        spark = self._context._jsc.sc()
        executors = str(spark.getExecutorMemoryStatus().keySet())
        if executors == self._executors:
            return set()
        self._executors = executors
        kept = {one.id() for one in spark.getRDDStorageInfo() if one.numCachedPartitions()}
        return {cell for cell, partition in self._cells.items() if partition.id() not in kept}

    def _await_executors(self) -> None:
        """Wait until no more executors come; a master in this process has none."""
        if str(self._context.master).startswith("local["):
            return
        known, began = 0, time.monotonic()
        since = began
        while (now := time.monotonic()) - began < STARTING:
            found = len(self._context._jsc.sc().statusTracker().getExecutorInfos())
            if found != known:
                known, since = found, now
            elif known > 1 and now - since >= SETTLED:  # the driver is one of them
                break
            time.sleep(SETTLED / 10)


def _run(shared: Path, tasks: dict[int, CellTask], cells: Iterable[int]) -> list[CellAnswer]:
    return [run_here(shared, tasks[cell]) for cell in cells]


def _held(cells: Iterable[int]) -> list[int]:
    """Return the cells that a task places, after a while."""
    found = list(cells)
    time.sleep(SPREAD)
    return found


def _those_at(place: Place, cells: Iterable[int]) -> list[int]:
    """Return the cells whose task runs at a place."""
    found = list(cells)  # Spark ends a Python process, with its engines, that leaves some unread
    return found if place.has(socket.gethostname(), os.getpid()) else []
