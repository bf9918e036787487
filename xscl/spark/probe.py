"""A probe at the start of a job: do executors see what they will read and write?"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.ingestion.pipeline import PipelineError
from xscl.spark.error_report import reason_of
from xscl.spark.plan_files import CURRENT, PlanFiles


class Unseen(NamedTuple):
    """A path that an executor cannot use, and why."""

    host: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Look:
    """A function for `RDD.mapPartitions`: what is wrong on the machine of the task.

    `version` is the least that the catalog must have, so that a directory of the same name is no
    catalog.  It writes nothing.
    """

    files: PlanFiles
    version: int
    directories: tuple[Path, ...] = ()

    def __call__(self, numbers: Iterable[int]) -> Iterator[Unseen]:
        host = socket.gethostname()
        current = self.files.directory / CURRENT
        try:
            version = int(current.read_text("ascii"))
        except OSError as error:
            yield Unseen(host, str(current), error.strerror or str(error))
            return
        if version < self.version:
            yield Unseen(host, str(current), "it is another catalog")
        elif not os.access(self.files.directory, os.W_OK):
            yield Unseen(host, str(self.files.directory), "it cannot be written")
        for directory in self.directories:
            if not directory.is_dir():
                yield Unseen(host, str(directory), "No such directory")


def probe(session: SparkSession, files: PlanFiles, directories: Sequence[Path] = ()) -> None:
    """Run small tasks on the executors that look for a catalog and directories.

    Raises PipelineError with the path and the host if one of them sees something else.
    """
    context = session.sparkContext
    tasks = context.parallelize(range(context.defaultParallelism), context.defaultParallelism)
    try:
        found = tasks.mapPartitions(Look(files, files.current(), tuple(directories))).collect()
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        if "No module named" not in reason:
            raise
        raise PipelineError(
            f"the Python of the executors lacks a module: {reason}",
            hint="install xscl there, or send an environment (--archives); see the how-to of Spark",
        ) from error
    if found:
        first = Unseen(*found[0])
        raise PipelineError(
            f"the executor on {first.host} cannot use {first.path}: {first.reason}",
            hint="mount it on all machines under the same path, for the same user",
        )
