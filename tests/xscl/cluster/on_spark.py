"""A cluster on two executors of Spark: `python -m tests.xscl.cluster.on_spark FOLDER BATCHES`.

It prints what was committed as JSON.  With `--kill executor` an executor gets SIGKILL before one of
the batches, with `--kill worker` the Python process of a cell.  With `--change` the cells or the
executors are changed between batches.  What ends the driver is set by the variable of fault points.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from pyspark import SparkContext

from feeds.documents import Document
from feeds.spool import Spool
from xscl.cluster.cluster_sink import ClusterSink
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import CellsStay, SharedDirectory
from xscl.cluster.spark_cells import SparkCells
from xscl.engine.facade import Engine
from xscl.engine.state import Role
from xscl.ingestion.pipeline import DirectConsumer
from xscl.ingestion.spark.spark_session import start_session

CELLS = 3
Change: TypeAlias = Callable[[ClusterDriver, int], None]
"""What is done before a batch."""
JOIN = "S//a->x FOLLOWED BY{x=y, 100} S//a->y"
QUERIES = {
    "pairs": JOIN,
    "publisher": f"SELECT <p>{{x}}</p> FROM {JOIN} PUBLISH P",
    "reader": "P//p->x FOLLOWED BY{x=y, 100} P//p->y",
    "absent": "S//a->x NOT FOLLOWED BY{x=y, 3} S//a->y",
    "one": 'S//a[.="1"]->x',
}


def documents(number: int) -> list[Document]:
    """Return the documents of a batch, some of which come again in later ones."""
    return [
        Document("S", f"d{number * 3 + at}", number, f"<a>{(number + at) % 4}</a>".encode())
        for at in range(4)
    ]


def _processes(driver: ClusterDriver) -> dict[int, int]:
    return {one.cell: one.process for one in driver.cells_now()}


def splitting(context: SparkContext) -> Change:
    """Split the fullest cell before two batches."""

    def change(driver: ClusterDriver, number: int) -> None:
        counts = {one.cell: one.subscriptions for one in driver.cells_now()}
        if number in (3, 5):
            before = _processes(driver)
            new = driver.split(max(counts, key=lambda cell: counts[cell]))
            after = _processes(driver)
            assert after.keys() - before.keys() == {new}
            assert all(after[cell] == process for cell, process in before.items()), "all stay"

    return change


def moving(context: SparkContext) -> Change:
    """Move a cell to the other executor; all are on one host, which cannot be drained."""
    before: dict[int, int] = {}

    def change(driver: ClusterDriver, number: int) -> None:
        if number == 3:
            before.update(_processes(driver))
            assert len(set(before.values())) == 2, "cells begin on both executors"
            driver.move(1)
        elif number == 4:
            after = _processes(driver)
            assert after.pop(1) != before.pop(1)
            assert after == before
            with suppress(CellsStay):
                driver.drain(socket.gethostname())
                raise AssertionError("all executors are on the host that was drained")

    return change


def resizing(context: SparkContext) -> Change:
    """Take an executor away, and add one later, as an operator or an autoscaler does."""
    backend = context._jsc.sc()

    def executors() -> int:
        return int(context._jsc.sc().statusTracker().getExecutorInfos().__len__()) - 1

    def wait_for(wanted: int) -> None:
        until = time.monotonic() + 60
        while executors() != wanted:
            assert time.monotonic() < until, f"{executors()} executors"
            time.sleep(0.1)

    def move(driver: ClusterDriver) -> None:
        """Move a cell to the new executor, which Spark counts before it gives it tasks."""
        until = time.monotonic() + 60
        while True:
            try:
                driver.move(1)
                return
            except CellsStay:
                assert time.monotonic() < until
                time.sleep(0.5)

    def change(driver: ClusterDriver, number: int) -> None:
        if number == 3:
            assert backend.killExecutor("0")
            wait_for(1)
        elif number == 4:
            assert len(set(_processes(driver).values())) == 1
        elif number == 5:
            assert backend.requestExecutors(2)  # what was asked for at the start does not count
            wait_for(2)
            move(driver)  # else the new one gets no cell
        elif number == 6:
            assert len(set(_processes(driver).values())) == 2

    return change


CHANGES = {"split": splitting, "move": moving, "executors": resizing}


def main() -> None:
    """Run a cluster over a spool with some batches, and print the matches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("batches", type=int)
    parser.add_argument("--kill", choices=("executor", "worker"))
    parser.add_argument("--change", choices=tuple(CHANGES))
    asked = parser.parse_args()
    folder: Path = asked.folder
    context = start_session(folder / "session", "local-cluster[2,1,1024]").sparkContext
    change = CHANGES[asked.change](context) if asked.change else _no_change
    print(json.dumps(delivered(context, folder, asked.batches, asked.kill, change)))


def _no_change(driver: ClusterDriver, number: int) -> None:
    """Change nothing before a batch."""


def delivered(
    context: SparkContext,
    folder: Path,
    batches: int,
    kill: str | None = None,
    change: Change = _no_change,
) -> list[tuple[str, str]]:
    """Run a cluster over the batches that a spool lacks; return subscription and id of matches."""
    with Spool(folder / "spool") as spool:
        shared = SharedDirectory(folder / "shared")
        cells = SparkCells(context)
        with Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
            driver = ClusterDriver(engine, shared, CELLS, cells, snapshot_every=2)
            known = {one.name for one in driver.engine.subscriptions}
            for name, query in QUERIES.items():
                if name not in known:
                    driver.engine.subscribe(name, query)
            consumer = DirectConsumer(spool, ClusterSink(driver), batch=1)
            for number in range(spool.latest() + 1, batches + 1):
                spool.append(documents(number), number)
                change(driver, number)
                if kill and number == batches // 2:
                    _kill(context, folder, executor=kill == "executor")
                consumer.run_once()
            consumer.run_once()
            driver.flush()
            return [(one.subscription, one.id) for one in engine.matches()]


def _kill(context: SparkContext, folder: Path, *, executor: bool) -> None:
    """Kill the Python process of a task, or the Java process that started it, once."""
    struck = folder / "struck"

    def strike(_: Iterable[int]) -> list[int]:
        if not struck.exists():
            struck.touch()
            daemon = os.getppid()
            status = Path(f"/proc/{daemon}/stat").read_text("ascii").rpartition(")")[2]
            os.kill(int(status.split()[1]) if executor else os.getpid(), signal.SIGKILL)
        return []

    context.parallelize([0], 1).mapPartitions(strike).collect()
    assert struck.exists()


if __name__ == "__main__":
    main()
