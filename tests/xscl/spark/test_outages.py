"""Each match comes once, however the processes of a stream end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.project import ROOT
from tests.waiting import eventually
from tests.xscl.spark.bucket_runs import Found, Step, in_engine
from tests.xscl.spark.outage_program import ADDED, FIRST, REMOVED
from tests.xscl.spark.spark_runs import (
    QUERIES,
    StreamRun,
    documents_of,
    found_in,
    subscribing,
    unsubscribing,
)
from xscl.spark import Catalog

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = 8
SILENCE = 75.0
"""Seconds; Spark ends workers that were idle for a minute."""


def expected_of(batches: list[Step]) -> list[Found]:
    """Return the matches of one engine whose subscriptions change after micro-batches."""
    steps: list[Step] = []
    for number, batch in enumerate(batches):
        steps.append(batch)
        if (name := ADDED.get(number)) is not None:
            steps.append(subscribing(name, QUERIES[name]))
        if (name := REMOVED.get(number)) is not None:
            steps.append(unsubscribing(name))
    return in_engine(FIRST, steps)


@contextmanager
def program(folder: Path, master: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program; at the end nothing of it is left."""
    command = [sys.executable, "-m", "tests.xscl.spark.outage_program", str(folder), master]
    with (folder / "stderr").open("ab") as errors:
        running = subprocess.Popen(command, cwd=ROOT, stderr=errors, start_new_session=True)
    try:
        yield running
    finally:
        kill_session(running)


def kill_session(running: subprocess.Popen[bytes]) -> None:
    """Kill a program with its Java and its workers, at once."""
    for pid in processes(running.pid):
        with_pid(pid, signal.SIGKILL)
    running.wait()


def with_pid(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has ended with another one
        return


def processes(session: int, part: str = "") -> list[int]:
    """Return the processes of a session whose command has a part."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            command = (path / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session and part.encode() in command:
            found.append(int(path.name))
    return found


def give(folder: Path) -> list[Step]:
    """Write the files of a stream; return their documents."""
    documents = documents_of(20 * BATCHES)
    batches = [documents[at : at + 20] for at in range(0, len(documents), 20)]
    run = StreamRun(None, folder, None)  # type: ignore[arg-type]  # nothing is started
    for batch in batches:
        run.give(batch)
    return [*batches]


def written(folder: Path) -> list[Found]:
    """Return the rows of the sink."""
    rows = []
    for file in (folder / "out").glob("batch=*/*.parquet"):
        table = pq.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us")
        for row in table.to_pylist():
            times = {name: row[name].replace(tzinfo=UTC) for name in ("t0", "t1")}
            rows.append({**row, **times, "bindings": dict(row["bindings"])})
    return found_in(rows)


def claims(folder: Path) -> int:
    """Return the number of micro-batches that have begun."""
    return len(list((folder / "catalog").glob("plan-*/claims/*/[0-9]*")))


def test_matches_come_once_after_kills_of_all_processes(tmp_path: Path) -> None:
    """The first kill hits tasks of stage 1 or 2, the second a sink, after the catalog changed."""
    expected = expected_of(give(tmp_path))
    with program(tmp_path, "local[2]"):
        eventually(lambda: claims(tmp_path) >= 2, 300)
    (tmp_path / "halt-5").touch()
    with program(tmp_path, "local[2]"):
        eventually((tmp_path / "halted-5").exists, 300)
    with program(tmp_path, "local[2]") as last:
        assert last.wait(600) == 0
    assert written(tmp_path) == expected
    assert "nanobind" not in (tmp_path / "stderr").read_text()
    assert "nanobind" not in (tmp_path / "scratch" / "spark.stderr").read_text()


def test_matches_come_once_after_an_executor_was_killed(tmp_path: Path) -> None:
    expected = expected_of(give(tmp_path))
    with program(tmp_path, "local-cluster[2,1,1024]") as running:
        eventually(lambda: claims(tmp_path) >= 3, 300)
        executors = processes(running.pid, "CoarseGrainedExecutorBackend")
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        assert running.wait(600) == 0
    assert written(tmp_path) == expected


def test_a_worker_that_was_closed_in_a_silence_restores_its_state(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    documents = documents_of(60)
    with Catalog(tmp_path / "catalog") as catalog:
        catalog.subscribe_many(QUERIES)
        run = StreamRun(spark_session, tmp_path, catalog)
        run.start()
        run.give(documents[:30])
        run.wait()
        time.sleep(SILENCE)
        run.give(documents[30:])
        run.wait()
        run.stop()
    assert run.found() == in_engine(QUERIES, [documents[:30], documents[30:]])
