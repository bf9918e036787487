"""A probe at the start of a job: do executors see what they will read and write?"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.ingestion.pipeline import PipelineError
from xscl.spark.plan_files import PlanFiles
from xscl.spark.session import reason_of


def unseen(files: PlanFiles, version: int, directories: Iterable[Path] = ()) -> list[str]:
    """Return the faults of a catalog and of directories on this machine; write nothing.

    A catalog below `version` is a fault: another directory has the same path on this machine.
    """
    wrong = []
    try:
        files.path.open("rb").close()
        if files.current() < version:
            wrong.append((files.path, "it is another catalog"))
        elif not os.access(files.directory, os.W_OK):
            wrong.append((files.directory, "it cannot be written"))
    except OSError as error:
        wrong.append((files.path, error.strerror or str(error)))
    wrong.extend(
        (directory, "No such directory") for directory in directories if not directory.is_dir()
    )
    host = socket.gethostname()
    return [f"the executor on {host} cannot use {path}: {reason}" for path, reason in wrong]


def probe(session: SparkSession, files: PlanFiles, directories: Sequence[Path] = ()) -> None:
    """Run small tasks on the executors that look for a catalog and directories.

    Raises PipelineError with the path and the host if one of them sees something else.
    """
    version, count = files.current(), session.sparkContext.defaultParallelism
    tasks = session.sparkContext.parallelize(range(count), count)
    try:
        found = tasks.flatMap(lambda _: unseen(files, version, directories)).collect()
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        if "No module named" not in reason:
            raise
        raise PipelineError(
            f"the Python of the executors lacks a module: {reason}",
            hint="install xscl there, or send an environment (--archives); see the how-to of Spark",
        ) from error
    if found:
        raise PipelineError(
            found[0], hint="mount it on all machines under the same path, for the same user"
        )
