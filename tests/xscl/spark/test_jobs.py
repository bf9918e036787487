"""`xscl spark run`: exactly once from files to files, ends by signals, what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from feeds.documents import Document
from tests.project import ROOT
from tests.waiting import beside, eventually
from tests.xscl.commandline import called, json_rows
from xscl.engine.facade import Engine
from xscl.spark.catalog import Catalog
from xscl.spark.java import java_home
from xscl.spark.job import kafka_documents
from xscl.spark.matching import match
from xscl.spark.probe import unseen

AGAIN = "S//a[./k->x] FOLLOWED BY{x = y, 7 d} S//a[./k->y]"
SETTINGS = ("--buckets", "3", "--lateness", "2 s")
HOUR = 3_600_000_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def documents(first: int, last: int) -> list[Document]:
    """Return documents an hour apart; every fifth is malformed."""
    texts = (f"<a><k>{n % 3}</k>{'' if n % 5 == 4 else '</a>'}" for n in range(first, last))
    return [Document("S", f"d{n}", n * HOUR, t.encode()) for n, t in enumerate(texts, start=first)]


def write(number: int, some: Sequence[Document]) -> None:
    """Write a file of the source, whole; the name contradicts the time of modification."""
    Path("in").mkdir(exist_ok=True)
    rows = [
        {"stream": one.stream, "id": one.id, "ts": one.timestamp, "xml": one.xml} for one in some
    ]
    pq.write_table(pa.Table.from_pylist(rows), ".written")
    os.utime(".written", (1_700_000_000 + number,) * 2)
    Path(".written").rename(f"in/{99 - number}.parquet")


def fill(files: int) -> list[Document]:
    """Make a catalog and files of four documents; return the documents."""
    with Catalog("catalog") as catalog:
        catalog.subscribe("again", AGAIN)
    for number in range(files):
        write(number, documents(4 * number, 4 * number + 4))
    return documents(0, 4 * files)


def expected(some: Sequence[Document]) -> list[str]:
    with Engine() as engine:
        engine.subscribe("again", AGAIN)
        return sorted(one.id for one in engine.push(some))


def arguments(*more: str, sink: str = "out", source: str = "parquet:in") -> list[str]:
    places = ("--source", source, "--sink", f"parquet:{sink}", "--checkpoint", "progress")
    return ["spark", "run", "--catalog", "catalog", *places, *SETTINGS, *more]


def run(*more: str, **places: str) -> list[dict[str, Any]]:
    """Run a job to its end and return its micro-batches."""
    done = called(*arguments("--option", "maxFilesPerTrigger=1", *more, **places))
    assert done.exit_code == 0, done.output
    return json_rows(done.stdout)


def ids(column: str = "id", folder: str = "out") -> list[str]:
    found: list[str] = []
    for path in sorted(Path(folder).glob("batch=*/*.parquet")):
        found.extend(pq.ParquetFile(path).read()[column].to_pylist())
    return sorted(found)


def test_files_to_files_exactly_once(spark_session: SparkSession) -> None:
    """A micro-batch whose commit was lost is repeated, and overwrites its directory."""
    given = [*fill(1), *documents(4, 7)]
    assert [(one["batch"], one["documents"]) for one in run("--trigger", "once")] == [(0, 4)]
    for path in Path("progress/commits").glob("*0*"):  # the file, and that of its checksum
        path.unlink()
    write(1, documents(4, 7))
    again = run("--trigger", "once")
    assert [(one["batch"], one["documents"]) for one in again] == [(0, 4), (1, 3)]
    assert ids() == expected(given)
    assert len(ids()) > 2
    assert ids(folder="out/_rejected") == ["d4"]
    assert [one["rejected"] for one in again] == [0, 1]
    read = spark_session.read.parquet(str(Path("out").absolute()))
    assert sorted(row.id for row in read.collect()) == ids()
    assert "_rejected" not in read.columns


@pytest.mark.slow
def test_sigterm_ends_a_job_after_the_micro_batch_in_progress(spark_session: SparkSession) -> None:
    given = fill(3)
    with signalled(signal.SIGTERM, Path("out/batch=0")):
        lines = run()
    assert [one["batch"] for one in lines] == list(range(len(lines)))
    commits = {path.name for path in Path("progress/commits").glob("[0-9]*")}
    assert commits == {str(one["batch"]) for one in lines}
    assert "0" in commits
    written = {path.parent.name for path in Path("out").glob("*/_SUCCESS")}
    assert written == {f"batch={one}" for one in commits}
    assert not [*Path("out").glob("*/_temporary")], "no micro-batch was interrupted"
    lines += run("--trigger", "once")
    # Spark may have listed the next file before it was stopped, and takes two files then.
    assert sum(one["documents"] for one in lines) == len(given)
    assert ids() == expected(given)


@contextmanager
def signalled(number: int, begun: Path) -> Iterator[None]:
    """Send this process a signal when a directory is there."""

    def send() -> None:
        eventually(begun.exists)
        os.kill(os.getpid(), number)

    with beside(send):
        yield


def test_what_a_job_refuses(spark_session: SparkSession, tmp_path: Path) -> None:
    fill(1)

    def refused(*more: str, **places: str) -> str:
        done = called(*arguments("--trigger", "once", *more, **places))
        assert done.exit_code == 1, done.output
        assert done.stdout == ""
        return done.stderr

    assert "the columns of" in refused(source="parquet:empty")
    kafka = refused(source="kafka:127.0.0.1:9/S")
    assert "xscl: Kafka cannot be read" in kafka
    assert f"spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in kafka
    assert "order='number' needs the column 'number'" in refused("--order", "number")
    Path("out/batch=0").mkdir(parents=True)
    assert f"the sink {tmp_path}/out has micro-batches of another checkpoint" in refused()
    run("--trigger", "once", sink="other")
    assert "was begun with buckets=3" in refused("--buckets", "4", sink="other")
    assert "was begun with content=True" in refused("--no-content", sink="other")


def test_a_probe_says_what_is_wrong_where(tmp_path: Path) -> None:
    with Catalog("catalog") as catalog:
        files = catalog.files
        assert unseen(files, files.current(), (tmp_path,)) == []
        (other,) = unseen(files, files.current() + 1)
        assert other.endswith(f"{files.path}: it is another catalog")
        (absent,) = unseen(files, files.current(), (tmp_path / "absent",))
        where = f"the executor on {os.uname().nodename} cannot use {tmp_path}/absent"
        assert absent == f"{where}: No such directory"


def test_records_of_kafka_are_documents(spark_session: SparkSession) -> None:
    """A stand-in with the columns of Kafka's source: its package is not installed."""
    schema = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT,"
        " timestamp TIMESTAMP, timestampType INT"
    )
    rows = [
        (b"d%d" % n, b"<a><k>1</k></a>", "S", 0, n, datetime(2026, 3, n, tzinfo=UTC), 0)
        for n in (2, 3)
    ]
    records = spark_session.createDataFrame([*rows, (None, *rows[0][1:])], schema)
    with Catalog("catalog") as catalog:
        catalog.subscribe("again", AGAIN)
        found = match(kafka_documents(records), catalog, buckets=2).collect()
    taken = [one for one in found if one["_rejected"] is None]
    assert [(one.documents, one.t0) for one in taken] == [(["d2", "d3"], datetime(2026, 3, 2))]
    (nameless,) = (one["_rejected"] for one in found if one["_rejected"] is not None)
    assert (nameless.stream, nameless.id) == ("S", None)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("submitted", [False, True], ids=["command", "spark-submit"])
def test_a_process_of_its_own(submitted: bool, tmp_path: Path) -> None:
    """It takes what is there, and ends by SIGINT; under spark-submit by its trigger."""
    given = fill(3)
    program = "from xscl.cli import main; main()"
    if submitted:
        Path("job.py").write_text(program)
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "job.py"]
        more = ("--trigger", "once")
    else:
        command, more = [sys.executable, "-c", program], ("--master", "local[2]")
    java = java_home(tmp_path)
    variables = {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1"}
    python = {"PYSPARK_PYTHON": sys.executable}
    with (
        Path("errors").open("w") as log,  # of a pipe nobody would read
        subprocess.Popen(
            [*command, *arguments("--option", "maxFilesPerTrigger=1", *more)],
            env={**os.environ, **variables, **(python if submitted else {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines = process.stdout.readline()
        if not submitted:
            process.send_signal(signal.SIGINT)
        lines += process.stdout.read()
    errors = Path("errors").read_text()
    assert process.returncode == 0, errors
    batches = json_rows(lines)
    assert [one["documents"] for one in batches] == [4] * len(batches)
    assert ids() == expected(given[: 4 * len(batches)])
    assert len(batches) == 3 or not submitted
    assert submitted or errors == "xscl: stopping after the micro-batch in progress\n"
