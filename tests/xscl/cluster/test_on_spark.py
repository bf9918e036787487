"""Cells on two executors of Spark, which end; the driver, which ends; a shared disk that is full.

With executors, the cluster runs in a process of its own: a Java process has one kind of master.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl
from feeds.faultpoints import VARIABLE, FaultSpec
from tests.project import ROOT

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from tests.xscl.cluster.on_spark import QUERIES, delivered, documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def expected(batches: int) -> dict[str, list[str]]:
    """Return the ids of each subscription's matches, as one engine has them."""
    with xscl.Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        for number in range(1, batches + 1):
            engine.push(documents(number))
        engine.flush()
        return {name: [one.id for one in engine.matches(name)] for name in QUERIES}


def started(
    folder: Path, batches: int, *options: str, fault: FaultSpec | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        environment[VARIABLE] = str(fault)
    command = [sys.executable, "-m", "tests.xscl.cluster.on_spark", str(folder), str(batches)]
    return subprocess.run(
        [*command, *options], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600
    )


def by_name(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    matches: dict[str, list[str]] = {name: [] for name in QUERIES}
    for name, match in rows:
        matches[name].append(match)
    return matches


def found(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    assert done.returncode == 0, done.stderr[-4000:]
    return by_name(json.loads(done.stdout.splitlines()[-1]))


def test_cells_in_tasks_deliver_what_one_engine_delivers(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    """In the session of other tests, whose tasks run in this Java process."""
    assert by_name(delivered(spark_session.sparkContext, tmp_path, 3)) == expected(3)


@pytest.mark.slow
def test_cells_on_executors_deliver_what_one_engine_delivers(tmp_path: Path) -> None:
    """One of the executors is killed in between: another one makes its cells again."""
    assert found(started(tmp_path, 4, "--kill", "executor")) == expected(4)


@pytest.mark.slow
def test_a_python_process_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    assert found(started(tmp_path, 6, "--kill", "worker")) == expected(6)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["split", "move", "executors"])
def test_cells_and_executors_change_while_batches_run(change: str, tmp_path: Path) -> None:
    assert found(started(tmp_path, 6, "--change", change)) == expected(6)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["sealed", "sequenced", "intended", "cells_committed"])
def test_a_driver_that_is_killed_and_started_again_loses_nothing(
    point: str, tmp_path: Path
) -> None:
    killed = started(tmp_path, 6, fault=FaultSpec(point, 3))
    assert killed.returncode < 0, killed.stderr[-4000:]
    assert found(started(tmp_path, 6)) == expected(6)


@pytest.mark.slow
def test_a_shared_disk_that_fails_stops_the_driver_and_loses_nothing(tmp_path: Path) -> None:
    failed = started(tmp_path, 6, fault=FaultSpec("shared_written", 4, "EIO"))
    assert failed.returncode == 1, failed.stderr[-4000:]
    assert "Input/output error" in failed.stderr
    assert found(started(tmp_path, 6)) == expected(6)
