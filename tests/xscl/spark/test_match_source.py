"""The data source without Spark: offsets and rows follow from the files alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMinRows

from feeds.documents import Document
from xscl.documents.retention import Retention
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.ingestion.pipeline import PipelineError
from xscl.spark import match_export
from xscl.spark.match_export import MatchExport
from xscl.spark.match_files import MATCHES, MatchFiles
from xscl.spark.match_source import MatchesMissing, ResultSource, ResultStreamReader


@pytest.fixture
def files(tmp_path: Path) -> MatchFiles:
    made = MatchFiles(tmp_path / "results")
    made.create()
    return made


def put(files: MatchFiles, first: int, last: int) -> None:
    """Write a file with two matches at each position."""
    positions = [position for position in range(first, last + 1) for _ in range(2)]
    rows = [
        {"id": f"m{at}", "subscription": "q", "documents": ["d"], "t0": 1, "t1": 2}
        | {"bindings": [("x", ["a", "b"])], "xml": "<a/>"}
        for at in positions
    ]
    files.write(first, last, pa.Table.from_pylist(rows, schema=MATCHES))


def reader(files: MatchFiles, **options: str) -> ResultStreamReader:
    """Return a reader as Spark makes it, in another process and from a pickle."""
    source = pickle.loads(pickle.dumps(ResultSource({"path": str(files.directory), **options})))
    made = pickle.loads(pickle.dumps(source.streamReader(source.schema())))
    assert isinstance(made, ResultStreamReader)
    return made


def ids(reading: ResultStreamReader, start: int, end: int) -> list[str]:
    parts = pickle.loads(pickle.dumps(reading.partitions({"position": start}, {"position": end})))
    batches = [batch for part in parts for batch in reading.read(part)]
    return [one for batch in batches for one in batch["id"].to_pylist()]


def test_offsets_are_positions_and_end_with_files(files: MatchFiles) -> None:
    reading = reader(files, maxFilesPerTrigger="2")
    assert reading.initialOffset() == {"position": 0}
    assert reading.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 0}
    for first, last in ((1, 3), (4, 4), (5, 9)):
        put(files, first, last)
    assert reading.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reading.latestOffset({"position": 0}, ReadMaxFiles(2)) == {"position": 4}
    assert reading.latestOffset({"position": 4}, ReadMaxFiles(2)) == {"position": 9}
    assert reading.latestOffset({"position": 9}, ReadMaxFiles(2)) == {"position": 9}
    assert reading.latestOffset({"position": 3}, ReadAllAvailable()) == {"position": 9}
    assert ids(reading, 0, 4) == [f"m{at}" for at in (1, 1, 2, 2, 3, 3, 4, 4)]
    assert ids(reading, 3, 9)[:4] == ["m4", "m4", "m5", "m5"]
    assert ids(reading, 9, 9) == []
    with pytest.raises(XsclError, match="knows no limit like ReadMinRows"):
        reading.latestOffset({"position": 0}, ReadMinRows(1))


def test_a_run_of_what_is_available_ends_while_matches_arrive(files: MatchFiles) -> None:
    put(files, 1, 3)
    reading = reader(files)
    reading.prepareForTriggerAvailableNow()
    put(files, 4, 5)
    assert reading.latestOffset({"position": 0}, ReadAllAvailable()) == {"position": 3}
    assert reading.latestOffset({"position": 3}, ReadAllAvailable()) == {"position": 3}


def test_missing_files_are_errors_and_old_ones_may_be_deleted(files: MatchFiles) -> None:
    for first, last in ((1, 3), (4, 4), (5, 9)):
        put(files, first, last)
    oldest, second, _ = files.files()
    oldest.path.unlink()
    reading = reader(files)
    assert reading.initialOffset() == {"position": 3}
    assert ids(reading, 3, 9) == [f"m{at}" for at in (4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9)]
    with pytest.raises(MatchesMissing, match="the matches after position 2 are not there"):
        reading.latestOffset({"position": 2}, ReadAllAvailable())
    second.path.unlink()
    with pytest.raises(MatchesMissing, match=r"the next file is 0*5-0*9\.arrow"):
        reading.partitions({"position": 3}, {"position": 9})
    with pytest.raises(MatchesMissing, match="up to position 12 are not there"):
        reading.partitions({"position": 9}, {"position": 12})
    with pytest.raises(MatchesMissing, match=r"end at position 9, .* up to 10: .* or older"):
        reading.latestOffset({"position": 10}, ReadAllAvailable())


def test_wrong_options_are_told(files: MatchFiles, tmp_path: Path) -> None:
    with pytest.raises(XsclError, match="needs a path"):
        ResultSource({}).reader(ResultSource({}).schema())
    with pytest.raises(XsclError, match="has no matches"):
        reader(MatchFiles(tmp_path / "nothing"))
    with pytest.raises(XsclError, match="has no table 'rejected'"):
        reader(files, table="rejected")
    with pytest.raises(XsclError, match="_rejected is no stream"):
        reader(files, table="_rejected")


def test_tasks_load_neither_the_engine_nor_duckdb(files: MatchFiles) -> None:
    put(files, 1, 1)
    program = (
        "import sys, pickle\n"
        "source = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "reader = source.streamReader(source.schema())\n"
        "(part,) = reader.partitions({'position': 0}, {'position': 1})\n"
        "assert sum(len(batch) for batch in reader.read(part)) == 2\n"
        "print(sorted({'duckdb', 'pandas', 'lxml', 'xscl.engine.facade'} & set(sys.modules)))"
    )
    source = pickle.dumps(ResultSource({"path": str(files.directory)}))
    done = subprocess.run(
        [sys.executable, "-c", program, source.hex()], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_without_spark_the_names_say_how_to_install_it() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import xscl.spark\n"
        "try:\n    xscl.spark.join\nexcept Exception as error:\n"
        "    print(type(error).__name__, error, error.hint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "PipelineError Spark is not installed pip install 'xscl[spark]'\n"


# -- Export ----------------------------------------------------------------------------------

MINUTE = 60_000_000


def pushed(engine: Engine, *numbers: int) -> None:
    engine.push(Document("S", f"d{n}", n * MINUTE, b"<a>k</a>") for n in numbers)


def exported(files: MatchFiles) -> list[str]:
    return ids(reader(files), 0, files.files()[-1].last)


def test_each_match_is_written_once_and_a_position_is_in_one_file(
    files: MatchFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_export, "FILE", 3)
    with Engine() as engine:
        engine.subscribe("one", "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y")
        engine.subscribe("same", "S//a->u FOLLOWED BY{u=v, 1 d} S//a->v")
        export = MatchExport(engine, files)
        for numbers in ((1, 2), (3, 4, 5), (), (6,)):
            pushed(engine, *numbers)
            export.write()
            export.write()
        assert exported(files) == [one.id for one in engine.matches()]
        ranges = [(one.first, one.last) for one in files.files()]
        assert [first for first, _ in ranges] == [1, *(last + 1 for _, last in ranges[:-1])]
        assert len(ranges) > 4
        for first, last in ranges:
            within = [one.id for one in engine.matches() if first <= one.position <= last]
            assert ids(reader(files), first - 1, last) == within


def test_an_export_continues_after_a_restart_or_says_why_not(
    files: MatchFiles, tmp_path: Path
) -> None:
    path = tmp_path / "state.sqlite"
    retention = Retention.of(matches="1 h")
    with Engine(path, retention=retention) as engine:
        engine.subscribe("one", "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y")
        MatchExport(engine, files)
        pushed(engine, *range(1, 900, 30))
    with Engine(path) as engine:
        MatchExport(engine, files).write()
        before = exported(files)
        assert before == [one.id for one in engine.matches()]
        pushed(engine, 1000)
        pushed(engine, 1100)
        pushed(engine, 1200)
        with pytest.raises(PipelineError, match="are no longer kept"):
            MatchExport(engine, files)
    with Engine() as other, pytest.raises(PipelineError, match="belong to another store"):
        MatchExport(other, files)
