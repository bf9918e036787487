"""Cells on the executors of Spark: one job for each batch, over a persisted RDD of cell ids.

A persisted partition has a preferred location, so a cell's tasks go where its engine is, as long as
that executor lives.  A streaming source of Python has none, and its cells would move with each
micro-batch.  An executor needs one core, so that it keeps one Python process.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.errors import PySparkException

from xscl.cluster.cell_process import run_here
from xscl.cluster.cell_task import CellAnswer, CellTask
from xscl.cluster.shared_directory import CellsFailed
from xscl.ingestion.spark.spark_session import reason_of


class SparkCells:
    """Runs tasks of cells on a Spark context.  Spark repeats the tasks of a lost executor."""

    def __init__(self, context: SparkContext, cells: int) -> None:
        self._cells = context.parallelize(range(cells), cells).persist()

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        """Return the answers to all tasks; raises CellsFailed if a task fails again and again."""
        work = partial(_run, shared, {task.cell: task for task in tasks})
        try:
            return self._cells.mapPartitions(work).collect()
        except (PySparkException, Py4JError) as error:
            raise CellsFailed(
                f"a task of a cell failed: {reason_of(error)}", hint="the batch is repeated"
            ) from error


def _run(shared: Path, tasks: dict[int, CellTask], cells: Iterable[int]) -> list[CellAnswer]:
    return [run_here(shared, tasks[cell]) for cell in cells]
