"""The data source without Spark: offsets and pointers follow from the spool alone."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import Segment, SegmentDamaged, SegmentsMissing, Spool, SpoolError
from xscl.language.parser import parse_block
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.remote.artefact import ArtefactDirectory
from xscl.shredding.remote.remote_bindings import read_bindings

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, ReadMinRows
from pyspark.sql.types import StructType

from xscl.ingestion.spark.spark_source import Row, SegmentSlice, SpoolReader, SpoolSource, shares


def fill(spool: Spool, count: int) -> None:
    for number in range(count):
        spool.append([Document("S", f"d{number}", number, b"<a/>")] * 2, 0)


def reader(spool: Spool, **options: str) -> SpoolReader:
    """A reader as Spark makes it, in another process and from a pickle."""
    source = SpoolSource({"path": str(spool.directory), **options})
    made = pickle.loads(pickle.dumps(source)).streamReader(StructType())
    copy = pickle.loads(pickle.dumps(made))
    assert isinstance(copy, SpoolReader)
    return copy


def pointers(reading: SpoolReader, start: int, end: int) -> list[Row]:
    found = reading.partitions({"segment": start}, {"segment": end})
    parts = pickle.loads(pickle.dumps(found))
    return [row for part in parts for row in reading.read(part)]


def test_offsets_follow_the_spool_up_to_the_limit(spool: Spool) -> None:
    reading = reader(spool, after="1", segments="2")
    assert reading.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reading.initialOffset() == {"segment": 1}
    fill(spool, 6)
    assert reading.latestOffset({"segment": 1}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 5}, ReadMaxFiles(2)) == {"segment": 6}
    assert reading.latestOffset({"segment": 6}, ReadMaxFiles(2)) == {"segment": 6}
    assert reading.latestOffset({"segment": 1}, ReadAllAvailable()) == {"segment": 6}
    with pytest.raises(SpoolError, match=r"knows no limit like ReadMinRows\(min_rows=1\)"):
        reading.latestOffset({"segment": 1}, ReadMinRows(1))


def test_a_micro_batch_is_bounded_by_bytes_too(spool: Spool) -> None:
    for number, size in enumerate((4_000, 20, 5_000, 20_000, 20)):
        spool.append([Document("S", f"d{number}", number, b"x" * size)], 0)
    reading, limit = reader(spool, bytes="10000"), ReadMaxFiles(64)
    ends = [0]
    while (end := reading.latestOffset({"segment": ends[-1]}, limit)["segment"]) > ends[-1]:
        ends.append(end)
    assert ends == [0, 2, 3, 4, 5]
    assert reading.latestOffset({"segment": 0}, ReadMaxFiles(1)) == {"segment": 1}
    assert reading.latestOffset({"segment": 0}, ReadAllAvailable()) == {"segment": 5}


def test_a_micro_batch_is_bounded_by_documents_too(spool: Spool) -> None:
    for number in range(6):
        spool.append([Document("S", f"{number}.{at}", 0, b"<a/>") for at in range(3)], 0)
    ends = {}
    for documents in (1, 3, 4, 100):
        reading = reader(spool, documents=str(documents))
        ends[documents] = reading.latestOffset({"segment": 1}, ReadMaxFiles(64))["segment"]
    assert ends == {1: 2, 3: 2, 4: 3, 100: 6}


@pytest.mark.usefixtures("apart")
def test_segments_that_were_deleted_or_given_up_are_stepped_over(spool: Spool) -> None:
    fill(spool, 6)
    spool.forget(3)
    spool.segment(6).path.unlink()
    spool.skip(6, 6)
    reading = reader(spool)
    assert reading.latestOffset({"segment": 0}, ReadMaxFiles(1)) == {"segment": 4}
    assert reading.latestOffset({"segment": 4}, ReadMaxFiles(1)) == {"segment": 5}
    assert reading.latestOffset({"segment": 5}, ReadMaxFiles(1)) == {"segment": 5}
    assert [row[0] for row in pointers(reading, 0, 6)] == [4, 5]
    assert pointers(reading, 5, 6) == []


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("limit", [ReadMaxFiles(1), ReadMaxFiles(64), ReadAllAvailable()])
def test_a_lost_segment_is_not_stepped_over(spool: Spool, limit: ReadLimit) -> None:
    fill(spool, 4)
    spool.segment(3).path.unlink()
    reading = reader(spool)
    end = 0
    while end < 2:
        end = reading.latestOffset({"segment": end}, limit)["segment"]
    assert end == 2
    for look in (
        lambda: reading.latestOffset({"segment": 2}, limit),
        lambda: pointers(reading, 0, 4),  # it went after the micro-batch was planned
    ):
        with pytest.raises(
            SegmentsMissing, match=r"003\.arrows is missing \(segment 3\): .*skip 3 "
        ):
            look()


def test_available_now_ends_where_the_spool_ended_at_its_start(spool: Spool) -> None:
    reading = reader(spool)
    fill(spool, 3)
    reading.prepareForTriggerAvailableNow()
    fill(spool, 3)
    assert reading.latestOffset({"segment": 0}, ReadMaxFiles(2)) == {"segment": 2}
    assert reading.latestOffset({"segment": 2}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 3}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 4}, ReadMaxFiles(2)) == {"segment": 4}
    assert reading.latestOffset({"segment": 0}, ReadAllAvailable()) == {"segment": 3}


def test_rows_point_to_segments(spool: Spool) -> None:
    fill(spool, 3)
    assert pointers(reader(spool), 1, 3) == [(2, 0, 2, None, 0), (3, 0, 2, None, 2)]


def test_shares_are_equal_and_in_order() -> None:
    segments = [
        Segment(number, Path(), rows, 0, 0) for number, rows in ((1, 3), (4, 7), (5, 0), (6, 1))
    ]
    assert shares(segments, 5) == [
        [SegmentSlice(1, 0, 3), SegmentSlice(4, 0, 2)],
        [SegmentSlice(4, 2, 7)],
        [SegmentSlice(5, 0, 0), SegmentSlice(6, 0, 1)],
    ]
    assert shares([], 5) == []


def test_the_witnesses_of_a_share_are_in_a_file(spool: Spool, tmp_path: Path) -> None:
    spool.append([Document("S", f"d{n}", n, xml) for n, xml in enumerate([b"<a/>", b"<a>"])], 0)
    fill(spool, 1)
    automaton = Automaton()
    block = parse_block("S/a")
    automaton.add(7, block, block, valued=False)
    ArtefactDirectory(tmp_path / "p").publish(automaton)
    reading = reader(spool, patterns=str(tmp_path / "p"))
    found = pointers(reading, 0, 2)
    assert [(row[:3], row[4]) for row in found] == [((1, 0, 2), 0), ((2, 0, 2), 2)]
    portion = read_bindings(Path(str(found[0][3])))
    assert portion.version == automaton.version
    assert sorted(portion.bindings.to_pydict()["doc"]) == [0, 2, 3]
    assert portion.bindings.to_pydict()["pair"] == [7, 7, 7]
    assert portion.refused == {1}


def test_patterns_that_are_gone_leave_the_work_to_the_consumer(
    spool: Spool, tmp_path: Path
) -> None:
    fill(spool, 1)
    (tmp_path / "current").write_text("an-older-one")
    reading = reader(spool, patterns=str(tmp_path))
    assert pointers(reading, 0, 1) == [(1, 0, 2, None, 0)]


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxFiles(2)])
def test_a_spool_that_went_backwards_is_an_error(
    spool: Spool, limit: ReadAllAvailable | ReadMaxFiles
) -> None:
    fill(spool, 2)
    with pytest.raises(SpoolError, match="gone backwards: segment 3 was consumed from it"):
        reader(spool).latestOffset({"segment": 3}, limit)


def test_a_damaged_segment_is_found_when_it_is_pointed_to(spool: Spool) -> None:
    fill(spool, 2)
    spool.segment(2).path.write_bytes(b"")
    with pytest.raises(SegmentDamaged):
        pointers(reader(spool), 0, 2)


def test_the_path_is_required() -> None:
    with pytest.raises(SpoolError, match="needs the option 'path'"):
        SpoolSource({}).streamReader(StructType())


def test_what_plans_loads_neither_the_engine_nor_stage_1() -> None:
    """Spark starts three such processes for each query, each from nothing."""
    code = (
        "import sys, xscl.ingestion.spark.spark_source\n"
        "print({'duckdb', 'lxml', 'lark', 'xscl.engine.facade', 'xscl.shredding.automaton.nfa'}"
        " & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "set()\n"
