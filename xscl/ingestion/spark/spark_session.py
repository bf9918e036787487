"""The Spark session of this process: its Java, its settings, and what its Python processes run.

Starting one takes about ten seconds, so there is one for each process.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]  # py4j has no types
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from feeds.java import JavaNotFound, java_home
from xscl.ingestion.pipeline import PipelineError
from xscl.ingestion.spark import spark_source

_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.1
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 5MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""
_STARTING = threading.Lock()


def start_session(directory: Path, master: str = "local[*]") -> SparkSession:
    """The Spark session of this process, started if there is none yet.

    `directory` holds the files of the session: the launcher of Java, the log
    `spark.log`, and in `spark.stderr` the errors of Java and of Spark's Python
    processes (workers that end with a query report that).  With a local master
    everything listens on 127.0.0.1 only.
    """
    with _STARTING:
        return _running() or _start_session(directory.absolute(), master)


def _running() -> SparkSession | None:
    """The session of this process, also for a thread that did not start it."""
    try:
        return SparkSession.active()
    except PySparkException:  # there is none
        return None


def _start_session(directory: Path, master: str) -> SparkSession:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    python = _launcher(directory) if master.startswith("local") else sys.executable
    conf = SparkConf().setMaster(master).setAppName("xscl")
    conf.setAll(list(_settings(directory, master, python).items()))
    errors = directory / "spark.stderr"
    try:
        with _environment(_variables(directory, master, python)), errors.open("wb") as stderr:
            # One Java serves all sessions of a process, also after `SparkSession.stop`.
            gateway = SparkContext._gateway or _launch(conf, stderr)
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except JavaNotFound as error:
        raise PipelineError(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise PipelineError(
            f"Spark does not start: {reason_of(error)}", hint=f"{errors} may say more"
        ) from error


def _launch(conf: SparkConf, stderr: IO[bytes]) -> JavaGateway:
    return launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]  # has none


def _settings(directory: Path, master: str, python: str) -> dict[str, str]:
    """The configuration of the session.

    The manager of checkpoint files and the Unix domain sockets halve the time
    of a small micro-batch.  Its files have no checksums: a lost or damaged
    checkpoint loses nothing, because the store's consumed offsets decide.  Java uses only its first
    compiler and one thread of its collector, as no document passes through it.
    """
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING.format(log=directory / "spark.log"), "utf-8")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()} {_JAVA}",
        "spark.pyspark.python": python,
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.checkpointFileManagerClass": _MANAGER,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _variables(directory: Path, master: str, python: str) -> dict[str, str | None]:
    """The environment in which Java starts; None removes a variable.

    The Python processes of Spark must import `xscl.ingestion.spark.spark_source`, and none of its
    packages from the working directory.  Another Spark on the machine must not be mixed with this
    one.
    """
    return {
        "JAVA_HOME": str(java_home(directory)),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": _python_path(),
        "PYTHONSAFEPATH": "1",
        "SPARK_HOME": _home(directory) if master.startswith("local-cluster") else None,
        "SPARK_REMOTE": None,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else {}),
    }


def _home(directory: Path) -> str:
    """A home of Spark for executors on this machine: they write to its folder `work`."""
    home = directory / "spark"
    home.mkdir(mode=0o700, exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work" and not (home / part.name).is_symlink():
            (home / part.name).symlink_to(part)
    return str(home)


def _launcher(directory: Path) -> str:
    """A program that starts this Python without Spark's archive of PySpark.

    Compiled modules of an archive are not cached: each process would compile PySpark again, which
    takes three times as long as loading.
    """
    launcher = directory / "python"
    temporary = directory / f"python.{os.getpid()}.tmp"
    start = f'PYTHONPATH={shlex.quote(_python_path())} exec {shlex.quote(sys.executable)} "$@"'
    temporary.write_text(f"#!/bin/sh\n{start}\n", "utf-8")
    temporary.chmod(0o700)
    temporary.replace(launcher)
    return str(launcher)


def _python_path() -> str:
    """The module search path of Spark's Python processes: this package, and this process's path."""
    home = str(Path(spark_source.__file__).absolute().parents[3])
    path = os.environ.get("PYTHONPATH")
    return f"{home}{os.pathsep}{path}" if path else home


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables while the block runs; then restore the environment."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set(variables)
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def reason_of(failure: Exception) -> str:
    """Return the decisive line of Spark's error report.

    It is the last line of the last Python traceback, otherwise the first line.
    """
    # The text of a Py4JJavaError is Java's stack trace.
    report = str(getattr(failure, "java_exception", failure))
    traceback = report.rpartition("Traceback (most recent call last):")[2]
    lines = [line for line in traceback.splitlines() if line and not line.startswith(" ")]
    return lines[0] if lines else report
