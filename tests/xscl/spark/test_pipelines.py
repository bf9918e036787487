"""From files through xscl to Parquet: the matches of the engine, each once, whatever fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from pyspark.errors import AnalysisException, StreamingQueryException

from feeds.documents import Document
from feeds.faultpoints import VARIABLE
from tests.project import ROOT
from tests.xscl.spark.pipelines import (
    QUERIES,
    SCHEMA,
    Pipeline,
    documents,
    fill,
    found,
    oracle,
    rows,
    write,
)
from tests.xscl.subscriptions.test_data_frames import without_frames
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectoryInUse
from xscl.ingestion.pipeline import PipelineError
from xscl.spark import consume, consumption, match_export
from xscl.spark.match_files import MatchFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_PROGRAM = """
import os, sys
from pathlib import Path
from tests.xscl.spark.pipelines import Pipeline
from xscl.spark import start_session

pipeline = Pipeline(Path(sys.argv[1]))
session = start_session("local[2]", scratch=pipeline.home / "session")
with pipeline.consume(session) as consuming:
    consuming.wait()
pipeline.drain(session)
session.stop()
print(os.getpid())
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    made = Pipeline(tmp_path)
    made.subscribe()
    return made


def failing(after: int) -> Callable[[str], None]:
    """Return a fault point that raises at a passage."""
    passages = iter(range(1, 1_000))

    def reached(point: str) -> None:
        if next(passages) == after:
            raise OSError(f"the process ends at {point}")

    return reached


def test_files_to_parquet_with_failures_and_restarts(
    spark_session: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures: after the engine's commit; before Spark's; before the last file of matches."""
    given = list(documents(60))
    monkeypatch.setattr(match_export, "FILE", 7)
    fill(pipeline.incoming, given[:40], 4)
    with monkeypatch.context() as patch:
        patch.setattr(consumption, "reached", failing(2))
        with (
            pytest.raises(StreamingQueryException, match="the process ends at spark_pushed"),
            pipeline.consume(spark_session) as consuming,
        ):
            consuming.wait()
    pipeline.drain(spark_session)
    with pipeline.consume(spark_session) as consuming:
        assert consuming.wait(60)
        assert consuming.engine.consumed(consuming.query.id) == 3
    (pipeline.checkpoint / "commits" / "3").unlink()
    fill(pipeline.incoming, given[40:50], 1, first=4)
    with pipeline.consume(spark_session) as consuming:
        consuming.wait()
    fill(pipeline.incoming, given[50:], 1, first=5)
    with monkeypatch.context() as patch:
        patch.setattr(MatchFiles, "write", _full)
        with (
            pytest.raises(StreamingQueryException, match="no room"),
            pipeline.consume(spark_session) as consuming,
        ):
            consuming.wait()
    with pipeline.consume(spark_session) as consuming:
        consuming.wait()
        assert sorted(map(found, consuming.engine.matches())) == sorted(oracle(given))
        recorded = consuming.engine.sql("SELECT id FROM rejected")["id"].to_pylist()
    pipeline.drain(spark_session)
    expected = sorted(oracle(given))
    assert {one[1] for one in expected} == set(QUERIES)
    assert sorted(rows(spark_session.read.parquet(str(pipeline.parquet)))) == expected
    source = spark_session.read.format("xscl_matches")
    assert sorted(rows(source.load(str(pipeline.results)))) == expected
    rejected = source.option("table", "_rejected").load(str(pipeline.results)).collect()
    malformed = [one.id for one in given if not one.xml.endswith(b">")]
    assert sorted(one.id for one in rejected) == sorted(malformed) == sorted(recorded)
    assert {(one.reason, one.stream) for one in rejected} <= {
        ("xml_syntax", stream) for stream in ("S", "T", "U")
    }
    assert {bytes(one.xml).decode() for one in rejected} == {
        one.xml.decode() for one in given if one.id in malformed
    }


def _full(*arguments: object) -> None:
    raise OSError("no room")


def test_a_pipeline_of_an_engine_that_is_open(spark_session: SparkSession, tmp_path: Path) -> None:
    """Its matches are read from it; they are written if a directory is named."""
    given = list(documents(24))
    places = Pipeline(tmp_path)
    fill(places.incoming, given, 2)
    with Engine() as engine:
        engine.subscribe_many(QUERIES.items())
        frame = places.documents(spark_session)
        options: dict[str, Any] = {"checkpoint": places.checkpoint, "results": places.results}
        with consume(frame, engine, **options, trigger={"availableNow": True}) as consuming:
            consuming.wait()
        assert sorted(map(found, engine.matches())) == sorted(oracle(given))
        flushed = [found(one) for one in engine.flush()]
        with consume(frame, engine, **options) as consuming:
            write(places.incoming, 2, [Document("U", "last", 0, b"<last/>")])
            while not len(engine.sql("SELECT id FROM documents WHERE id = 'last'")):
                assert not consuming.wait(1)
    matches = spark_session.read.format("xscl_matches").load(str(places.results))
    assert sorted(rows(matches)) == sorted([*oracle(given), *flushed])
    with pytest.raises(PipelineError, match="they belong to another store"), Engine() as another:
        consume(frame, another, **options)


def test_a_directory_is_locked_until_the_end(
    spark_session: SparkSession, pipeline: Pipeline
) -> None:
    pipeline.incoming.mkdir()
    with pipeline.consume(spark_session) as consuming:
        assert consuming.query.id
        with pytest.raises(DataDirectoryInUse, match="'xscl spark'"):
            pipeline.consume(spark_session)
    with pipeline.consume(spark_session):
        pass


def test_wrong_columns_are_errors_of_spark(spark_session: SparkSession, tmp_path: Path) -> None:
    def started(schema: str) -> None:
        frame = spark_session.readStream.schema(schema).json(str(tmp_path))
        with Engine() as engine:
            consume(frame, engine, checkpoint=tmp_path / "c")

    with pytest.raises(
        AnalysisException, match="there is no column 'xml', which is STRING or BINARY"
    ):
        started("stream string, id string, ts bigint")
    with pytest.raises(AnalysisException, match="'ts' is STRING, not TIMESTAMP or BIGINT or INT"):
        started("stream string, id string, ts string, xml string")
    with pytest.raises(AnalysisException, match=r"cast it, as CAST\(xml AS STRING\)"):
        started("stream string, id string, ts timestamp, xml int")
    frame = spark_session.createDataFrame([], SCHEMA)
    with Engine() as engine, pytest.raises(AnalysisException, match="WRITE_STREAM_NOT_ALLOWED"):
        consume(frame, engine, checkpoint=tmp_path / "c")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["joined:2", "spark_pushed:2", "spark_pushed:3"])
def test_killed_and_restarted(pipeline: Pipeline, fault: str) -> None:
    """The whole process is killed, before and after the engine's commit, and starts again."""
    given = list(documents(40))
    fill(pipeline.incoming, given, 4)
    killed = run(pipeline, {VARIABLE: fault})
    assert killed.returncode == -9, killed.stderr
    again = run(pipeline, {})
    assert again.returncode == 0, again.stderr
    tables = [pq.read_table(path) for path in pipeline.parquet.glob("*.parquet")]
    ids = [one for table in tables for one in table["id"].to_pylist()]
    assert sorted(ids) == sorted(one[0] for one in oracle(given))


@pytest.mark.slow
def test_processes_of_spark_never_import_pandas(pipeline: Pipeline) -> None:
    """The driver may: PyArrow and PySpark import pandas there if it is installed."""
    fill(pipeline.incoming, list(documents(40)), 2)
    done = run(pipeline, without_frames(pipeline.home))
    assert done.returncode == 0, done.stderr
    driver = done.stdout.strip()
    assert {one.name for one in (pipeline.home / "marks").iterdir()} <= {driver}


def run(pipeline: Pipeline, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Return the outcome of the program in a process of its own."""
    path = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(ROOT))))
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(pipeline.home)],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
