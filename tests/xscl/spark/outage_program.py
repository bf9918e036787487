"""A stream in a process of its own, which tests end in the middle of micro-batches.

    python -m tests.xscl.spark.outage_program FOLDER MASTER

It reads the files of FOLDER/in, writes FOLDER/out and changes its catalog within two micro-batches.
In the sink of a micro-batch with a file FOLDER/halt-N it waits to be killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from tests.xscl.spark.spark_runs import COLUMNS, QUERIES
from xscl.spark import Catalog, start_session, stream

ADDED = {2: "two", 5: "unlike"}
"""The subscriptions that are made within a micro-batch, by its number."""
REMOVED = {4: "first"}
FIRST = {name: query for name, query in QUERIES.items() if name not in ADDED.values()}


def main(folder: Path, master: str) -> None:
    """Run until all files were read."""
    session = start_session(master, scratch=folder / "scratch")
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    with Catalog(folder / "catalog") as catalog:
        if not catalog.subscriptions:
            catalog.subscribe_many(FIRST)

        def sink(matches: DataFrame, number: int) -> None:
            matches.write.mode("overwrite").parquet(f"{folder}/out/batch={number}")
            name = ADDED.get(number)
            if name is not None and name not in catalog.subscriptions:
                catalog.subscribe(name, QUERIES[name])
            if (gone := REMOVED.get(number)) in catalog.subscriptions:
                assert gone is not None
                catalog.unsubscribe(gone)
            halt = folder / f"halt-{number}"
            if halt.exists():
                halt.rename(folder / f"halted-{number}")
                time.sleep(3_600)

        query = stream(
            frame.parquet(f"{folder}/in"),
            catalog,
            checkpoint=folder / "checkpoint",
            sink=sink,
            buckets=4,
            order="number",
            trigger={"availableNow": True},
        )
        query.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
