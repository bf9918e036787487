"""A cluster on two executors of Spark: `python -m tests.xscl.cluster.on_spark FOLDER BATCHES`.

It prints what was committed as JSON.  With `--kill executor` an executor gets SIGKILL before one of
the batches, with `--kill worker` the Python process of a cell.  What ends the driver is set by the
variable of fault points.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from pyspark import SparkContext

from feeds.documents import Document
from feeds.spool import Spool
from xscl.cluster.cluster_sink import ClusterSink
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import SharedDirectory
from xscl.cluster.spark_cells import SparkCells
from xscl.engine.facade import Engine
from xscl.engine.state import Role
from xscl.ingestion.pipeline import DirectConsumer
from xscl.ingestion.spark.spark_session import start_session

CELLS = 3
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


def main() -> None:
    """Run a cluster over a spool with some batches, and print the matches."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("batches", type=int)
    parser.add_argument("--kill", choices=("executor", "worker"))
    asked = parser.parse_args()
    folder: Path = asked.folder
    context = start_session(folder / "session", "local-cluster[2,1,1024]").sparkContext
    print(json.dumps(delivered(context, folder, asked.batches, asked.kill)))


def delivered(
    context: SparkContext, folder: Path, batches: int, kill: str | None = None
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
