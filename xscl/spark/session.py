"""The Spark session of this process: its Java, its settings, and what its Python processes run.

Starting one takes about ten seconds, so there is one for each process.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import xscl
from xscl.ingestion.pipeline import PipelineError
from xscl.spark.java import java_home, write_program

NO_ANSWER = "Spark's master does not answer"
"""The reason if Spark has stopped itself, as it does when no master answers for a minute."""


_STOPPED = ("on a stopped SparkContext", "SparkContext._taskScheduler()")
"""Signs in reports of errors that Spark has stopped: of a later call, and of one under way."""


def reason_of(failure: Exception) -> str:
    """Return the decisive line of Spark's error report.

    It is the last line of the last Python traceback, otherwise the first line.
    """
    # The text of a Py4JJavaError is Java's stack trace.
    report = str(getattr(failure, "java_exception", failure))
    traceback = report.rpartition("Traceback (most recent call last):")[2]
    if any(sign in report for sign in _STOPPED):
        return NO_ANSWER
    lines = [line for line in traceback.splitlines() if line and not line.startswith(" ")]
    return lines[0] if lines else report


_STREAMING = "org.apache.spark.sql.execution.streaming"
_MANAGER = f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
REPEATABLE: Mapping[str, str] = {
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _MANAGER,
}
"""Settings of a session whose queries need no checkpoint to begin again, as those of a service do
from the offsets in its store: with them a small micro-batch takes half the time.  A damaged file of
such a checkpoint is not noticed, so queries with state must not have them."""
STREAMING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of any session for streaming queries of xscl; state in memory is refused by Spark."""
_PARTITIONS = 4
"""Most partitions of a shuffle; a stateful query keeps the number with which its checkpoint began.

A partition is a task, and a task takes about 30 ms of processor time, whatever it does.
"""
_THREADS = re.compile(r"local\[(\d+).*\]")
_SPEAKER = re.compile(r'^(Exception in thread "main" [\w.$]+: |\S+: line \d+: )')
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
_MOMENT = 1.0  # seconds to wait for the end of Java
JAVA_ENDED = "the Java process of Spark has ended"
LOCAL = "local"
"""The folder, of the directory of a session, with its shuffles and states."""
_STARTING = threading.Lock()
# Py4J logs each failed call with a traceback, and raises the error, too.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


def start_session(
    master: str = "local[*]",
    *,
    app_name: str = "xscl",
    scratch: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the Spark session of this process, started if there is none yet.

    The session has no web UI; with a local master everything listens on 127.0.0.1 only.  Its time
    zone is UTC, and state of streaming queries is in RocksDB.  `settings` are of Spark and take
    precedence over those of xscl.  A session that is running is returned as it is.

    `scratch` is a directory for this session alone: the log `spark.log`, the file `spark.stderr`
    with the errors of Java and of Spark's Python processes (workers that end with a query report
    that), the files of shuffles and state.  By default it is a temporary one.  Java is that of
    `JAVA_HOME`, otherwise that of the extra `spark`.

    Raises PipelineError if there is no Java, or if Spark does not start.
    """
    with _STARTING:
        return _running() or _start_session(master, app_name, _scratch(scratch), settings or {})


def java_has_ended() -> bool:
    """Return True if the Java of this process was started and has ended.

    It may take a moment: a broken connection is noticed before the end of the process.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        gateway.proc.wait(_MOMENT)
        return True
    return False


def end_session(session: SparkSession) -> None:
    """Stop a session; if its Java has ended, the next one starts another Java."""
    try:
        session.stop()
    except (PySparkException, Py4JError, OSError):
        # PySpark has begun to stop, and keeps what it has of the Java that is gone.
        session.sparkContext.stop()
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _running() -> SparkSession | None:
    """Return the session of this process, also for a thread that did not start it."""
    try:
        return SparkSession.active()
    except PySparkException:  # there is none
        return None


def _scratch(directory: str | Path | None) -> Path:
    """Return the directory of a new session, without the shuffles and state of an earlier one."""
    if directory is None:
        place = Path(tempfile.mkdtemp(prefix="xscl-spark-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)  # Java may still be writing
        return place
    place = Path(directory).absolute()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.rmtree(place / LOCAL, ignore_errors=True)  # a killed session has left it
    return place


def _start_session(
    master: str, app_name: str, directory: Path, settings: Mapping[str, str]
) -> SparkSession:
    java = java_home(directory)
    if java is None:
        raise PipelineError(
            "Spark needs Java 17 or newer, and there is none",
            hint="set JAVA_HOME, or pip install 'xscl[spark]'",
        )
    own = _launcher(directory) if master.startswith("local") else os.environ.get("PYSPARK_PYTHON")
    python = settings.get("spark.pyspark.python") or own or sys.executable
    conf = SparkConf().setMaster(master).setAppName(app_name)
    conf.setAll([*{**_settings(directory, master, python), **settings}.items()])
    errors = directory / "spark.stderr"
    try:
        with _environment(_variables(directory, master, python, java)), errors.open("wb") as stderr:
            # One Java serves all sessions of a process, also after `SparkSession.stop`.
            gateway = SparkContext._gateway or launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stderr": stderr}
            )
            context = SparkContext(conf=conf, gateway=gateway)
            try:
                return SparkSession(context)
            except (PySparkException, Py4JError):
                context.stop()  # else this process could have no other context
                raise
    except (PySparkException, Py4JError) as error:
        reason = reason_of(error)
        if reason == NO_ANSWER:
            raise PipelineError(
                f"Spark's master {master} does not answer", hint=f"{errors} may say more"
            ) from error
        if "JAVA_GATEWAY_EXITED" in reason:
            reason = _said(errors) or reason
        raise PipelineError(
            f"Spark does not start: {reason}",
            hint=f"{errors} may say more; Spark needs Java 17 or newer, and took {java}",
        ) from error


def _said(errors: Path) -> str:
    """Return the first line from Java, or from the script that starts it; empty without any."""
    first, *_ = errors.read_text("utf-8", "replace").splitlines() or [""]
    return _SPEAKER.sub("", first)


def _settings(directory: Path, master: str, python: str) -> dict[str, str]:
    """Return the configuration of a session.

    Unix domain sockets shorten a small micro-batch.  Java uses only its first compiler and one
    thread of its collector, as joins are evaluated in Python.
    """
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING.format(log=directory / "spark.log"), "utf-8")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()} {_JAVA}",
        "spark.local.dir": str(directory / LOCAL),
        "spark.pyspark.python": python,
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(_partitions(master)),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        **STREAMING,
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _partitions(master: str) -> int:
    """Return the partitions of a shuffle: no more than a local master has threads."""
    threads = _THREADS.fullmatch(master)
    return _PARTITIONS if threads is None else min(int(threads[1]), _PARTITIONS)


def _variables(directory: Path, master: str, python: str, java: Path) -> dict[str, str | None]:
    """Return the environment in which Java starts; None removes a variable.

    The Python processes of Spark must import `xscl`, and none of its packages from the working
    directory.  Another Spark on the machine must not be mixed with this one.
    """
    return {
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": _python_path(),
        "PYTHONSAFEPATH": "1",
        "SPARK_HOME": _home(directory) if master.startswith("local-cluster") else None,
        "SPARK_REMOTE": None,
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if master.startswith("local") else {}),
    }


def _home(directory: Path) -> str:
    """Return a home of Spark for executors on this machine: they write to its folder `work`."""
    home = directory / "spark"
    home.mkdir(mode=0o700, exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work" and not (home / part.name).is_symlink():
            (home / part.name).symlink_to(part)
    return str(home)


def _launcher(directory: Path) -> str:
    """Return a program that starts this Python without Spark's archive of PySpark.

    Compiled modules of an archive are not cached: each process would compile PySpark again, which
    takes three times as long as loading.
    """
    start = f'PYTHONPATH={shlex.quote(_python_path())} exec {shlex.quote(sys.executable)} "$@"'
    return str(write_program(directory / "python", f"#!/bin/sh\n{start}\n"))


def _python_path() -> str:
    """Return the module search path of Spark's Python processes: xscl, then our `PYTHONPATH`."""
    home = str(Path(xscl.__file__).absolute().parent.parent)
    path = os.environ.get("PYTHONPATH")
    return f"{home}{os.pathsep}{path}" if path else home


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables while the block runs; then restore the environment."""
    before = _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """Set environment variables, and return their old values; None is unset."""
    before = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    return before
